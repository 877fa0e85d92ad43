//! Running seeds.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use planted::Bug;

use super::{report::Report, world::World};

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    /// What was wrong.
    pub(crate) failed: Option<String>,
    pub(crate) trace: String,
    pub(crate) report: Report,
}

/// Runs one seed, with a bug or without; if it `tells`, everything that happens is printed.
pub(crate) fn run(seed: u64, bug: Option<Bug>, tells: bool) -> Outcome {
    let mut world = World::new(seed);
    world.tells = tells;
    planted::plant(bug);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failed = match ended {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    planted::plant(None);
    Outcome {
        seed,
        failed,
        trace: world.trace(),
        report: world.report,
    }
}

/// Runs seeds on all processors; gives what was counted, and what failed.
pub(crate) fn shards(seeds: impl Iterator<Item = u64> + Send) -> (Report, Vec<Outcome>) {
    let result = Mutex::new((Report::default(), Vec::new()));
    each(seeds, |seed| {
        let outcome = run(seed, None, false);
        let mut result = result.lock().unwrap();
        result.0.merge(&outcome.report);
        if outcome.failed.is_some() {
            result.1.push(outcome);
        }
        true
    });
    let (report, mut failed) = result.into_inner().unwrap();
    failed.sort_by_key(|outcome| outcome.seed);
    (report, failed)
}

/// The first of the seeds that finds a planted bug.
pub(crate) fn first_failing(seeds: impl Iterator<Item = u64> + Send, bug: Bug) -> Option<Outcome> {
    let found: Mutex<Option<Outcome>> = Mutex::new(None);
    each(seeds, |seed| {
        let outcome = run(seed, Some(bug), false);
        let mut found = found.lock().unwrap();
        if outcome.failed.is_some() && found.as_ref().is_none_or(|other| seed < other.seed) {
            *found = Some(outcome);
        }
        found.is_none()
    });
    found.into_inner().unwrap()
}

/// Hands out seeds in order to a thread per processor, as long as they want to go on.
fn each(seeds: impl Iterator<Item = u64> + Send, visit: impl Fn(u64) -> bool + Sync) {
    let seeds = Mutex::new(seeds);
    let work = || {
        loop {
            let next = seeds.lock().unwrap().next();
            if !next.is_some_and(&visit) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}
