//! Running seeds.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

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

/// Runs one seed; if it `tells`, everything that happens is printed.
pub(crate) fn run(seed: u64, tells: bool) -> Outcome {
    let mut world = World::new(seed);
    world.tells = tells;
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failed = match ended {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    Outcome {
        seed,
        failed,
        trace: world.trace(),
        report: world.report,
    }
}

/// Runs seeds on all processors; gives what was counted, and what failed.
pub(crate) fn shards(seeds: impl Iterator<Item = u64> + Send) -> (Report, Vec<Outcome>) {
    let seeds = Mutex::new(seeds);
    let result = Mutex::new((Report::default(), Vec::new()));
    let work = || {
        loop {
            let next = seeds.lock().unwrap().next();
            let Some(seed) = next else { return };
            let outcome = run(seed, false);
            let mut result = result.lock().unwrap();
            result.0.merge(&outcome.report);
            if outcome.failed.is_some() {
                result.1.push(outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (report, mut failed) = result.into_inner().unwrap();
    failed.sort_by_key(|outcome| outcome.seed);
    (report, failed)
}
