//! Jobs by principal; principals take turns.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use quota_semantics::Name;

use super::accounts::{ACTIVITY, Accounts};

/// Jobs that wait for the turn of their principal. A principal with jobs is in exactly one of three places: in the
/// order, delayed, or held.
pub(super) struct Turns<J> {
    /// The jobs of each principal that has any.
    jobs: BTreeMap<Name, VecDeque<J>>,
    /// The principals whose jobs may be taken, the next one first.
    order: VecDeque<Name>,
    /// The principals that have used up their share, and until when they wait.
    delayed: BTreeMap<Name, Instant>,
    /// The principals of which no further job is taken until [`Turns::release`].
    held: BTreeSet<Name>,
    len: usize,
    delayed_len: usize,
    accounts: Accounts,
}

impl<J> Default for Turns<J> {
    fn default() -> Self {
        Self {
            jobs: BTreeMap::new(),
            order: VecDeque::new(),
            delayed: BTreeMap::new(),
            held: BTreeSet::new(),
            len: 0,
            delayed_len: 0,
            accounts: Accounts::default(),
        }
    }
}

impl<J> Turns<J> {
    /// How many jobs wait, delayed ones included.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// How many jobs wait only for their turn.
    pub(super) const fn ready(&self) -> usize {
        self.len - self.delayed_len
    }

    /// How many jobs of the principal wait.
    pub(super) fn count(&self, principal: &Name) -> usize {
        self.jobs.get(principal).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, principal: Name, job: J) {
        self.len += 1;
        self.delayed_len += usize::from(self.delayed.contains_key(&principal));
        if let Some(jobs) = self.jobs.get_mut(&principal) {
            jobs.push_back(job);
            return;
        }
        if !self.held.contains(&principal) {
            self.order.push_back(principal.clone());
        }
        self.jobs.insert(principal, VecDeque::from([job]));
    }

    /// Puts back the job that was taken last, so that it is the next to be taken.
    pub(super) fn put_back(&mut self, principal: Name, job: J) {
        self.len += 1;
        let jobs = self.jobs.entry(principal.clone()).or_default();
        jobs.push_front(job);
        if self.delayed.contains_key(&principal) {
            self.delayed_len += 1;
            return;
        }
        self.order.retain(|other| *other != principal);
        self.order.push_front(principal);
    }

    /// Takes a job of the first principal that need not wait.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Name, J)> {
        let principal = loop {
            let principal = self.order.pop_front()?;
            match self.accounts.waits_until(&principal, &ACTIVITY, now) {
                None => break principal,
                Some(until) => {
                    self.delayed_len += self.count(&principal);
                    self.delayed.insert(principal, until);
                }
            }
        };
        let jobs = self.jobs.get_mut(&principal)?;
        let job = jobs.pop_front()?;
        self.len -= 1;
        if jobs.is_empty() {
            self.jobs.remove(&principal);
        } else {
            self.order.push_back(principal.clone());
        }
        Some((principal, job))
    }

    /// Takes a job as [`Turns::pop`] does. No further job of the principal is taken until [`Turns::release`].
    pub(super) fn pop_and_hold(&mut self, now: Instant) -> Option<(Name, J)> {
        let (principal, job) = self.pop(now)?;
        if self.jobs.contains_key(&principal) {
            self.order.pop_back();
        }
        self.held.insert(principal.clone());
        Some((principal, job))
    }

    /// Lets further jobs of the principal be taken. Returns true if there are any.
    pub(super) fn release(&mut self, principal: &Name) -> bool {
        self.held.remove(principal);
        let more = self.jobs.contains_key(principal);
        if more {
            self.order.push_back(principal.clone());
        }
        more
    }

    /// Returns true while a job of the principal is held.
    #[cfg(test)]
    pub(super) fn is_held(&self, principal: &Name) -> bool {
        self.held.contains(principal)
    }

    /// Charges a principal for work.
    pub(super) fn charge(&mut self, principal: &Name, work: Duration, now: Instant) {
        self.accounts.charge(principal, work, &ACTIVITY, now);
    }

    /// Until when the principal waits for its next job; none if it need not wait.
    pub(super) fn waits_until(&self, principal: &Name, now: Instant) -> Option<Instant> {
        self.accounts.waits_until(principal, &ACTIVITY, now)
    }

    /// When the next delayed principal may continue.
    pub(super) fn next_ready(&self) -> Option<Instant> {
        self.delayed.values().min().copied()
    }

    /// Ends the delays whose time is over.
    pub(super) fn end_delays(&mut self, now: Instant) {
        self.delayed.retain(|principal, until| {
            let waits = *until > now;
            if !waits {
                self.delayed_len -= self.jobs.get(principal).map_or(0, VecDeque::len);
                self.order.push_back(principal.clone());
            }
            waits
        });
    }

    /// Ends all delays, and forgets what principals were charged.
    pub(super) fn end_all_delays(&mut self) {
        self.accounts = Accounts::default();
        if let Some(last) = self.delayed.values().max().copied() {
            self.end_delays(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(turns: &mut Turns<()>) -> Option<String> {
        let (principal, ()) = turns.pop_and_hold(Instant::now())?;
        Some(principal.to_string())
    }

    #[test]
    fn principals_take_turns_and_have_one_at_a_time() {
        let mut turns = Turns::default();
        for principal in ["a", "a", "a", "b", "b"] {
            turns.push(principal.into(), ());
        }
        assert_eq!(next(&mut turns).as_deref(), Some("a"));
        assert_eq!(next(&mut turns).as_deref(), Some("b"));
        assert_eq!(next(&mut turns), None, "both are held");
        turns.push("a".into(), ());
        assert_eq!(next(&mut turns), None, "a is held");
        assert!(turns.release(&"b".into()));
        assert!(turns.release(&"a".into()));
        assert_eq!(next(&mut turns).as_deref(), Some("b"));
        assert!(!turns.release(&"b".into()));
        for left in [true, true, false] {
            assert_eq!(next(&mut turns).as_deref(), Some("a"));
            assert_eq!(turns.release(&"a".into()), left);
        }
        assert!(turns.jobs.is_empty() && turns.order.is_empty() && turns.held.is_empty());
        assert_eq!((turns.len(), turns.ready()), (0, 0));
    }

    #[test]
    fn who_has_used_too_much_holds_nobody_up() {
        let mut turns = Turns::default();
        let now = Instant::now();
        let [much, other] = ["has had much", "has had nothing"].map(Name::from);
        ACTIVITY.note(Some(&much), now);
        ACTIVITY.note(Some(&other), now);
        turns.charge(&much, Duration::from_secs(60), now);
        turns.push(much.clone(), ());
        turns.push(other.clone(), ());
        let taken = |(name, ()): (Name, ())| name;
        assert_eq!(turns.pop_and_hold(now).map(taken), Some(other));
        assert_eq!(turns.pop_and_hold(now).map(taken), None, "the first one waits");
        let later = turns.next_ready().unwrap();
        assert!(later > now);
        turns.end_delays(later);
        assert_eq!(turns.pop_and_hold(later).map(taken), Some(much));
        assert_eq!(turns.next_ready(), None);
    }
}
