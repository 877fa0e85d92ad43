//! Running seeds, and what happened in them.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use planted::Bug;

use super::world::World;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report(BTreeMap<&'static str, u64>);

/// What has to happen in a run of many seeds, or the rig is at fault.
const EXPECTED: [&str; 20] = [
    "process killed",
    "process paused",
    "position lost",
    "stream leader changed",
    "uncommitted tail lost",
    "refused by a deposed server",
    "publish lost",
    "publish late",
    "publish delivered twice",
    "acknowledgement lost",
    "node cut off",
    "ambiguous append",
    "resolved as stored",
    "refused, then stored",
    "fence lost",
    "leader deposed",
    "handed over",
    "granted",
    "denied",
    "expired",
];

impl Report {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, number: u64) {
        *self.0.entry(what).or_default() += number;
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let never = |what: &&str| self.0.get(what).copied().unwrap_or(0) == 0;
        EXPECTED.into_iter().filter(never).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(what, number)| writeln!(f, "{number:>12}  {what}"))
    }
}

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    /// What was wrong.
    pub(crate) failed: Option<String>,
    pub(crate) trace: u64,
    pub(crate) report: Report,
}

/// Runs one seed, with a bug or without; if it `tells`, everything that happens is printed.
pub(crate) fn run(seed: u64, bug: Option<Bug>, tells: bool) -> Outcome {
    let mut world = World::new(seed, tells);
    planted::plant(bug);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    planted::plant(None);
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
        trace: world.trace,
        report: world.report,
    }
}

/// Runs seeds on all processors; gives what was counted, and what failed.
pub(crate) fn shards(seeds: impl Iterator<Item = u64> + Send) -> (Report, Vec<Outcome>) {
    let result = Mutex::new((Report::default(), Vec::new()));
    each(seeds, |seed| {
        let outcome = run(seed, None, false);
        let mut result = result.lock().unwrap();
        for (what, number) in &outcome.report.0 {
            result.0.add(what, *number);
        }
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
