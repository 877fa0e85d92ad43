//! One fault after the other, each kind as often as the others.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    time::{Duration, Instant},
};

use crate::{
    Yard,
    account::Losses,
    place::Place,
    support::{PATIENCE, random::Random},
};

/// How long it goes on.
#[derive(Clone, Copy)]
pub(crate) enum Cycles {
    Count(u64),
    Until(Instant),
}

/// How often each kind of fault was done.
pub(crate) type Fired<F> = BTreeMap<F, u64>;

/// A daemon, what it reads from, and what can be done to them.
pub(crate) trait Scene {
    type Fault: Copy + Debug + Ord + 'static;
    const ALL: &'static [Self::Fault];

    /// How long a client rests between two requests, so that slow faults do not take all of the processor.
    const REST: Duration;

    /// Answers between two faults, at most.
    const ANSWERS: u64;

    fn place(&mut self) -> &mut Place;

    /// Where the source of events is.
    fn urls(&self) -> String;

    /// Does it, and ends it; returns when it has had an effect.
    fn do_to(&mut self, fault: Self::Fault, random: &mut Random, yard: &Yard);

    /// Waits until nothing is left of the faults.
    fn settle(&mut self) {}

    /// What of the stream these faults have lost.
    fn losses(fired: &Fired<Self::Fault>) -> Losses;
}

/// Does faults until they were enough, and each kind at least once.
pub(crate) fn go_through<S: Scene>(
    scene: &mut S,
    cycles: Cycles,
    seed: u64,
    yard: &Yard,
) -> Fired<S::Fault> {
    if let Cycles::Count(count) = cycles {
        let kinds = S::ALL.len();
        assert!(count >= kinds as u64, "{count} cycles are too few for {kinds} kinds of faults");
    }
    let mut random = Random::new(seed, "faults");
    let mut fired = Fired::new();
    let mut left = Vec::new();
    for cycle in 0.. {
        let over = match cycles {
            Cycles::Count(count) => cycle == count,
            Cycles::Until(end) => Instant::now() >= end && fired.len() == S::ALL.len(),
        };
        if over {
            break;
        }
        if left.is_empty() {
            left.extend(S::ALL);
        }
        let fault = left.swap_remove(random.index(left.len()));
        yard.wait_for_answers(random.below(S::ANSWERS));
        print!("{cycle}: {fault:?}");
        let started = Instant::now();
        scene.do_to(fault, &mut random, yard);
        println!(", {:.1} s", started.elapsed().as_secs_f64());
        *fired.entry(fault).or_default() += 1;
        if scene.place().daemon.is_none() {
            scene.place().restart_daemon();
        }
        if matches!(cycles, Cycles::Until(_)) && cycle % 100 == 99 {
            println!("{} cycles: {fired:?}", cycle + 1);
        }
    }
    for fault in S::ALL {
        assert!(fired.contains_key(fault), "{fault:?} never was");
    }
    scene.settle();
    yard.wait_for_answers(2 * S::ANSWERS);
    let deadline = Instant::now() + PATIENCE;
    while scene.place().archived() == 0 {
        assert!(Instant::now() < deadline, "compaction archives epochs");
        yard.wait_for_answers(100);
    }
    fired
}
