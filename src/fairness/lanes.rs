//! The writer's queue: the cluster's jobs first, then one of each principal in turn. So a flood queues behind itself.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use quota_semantics::Name;

use super::turns::Turns;

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
