//! Waiting jobs, in the order in which they are taken: the cluster's jobs first, then one of each principal in turn. So
//! a flood queues behind itself. In addition, a principal whose decisions were expensive waits while others are active.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use quota_semantics::Name;

use super::Job;
use crate::pacing::{ACTIVITY, Accounts};

/// Most of the cluster's jobs that are taken before one of a principal, so that no principal starves.
const FIRST_IN_A_ROW: usize = 32;

/// The share of the queue that is kept for the cluster's jobs: one of so many places.
const KEPT_FOR_FIRST: usize = 8;

/// The place of a job in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Before the jobs of principals: the webhook, events, and the daemon itself.
    First,
    /// In turn with the jobs of other principals.
    Of(Name),
}

impl Turn {
    /// The job's principal; none for the cluster.
    pub(super) const fn principal(&self) -> Option<&Name> {
        match self {
            Self::First => None,
            Self::Of(principal) => Some(principal),
        }
    }
}

/// A job, and its place in the order.
pub(super) struct Waiting {
    pub(super) turn: Turn,
    pub(super) job: Job,
}

/// Waiting jobs.
#[derive(Default)]
pub(super) struct Lanes {
    first: VecDeque<Job>,
    /// The jobs of each principal that has any.
    others: BTreeMap<Name, VecDeque<Job>>,
    /// The principals whose jobs may be taken, the next one first.
    order: VecDeque<Name>,
    /// The other principals: those that have used up their share, and until when they wait.
    delayed: BTreeMap<Name, Instant>,
    delayed_len: usize,
    len: usize,
    in_a_row: usize,
    accounts: Accounts,
}

impl Lanes {
    /// How many jobs can be taken, not counting principals that have to wait.
    pub(super) const fn ready(&self) -> usize {
        self.len - self.delayed_len
    }

    /// Whether there are no jobs, delayed ones included.
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the next delayed principal may continue.
    pub(super) fn next_ready(&self) -> Option<Instant> {
        self.delayed.values().min().copied()
    }

    /// Charges a principal for a decision.
    pub(super) fn charge(&mut self, principal: &Name, work: Duration, now: Instant) {
        self.accounts.charge(principal, work, &ACTIVITY, now);
    }

    /// Ends the delays whose time is over.
    pub(super) fn end_delays(&mut self, now: Instant) {
        let Self {
            others,
            order,
            delayed,
            delayed_len,
            ..
        } = self;
        delayed.retain(|principal, until| {
            let waits = *until > now;
            if !waits {
                *delayed_len -= others.get(principal).map_or(0, VecDeque::len);
                order.push_back(principal.clone());
            }
            waits
        });
    }

    /// Ends all delays, since the remaining jobs have to be decided soon.
    pub(super) fn end_all_delays(&mut self) {
        self.accounts = Accounts::default();
        if let Some(last) = self.delayed.values().max().copied() {
            self.end_delays(last);
        }
    }

    /// Whether there is room for the jobs of one call, of `capacity` in total. A principal may have at most as many jobs
    /// as places stay free: one principal alone leaves half of the room to others, two leave a third. Principals together
    /// leave an eighth to the cluster. If no principal has jobs, one may have all jobs of its call decided, however many
    /// they are.
    pub(super) fn have_room(&self, turn: &Turn, jobs: usize, capacity: usize) -> bool {
        let for_others = capacity - capacity / KEPT_FOR_FIRST;
        let others = self.len - self.first.len();
        let free = |held: usize, most: usize| most.saturating_sub(held);
        match turn {
            Turn::First => free(self.first.len() + others.min(for_others), capacity) >= jobs,
            Turn::Of(_) if others == 0 => self.len < capacity,
            Turn::Of(principal) => {
                let own = self.others.get(principal).map_or(0, VecDeque::len);
                let free = free(self.len, capacity).min(free(others, for_others));
                own + 2 * jobs <= free + 1
            }
        }
    }

    pub(super) fn push(&mut self, Waiting { turn, job }: Waiting) {
        self.len += 1;
        let principal = match turn {
            Turn::First => return self.first.push_back(job),
            Turn::Of(principal) => principal,
        };
        self.delayed_len += usize::from(self.delayed.contains_key(&principal));
        if let Some(lane) = self.others.get_mut(&principal) {
            lane.push_back(job);
            return;
        }
        self.order.push_back(principal.clone());
        self.others.insert(principal, VecDeque::from([job]));
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<Waiting> {
        if self.in_a_row >= FIRST_IN_A_ROW
            && let Some(waiting) = self.pop_other(now)
        {
            return Some(waiting);
        }
        let Some(job) = self.first.pop_front() else {
            return self.pop_other(now);
        };
        self.len -= 1;
        self.in_a_row += 1;
        let turn = Turn::First;
        Some(Waiting { turn, job })
    }

    fn pop_other(&mut self, now: Instant) -> Option<Waiting> {
        self.in_a_row = 0;
        let principal = loop {
            let principal = self.order.pop_front()?;
            match self.accounts.waits_until(&principal, &ACTIVITY, now) {
                None => break principal,
                Some(until) => {
                    self.delayed_len += self.others.get(&principal).map_or(0, VecDeque::len);
                    self.delayed.insert(principal, until);
                }
            }
        };
        let lane = self.others.get_mut(&principal)?;
        let job = lane.pop_front()?;
        self.len -= 1;
        if lane.is_empty() {
            self.others.remove(&principal);
        } else {
            self.order.push_back(principal.clone());
        }
        let turn = Turn::Of(principal);
        Some(Waiting { turn, job })
    }

    /// Puts back the job that was taken last, so that it is the next to be taken.
    pub(super) fn put_back(&mut self, Waiting { turn, job }: Waiting) {
        self.len += 1;
        let principal = match turn {
            Turn::First => return self.first.push_front(job),
            Turn::Of(principal) => principal,
        };
        let lane = self.others.entry(principal.clone()).or_default();
        lane.push_front(job);
        if self.delayed.contains_key(&principal) {
            self.delayed_len += 1;
            return;
        }
        self.order.retain(|other| *other != principal);
        self.order.push_front(principal);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Jobs that are distinguishable once they are taken: by the turns with which they were pushed.
    fn pushed(turns: &[Turn]) -> Lanes {
        let mut lanes = Lanes::default();
        for turn in turns {
            lanes.push(waiting(turn));
        }
        lanes
    }

    fn waiting(turn: &Turn) -> Waiting {
        Waiting {
            turn: turn.clone(),
            job: Box::new(|_| Box::new(|_| {})),
        }
    }

    fn of(principal: &str) -> Turn {
        Turn::Of(principal.into())
    }

    fn taken(lanes: &mut Lanes) -> Vec<Turn> {
        std::iter::from_fn(|| lanes.pop(Instant::now()))
            .map(|waiting| waiting.turn)
            .collect()
    }

    #[test]
    fn principals_take_turns_behind_what_comes_first() {
        let [a, b, c] = ["a", "b", "c"].map(of);
        let flood = [&a, &a, &a, &a, &b, &Turn::First, &c, &b, &Turn::First].map(Clone::clone);
        let mut lanes = pushed(&flood);
        assert_eq!(lanes.len, 9);
        let expected = [&Turn::First, &Turn::First, &a, &b, &c, &a, &b, &a, &a];
        assert_eq!(taken(&mut lanes), expected.map(Clone::clone));
        assert!(lanes.len == 0 && lanes.others.is_empty());
    }

    #[test]
    fn jobs_of_one_principal_keep_their_order() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut lanes = Lanes::default();
        for number in 0..5 {
            let mark = Marked(number, order.clone());
            lanes.push(Waiting {
                turn: of("a"),
                job: Box::new(move |_| {
                    drop(mark);
                    Box::new(|_| {})
                }),
            });
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
        let mut lanes = pushed(&vec![Turn::First; 3 * FIRST_IN_A_ROW]);
        lanes.push(waiting(&of("a")));
        let order = taken(&mut lanes);
        assert_eq!(
            order.iter().position(|t| *t == of("a")),
            Some(FIRST_IN_A_ROW)
        );
    }

    #[test]
    fn what_is_put_back_is_taken_next() {
        let [a, b] = ["a", "b"].map(of);
        let mut lanes = pushed(&[a.clone(), a.clone(), b.clone(), b.clone(), Turn::First]);
        let mut out: Vec<_> = (0..3).filter_map(|_| lanes.pop(Instant::now())).collect();
        assert_eq!(lanes.len, 2);
        while let Some(waiting) = out.pop() {
            lanes.put_back(waiting);
        }
        assert_eq!(taken(&mut lanes), [Turn::First, a.clone(), b.clone(), a, b]);
    }

    #[test]
    fn a_flood_leaves_room_to_others() {
        let mut lanes = Lanes::default();
        let mut fill = |turn: &Turn| {
            let before = lanes.len;
            while lanes.have_room(turn, 1, 12) {
                lanes.push(waiting(turn));
            }
            lanes.len - before
        };
        assert_eq!(fill(&of("flood")), 6);
        assert_eq!(fill(&of("other")), 3);
        assert_eq!(fill(&of("third")), 1);
        // The cluster's own jobs may fill the queue.
        assert_eq!(fill(&Turn::First), 2);
        assert_eq!(fill(&of("late")), 0);
    }

    #[test]
    fn principals_leave_room_to_the_cluster_however_many_jobs_their_calls_have() {
        let mut lanes = Lanes::default();
        let push = |lanes: &mut Lanes, turn: &Turn, jobs| {
            let has_room = lanes.have_room(turn, jobs, 64);
            (0..jobs)
                .filter(|_| has_room)
                .for_each(|_| lanes.push(waiting(turn)));
            has_room
        };
        let tenants: Vec<_> = (0..20)
            .map(|number| of(&format!("tenant {number}")))
            .collect();
        let fill = |lanes: &mut Lanes, jobs| {
            let room = |tenant| while push(lanes, tenant, jobs) {};
            tenants.iter().for_each(room);
        };
        fill(&mut lanes, 7);
        fill(&mut lanes, 1);
        assert_eq!(lanes.len, 56);
        while push(&mut lanes, &Turn::First, 1) {}
        assert_eq!(lanes.len, 64);

        // A call of more jobs than a principal may have is decided while no principal waits. The cluster keeps its places.
        let mut lanes = pushed(&[Turn::First]);
        assert!(push(&mut lanes, &of("batch"), 125));
        assert!(!push(&mut lanes, &of("other"), 1));
        while push(&mut lanes, &Turn::First, 1) {}
        assert_eq!(lanes.first.len(), 8);
    }

    #[test]
    fn a_queue_of_one_place_takes_a_job_of_anybody() {
        let mut lanes = Lanes::default();
        assert!(lanes.have_room(&of("a"), 1, 1) && lanes.have_room(&Turn::First, 1, 1));
        lanes.push(waiting(&of("a")));
        assert!(!lanes.have_room(&of("b"), 1, 1) && !lanes.have_room(&Turn::First, 1, 1));
    }

    #[test]
    fn whose_decisions_were_expensive_waits_beside_others() {
        let [flood, other] = ["a flood of lanes", "another one"].map(Name::from);
        let [of_flood, of_other] = [&flood, &other].map(|name| Turn::Of(name.clone()));
        let mut lanes = pushed(&[of_flood.clone(), of_other.clone(), of_flood.clone()]);
        let now = Instant::now();
        ACTIVITY.note(Some(&other), now);
        lanes.charge(&flood, Duration::from_millis(60), now);
        let others = lanes.pop(now).unwrap();
        assert_eq!(others.turn, of_other);
        assert!(lanes.pop(now).is_none());
        lanes.push(others);
        lanes.push(waiting(&of_flood));
        assert_eq!((lanes.ready(), lanes.len), (1, 4));
        let until = lanes.next_ready().unwrap();
        assert_eq!(until, now + Duration::from_millis(100));
        lanes.end_delays(until - Duration::from_nanos(1));
        assert_eq!(lanes.ready(), 1);
        lanes.end_delays(until);
        assert_eq!((lanes.ready(), lanes.next_ready()), (4, None));
        ACTIVITY.note(Some(&other), until);
        let first = lanes.pop(until).unwrap();
        let second = lanes.pop(until).unwrap();
        assert_eq!([&first.turn, &second.turn], [&of_other, &of_flood]);
        // Work during the delay is charged as well; a job that was put back waits with the others.
        lanes.charge(&flood, Duration::from_millis(2), until);
        assert!(lanes.pop(until).is_none());
        lanes.put_back(second);
        assert_eq!((lanes.ready(), lanes.len), (0, 3));
        lanes.end_all_delays();
        assert_eq!(taken(&mut lanes), vec![of_flood; 3]);
        assert_eq!((lanes.len, lanes.delayed_len), (0, 0));
    }
}
