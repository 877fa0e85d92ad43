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

// The writer's queue: the cluster's jobs first, then one of each principal in turn. So a flood queues behind itself.

/// Most of the cluster's jobs that are taken before one of a principal, so that no principal starves.
const FIRST_IN_A_ROW: usize = 32;

/// The share of the queue that is kept for the cluster's jobs: one of this many places.
const KEPT_FOR_FIRST: usize = 8;

/// The lane in which a job waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Before the jobs of principals: the webhook, events, and the daemon itself.
    First,
    /// In turn with the jobs of other principals.
    Of(Name),
}

impl Lane {
    /// The job's principal; none for the cluster.
    pub(crate) const fn principal(&self) -> Option<&Name> {
        match self {
            Self::First => None,
            Self::Of(principal) => Some(principal),
        }
    }
}

/// A job, and its lane.
pub(crate) struct Queued<J> {
    pub(crate) lane: Lane,
    pub(crate) job: J,
}

/// Waiting jobs.
pub(crate) struct Lanes<J> {
    first: VecDeque<J>,
    others: Turns<J>,
    in_a_row: usize,
}

impl<J> Default for Lanes<J> {
    fn default() -> Self {
        Self { first: VecDeque::new(), others: Turns::default(), in_a_row: 0 }
    }
}

impl<J> Lanes<J> {
    fn len(&self) -> usize {
        self.first.len() + self.others.len()
    }

    /// How many jobs can be taken, not counting principals that have to wait.
    pub(crate) fn ready(&self) -> usize {
        self.first.len() + self.others.ready()
    }

    /// Whether there are no jobs, delayed ones included.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next delayed principal may continue.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.others.next_ready()
    }

    /// Charges a principal for a decision.
    pub(crate) fn charge(&mut self, principal: &Name, work: Duration, now: Instant) {
        self.others.charge(principal, work, now);
    }

    /// Ends the delays whose time is over.
    pub(crate) fn end_delays(&mut self, now: Instant) {
        self.others.end_delays(now);
    }

    /// Ends all delays, since the remaining jobs have to be decided soon.
    pub(crate) fn end_all_delays(&mut self) {
        self.others.end_all_delays();
    }

    /// Whether there is room for the jobs of one call, of `capacity` in total. A principal may have at most as many jobs
    /// as places stay free: one principal alone leaves half of the room to others, two leave a third. Principals together
    /// leave an eighth to the cluster. If no principal has jobs, one may have all jobs of its call decided, however many
    /// they are.
    pub(crate) fn have_room(&self, lane: &Lane, jobs: usize, capacity: usize) -> bool {
        let for_others = capacity - capacity / KEPT_FOR_FIRST;
        let (len, others) = (self.len(), self.others.len());
        let free = |held: usize, most: usize| most.saturating_sub(held);
        match lane {
            Lane::First => free(self.first.len() + others.min(for_others), capacity) >= jobs,
            Lane::Of(_) if others == 0 => len < capacity,
            Lane::Of(principal) => {
                let free = free(len, capacity).min(free(others, for_others));
                self.others.count(principal) + 2 * jobs <= free + 1
            }
        }
    }

    pub(crate) fn push(&mut self, Queued { lane, job }: Queued<J>) {
        match lane {
            Lane::First => self.first.push_back(job),
            Lane::Of(principal) => self.others.push(principal, job),
        }
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Queued<J>> {
        if self.in_a_row >= FIRST_IN_A_ROW
            && let Some(queued) = self.pop_other(now)
        {
            return Some(queued);
        }
        let Some(job) = self.first.pop_front() else {
            return self.pop_other(now);
        };
        self.in_a_row += 1;
        let lane = Lane::First;
        Some(Queued { lane, job })
    }

    fn pop_other(&mut self, now: Instant) -> Option<Queued<J>> {
        self.in_a_row = 0;
        let (principal, job) = self.others.pop(now)?;
        let lane = Lane::Of(principal);
        Some(Queued { lane, job })
    }

    /// Puts back the job that was taken last, so that it is the next to be taken.
    pub(crate) fn put_back(&mut self, Queued { lane, job }: Queued<J>) {
        match lane {
            Lane::First => self.first.push_front(job),
            Lane::Of(principal) => self.others.put_back(principal, job),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    use crate::fairness::ACTIVITY;

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

    /// Jobs that are distinguishable once they are taken: by the lanes into which they were pushed.
    fn pushed(into: &[Lane]) -> Lanes<()> {
        let mut lanes = Lanes::default();
        for lane in into {
            lanes.push(waiting(lane));
        }
        lanes
    }

    fn waiting(lane: &Lane) -> Queued<()> {
        let lane = lane.clone();
        Queued { lane, job: () }
    }

    fn of(principal: &str) -> Lane {
        Lane::Of(principal.into())
    }

    fn taken(lanes: &mut Lanes<()>) -> Vec<Lane> {
        std::iter::from_fn(|| lanes.pop(Instant::now())).map(|queued| queued.lane).collect()
    }

    #[test]
    fn principals_take_turns_behind_what_comes_first() {
        let [a, b, c] = ["a", "b", "c"].map(of);
        let flood = [&a, &a, &a, &a, &b, &Lane::First, &c, &b, &Lane::First].map(Clone::clone);
        let mut lanes = pushed(&flood);
        assert_eq!(lanes.len(), 9);
        let expected = [&Lane::First, &Lane::First, &a, &b, &c, &a, &b, &a, &a];
        assert_eq!(taken(&mut lanes), expected.map(Clone::clone));
        assert!(lanes.is_empty());
    }

    #[test]
    fn jobs_of_one_principal_keep_their_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut lanes = Lanes::default();
        for number in 0..5 {
            let mark = Marked(number, order.clone());
            let lane = of("a");
            lanes.push(Queued { lane, job: mark });
        }
        let last = lanes.pop(Instant::now()).unwrap();
        lanes.put_back(last);
        // A dropped job drops its data.
        while let Some(waiting) = lanes.pop(Instant::now()) {
            drop(waiting);
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }

    struct Marked(u32, Arc<Mutex<Vec<u32>>>);

    impl Drop for Marked {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn what_comes_first_does_not_keep_the_others_waiting_for_ever() {
        let mut lanes = pushed(&vec![Lane::First; 3 * FIRST_IN_A_ROW]);
        lanes.push(waiting(&of("a")));
        let order = taken(&mut lanes);
        assert_eq!(order.iter().position(|t| *t == of("a")), Some(FIRST_IN_A_ROW));
    }

    #[test]
    fn what_is_put_back_is_taken_next() {
        let [a, b] = ["a", "b"].map(of);
        let mut lanes = pushed(&[a.clone(), a.clone(), b.clone(), b.clone(), Lane::First]);
        let mut out: Vec<_> = (0..3).filter_map(|_| lanes.pop(Instant::now())).collect();
        assert_eq!(lanes.len(), 2);
        while let Some(waiting) = out.pop() {
            lanes.put_back(waiting);
        }
        assert_eq!(taken(&mut lanes), [Lane::First, a.clone(), b.clone(), a, b]);
    }

    #[test]
    fn a_flood_leaves_room_to_others() {
        let mut lanes = Lanes::default();
        let mut fill = |lane: &Lane| {
            let before = lanes.len();
            while lanes.have_room(lane, 1, 12) {
                lanes.push(waiting(lane));
            }
            lanes.len() - before
        };
        assert_eq!(fill(&of("flood")), 6);
        assert_eq!(fill(&of("other")), 3);
        assert_eq!(fill(&of("third")), 1);
        // The cluster's own jobs may fill the queue.
        assert_eq!(fill(&Lane::First), 2);
        assert_eq!(fill(&of("late")), 0);
    }

    #[test]
    fn principals_leave_room_to_the_cluster_however_many_jobs_their_calls_have() {
        let mut lanes = Lanes::default();
        let push = |lanes: &mut Lanes<()>, lane: &Lane, jobs| {
            let has_room = lanes.have_room(lane, jobs, 64);
            (0..jobs).filter(|_| has_room).for_each(|_| lanes.push(waiting(lane)));
            has_room
        };
        let tenants: Vec<_> = (0..20).map(|number| of(&format!("tenant {number}"))).collect();
        let fill = |lanes: &mut Lanes<()>, jobs| {
            let room = |tenant| while push(lanes, tenant, jobs) {};
            tenants.iter().for_each(room);
        };
        fill(&mut lanes, 7);
        fill(&mut lanes, 1);
        assert_eq!(lanes.len(), 56);
        while push(&mut lanes, &Lane::First, 1) {}
        assert_eq!(lanes.len(), 64);

        // A call of more jobs than a principal may have is decided while no principal waits. The cluster keeps its places.
        let mut lanes = pushed(&[Lane::First]);
        assert!(push(&mut lanes, &of("batch"), 125));
        assert!(!push(&mut lanes, &of("other"), 1));
        while push(&mut lanes, &Lane::First, 1) {}
        assert_eq!(lanes.first.len(), 8);
    }

    #[test]
    fn a_queue_of_one_place_takes_a_job_of_anybody() {
        let mut lanes = Lanes::default();
        assert!(lanes.have_room(&of("a"), 1, 1) && lanes.have_room(&Lane::First, 1, 1));
        lanes.push(waiting(&of("a")));
        assert!(!lanes.have_room(&of("b"), 1, 1) && !lanes.have_room(&Lane::First, 1, 1));
    }

    #[test]
    fn whose_decisions_were_expensive_waits_beside_others() {
        let [flood, other] = ["a flood of lanes", "another one"].map(Name::from);
        let [of_flood, of_other] = [&flood, &other].map(|name| Lane::Of(name.clone()));
        let mut lanes = pushed(&[of_flood.clone(), of_other.clone(), of_flood.clone()]);
        let now = Instant::now();
        ACTIVITY.note(Some(&other), now);
        lanes.charge(&flood, Duration::from_millis(60), now);
        let others = lanes.pop(now).unwrap();
        assert_eq!(others.lane, of_other);
        assert!(lanes.pop(now).is_none());
        lanes.push(others);
        lanes.push(waiting(&of_flood));
        assert_eq!((lanes.ready(), lanes.len()), (1, 4));
        let until = lanes.next_ready().unwrap();
        assert_eq!(until, now + Duration::from_millis(100));
        lanes.end_delays(until - Duration::from_nanos(1));
        assert_eq!(lanes.ready(), 1);
        lanes.end_delays(until);
        assert_eq!((lanes.ready(), lanes.next_ready()), (4, None));
        ACTIVITY.note(Some(&other), until);
        let first = lanes.pop(until).unwrap();
        let second = lanes.pop(until).unwrap();
        assert_eq!([&first.lane, &second.lane], [&of_other, &of_flood]);
        // Work during the delay is charged as well; a job that was put back waits with the others.
        lanes.charge(&flood, Duration::from_millis(2), until);
        assert!(lanes.pop(until).is_none());
        lanes.put_back(second);
        assert_eq!((lanes.ready(), lanes.len()), (0, 3));
        lanes.end_all_delays();
        assert_eq!(taken(&mut lanes), vec![of_flood; 3]);
        assert_eq!((lanes.len(), lanes.others.ready()), (0, 0));
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
