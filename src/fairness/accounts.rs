//! The processor time of each principal: who has used much waits while others are active.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quota_semantics::Name;

/// The cost of work as a multiple of its time: a principal uses a tenth of a processor.
const PRICE: u32 = 10;

/// The processor time that may be used in one burst.
const BURST: Duration = Duration::from_millis(50);

/// Longest single wait, so that even expensive work completes within the timeout of a request.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// A principal counts as active for this long after a request.
const ACTIVE: Duration = Duration::from_secs(1);

/// The principals that have made requests lately.
pub(crate) static ACTIVITY: Activity = Activity::none();

/// The accounts of principals for one kind of work.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// When each principal's debt is paid; principals without debt have no entry.
    paid: BTreeMap<Name, Instant>,
}

impl Accounts {
    /// Charges work, up to a debt that is paid within [`LONGEST`]. While no others are active the debt is limited to
    /// the burst, so that a principal does not pay later for work that it did alone.
    pub(super) fn charge(
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
    pub(super) fn waits_until(
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
