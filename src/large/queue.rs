//! The queue of jobs by principal; principals take turns.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use quota_semantics::Name;

use super::job::Waiting;
use crate::pacing::{ACTIVITY, Accounts};

/// Jobs that wait for their turn.
#[derive(Default)]
pub(super) struct Queue {
    /// The jobs of each principal that has any.
    jobs: BTreeMap<Name, VecDeque<Waiting>>,
    /// Principals with jobs of which none is running, the next one first.
    order: VecDeque<Name>,
    /// Principals with a running job.
    pub(super) served: BTreeSet<Name>,
    pub(super) accounts: Accounts,
}

/// The next step for a thread of the pool.
pub(super) enum Next {
    Job(Name, Waiting),
    /// No job may start before this time has passed: the waiting principals have used up their share.
    In(Duration),
    Nothing,
}

impl Queue {
    pub(super) fn count(&self, principal: &Name) -> usize {
        self.jobs.get(principal).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, principal: Name, job: Waiting) {
        let jobs = self.jobs.entry(principal.clone()).or_default();
        jobs.push_back(job);
        if jobs.len() == 1 && !self.served.contains(&principal) {
            self.order.push_back(principal);
        }
    }

    /// The next job of the first principal that may have more made now.
    pub(super) fn take(&mut self, now: Instant) -> Next {
        let waits = self.order.iter().map(|name| self.wait_of(name, now));
        let Some((at, wait)) = waits.enumerate().min_by_key(|(_, wait)| *wait) else {
            return Next::Nothing;
        };
        if !wait.is_zero() {
            return Next::In(wait);
        }
        let principal = self.order.remove(at);
        let taken = principal.and_then(|principal| {
            let jobs = self.jobs.get_mut(&principal)?;
            let job = jobs.pop_front()?;
            if jobs.is_empty() {
                self.jobs.remove(&principal);
            }
            self.served.insert(principal.clone());
            Some(Next::Job(principal, job))
        });
        taken.unwrap_or(Next::Nothing)
    }

    /// How long the principal has to wait for its next job.
    pub(super) fn wait_of(&self, principal: &Name, now: Instant) -> Duration {
        let until = self.accounts.waits_until(principal, &ACTIVITY, now);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Marks the principal's running job as done; answers whether another one waits.
    pub(super) fn done(&mut self, principal: &Name) -> bool {
        self.served.remove(principal);
        let more = self.jobs.contains_key(principal);
        if more {
            self.order.push_back(principal.clone());
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(waiting: &mut Queue) -> Option<String> {
        match waiting.take(Instant::now()) {
            Next::Job(principal, _) => Some(principal.to_string()),
            Next::In(_) | Next::Nothing => None,
        }
    }

    #[test]
    fn principals_take_turns_and_have_one_at_a_time() {
        let mut waiting = Queue::default();
        for principal in ["a", "a", "a", "b", "b"] {
            waiting.push(principal.into(), Waiting::default());
        }
        assert_eq!(next(&mut waiting).as_deref(), Some("a"));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert_eq!(next(&mut waiting), None, "both are served");
        waiting.push("a".into(), Waiting::default());
        assert_eq!(next(&mut waiting), None, "a is served");
        assert!(waiting.done(&"b".into()));
        assert!(waiting.done(&"a".into()));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert!(!waiting.done(&"b".into()));
        for left in [true, true, false] {
            assert_eq!(next(&mut waiting).as_deref(), Some("a"));
            assert_eq!(waiting.done(&"a".into()), left);
        }
        assert!(waiting.jobs.is_empty() && waiting.order.is_empty() && waiting.served.is_empty());
    }

    #[test]
    fn who_has_used_too_much_holds_nobody_up() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let [much, other] = ["has had much", "has had nothing"].map(Name::from);
        ACTIVITY.note(Some(&much), now);
        ACTIVITY.note(Some(&other), now);
        queue
            .accounts
            .charge(&much, Duration::from_secs(60), &ACTIVITY, now);
        queue.push(much.clone(), Waiting::default());
        queue.push(other.clone(), Waiting::default());
        assert!(matches!(queue.take(now), Next::Job(name, _) if name == other));
        assert!(
            matches!(queue.take(now), Next::In(_)),
            "the first one waits"
        );
        let later = now + Duration::from_secs(3600);
        assert!(matches!(queue.take(later), Next::Job(name, _) if name == much));
        assert!(matches!(queue.take(later), Next::Nothing));
    }
}
