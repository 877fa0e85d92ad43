//! Jobs by principal; principals take turns.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quota_semantics::Name;

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

/// The cost of work as a multiple of its time: a principal uses a tenth of a processor.
const PRICE: u32 = 10;

/// The processor time that may be used in one burst.
const BURST: Duration = Duration::from_millis(50);

/// Longest single wait, so that even expensive work completes within the timeout of a request.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// A principal counts as active for this long after a request.
const ACTIVE: Duration = Duration::from_secs(1);

/// The principals that have made requests lately.
pub(crate) static ACTIVITY: Activity = Activity::none();

/// The accounts of principals for one kind of work.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// When each principal's debt is paid; principals without debt have no entry.
    paid: BTreeMap<Name, Instant>,
}

impl Accounts {
    /// Charges work, up to a debt that is paid within [`LONGEST`]. While no others are active the debt is limited to
    /// the burst, so that a principal does not pay later for work that it did alone.
    pub(crate) fn charge(
        &mut self,
        principal: &Name,
        work: Duration,
        activity: &Activity,
        now: Instant,
    ) {
        self.paid.retain(|_, paid| *paid > now);
        let mut paid = self.paid.get(principal).copied().unwrap_or(now) + PRICE * work;
        let most = match activity.of_others_until(principal, now) {
            Some(_) => LONGEST,
            None => Duration::ZERO,
        };
        paid = paid.min(now + PRICE * BURST + most);
        self.paid.insert(principal.clone(), paid);
    }

    /// Until when further work of the principal waits, depending on whether others stay active; none if it need not
    /// wait.
    pub(crate) fn waits_until(
        &self,
        principal: &Name,
        activity: &Activity,
        now: Instant,
    ) -> Option<Instant> {
        let until = *self.paid.get(principal)? - PRICE * BURST;
        if until <= now {
            return None;
        }
        let others = activity.of_others_until(principal, now)?;
        Some(until.min(others))
    }
}

/// The principals that have made requests lately. Two times are enough: that of the last principal, and the last one of
/// all others.
pub(crate) struct Activity(Mutex<Lately>);

struct Lately {
    last: Option<(Option<Name>, Instant)>,
    other: Option<Instant>,
}

impl Activity {
    const fn none() -> Self {
        let nobody = Lately { last: None, other: None };
        Self(Mutex::new(nobody))
    }

    /// Records a request of a principal; none for work of the cluster, such as events and reviews.
    pub(crate) fn note(&self, principal: Option<&Name>, now: Instant) {
        let lately = &mut *self.0.lock();
        match &mut lately.last {
            Some((last, at)) if last.as_ref() == principal => *at = now,
            last => {
                let before = last.replace((principal.cloned(), now));
                lately.other = before.map(|(_, at)| at);
            }
        }
    }

    /// Until when another principal counts as active; none if there is no other.
    pub(crate) fn of_others_until(&self, principal: &Name, now: Instant) -> Option<Instant> {
        let lately = self.0.lock();
        let at = match &lately.last {
            Some((last, at)) if last.as_ref() != Some(principal) => Some(*at),
            _ => lately.other,
        };
        at.map(|at| at + ACTIVE).filter(|until| *until > now)
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

#[cfg(test)]
mod accounts_tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Activity with another principal.
    fn beside(other: &str, now: Instant) -> Activity {
        let activity = Activity::none();
        activity.note(Some(&other.into()), now);
        activity
    }

    #[test]
    fn work_beyond_a_burst_takes_a_tenth_of_the_time() {
        let (begin, flood) = (Instant::now(), Name::from("flood"));
        let mut accounts = Accounts::default();
        let (mut now, mut worked) = (begin, Duration::ZERO);
        while now < begin + 10_000 * MS {
            let activity = beside("other", now);
            accounts.charge(&flood, 2 * MS, &activity, now);
            worked += 2 * MS;
            now += 2 * MS;
            let until = accounts.waits_until(&flood, &activity, now);
            now = until.unwrap_or(now);
        }
        assert!((1_000 * MS..=1_060 * MS).contains(&worked), "{worked:?}");
        let other = Name::from("other");
        let activity = beside("flood", now);
        assert_eq!(accounts.waits_until(&other, &activity, now), None);
        // A paid debt is removed.
        accounts.charge(&other, MS, &activity, now + 1_000 * MS);
        assert_eq!(accounts.paid.len(), 1);
    }

    #[test]
    fn what_is_done_alone_neither_waits_nor_is_paid_for_later() {
        let (now, name) = (Instant::now(), Name::from("alone"));
        let mut accounts = Accounts::default();
        let alone = beside("alone", now);
        for _ in 0..1000 {
            accounts.charge(&name, 100 * MS, &alone, now);
            assert_eq!(accounts.waits_until(&name, &alone, now), None);
        }
        let activity = beside("other", now);
        assert_eq!(accounts.waits_until(&name, &activity, now), None);
        accounts.charge(&name, 2 * MS, &activity, now);
        let until = now + 20 * MS;
        assert_eq!(accounts.waits_until(&name, &activity, now), Some(until));
        assert_eq!(accounts.waits_until(&name, &activity, until), None);
        assert_eq!(accounts.waits_until(&name, &alone, now), None);
        // The work goes on when no other principal is active any more.
        accounts.charge(&name, 10_000 * MS, &activity, now);
        let until = now + ACTIVE;
        assert_eq!(accounts.waits_until(&name, &activity, now), Some(until));
        assert_eq!(accounts.waits_until(&name, &activity, until), None);
    }

    #[test]
    fn others_are_active_for_a_while() {
        let begin = Instant::now();
        let [a, b, c] = ["a", "b", "c"].map(Name::from);
        let lately = Activity::none();
        assert_eq!(lately.of_others_until(&a, begin), None);
        lately.note(Some(&a), begin);
        lately.note(Some(&a), begin + MS);
        assert_eq!(lately.of_others_until(&a, begin + MS), None);
        assert_eq!(lately.of_others_until(&b, begin + MS), Some(begin + MS + ACTIVE));
        lately.note(Some(&b), begin + 2 * MS);
        lately.note(Some(&b), begin + 3 * MS);
        let now = begin + 4 * MS;
        assert_eq!(lately.of_others_until(&a, now), Some(now - MS + ACTIVE));
        assert_eq!(lately.of_others_until(&b, now), Some(begin + MS + ACTIVE));
        assert_eq!(lately.of_others_until(&c, now), Some(now - MS + ACTIVE));
        assert_eq!(lately.of_others_until(&b, begin + MS + ACTIVE), None);
        lately.note(None, now);
        assert_eq!(lately.of_others_until(&b, now), Some(now + ACTIVE));
    }
}
