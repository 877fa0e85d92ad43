//! What a measurement gives.

use tempfile::TempDir;

use crate::support::{
    self,
    document::{Table, met},
    measured::median,
};

/// The settings of a run.
pub struct Bench {
    pub rounds: usize,
    pub seconds: f64,
    scale: f64,
    pub directory: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            rounds: support::setting("BENCH_ROUNDS", 3),
            seconds: support::setting("BENCH_SECONDS", 4.0),
            scale: support::setting("BENCH_SCALE", 1.0),
            directory: support::directory(),
        }
    }

    /// A number of the full size, scaled.
    pub fn sized(&self, number: u64) -> u64 {
        ((number as f64 * self.scale) as u64).max(1)
    }

    pub fn new_directory(&self) -> TempDir {
        tempfile::tempdir_in(self.directory.path()).expect("there is room")
    }

    /// Medians of what `measure` gives in each round: several figures, taken in turn.
    pub fn rounds<const N: usize>(&self, mut measure: impl FnMut() -> [f64; N]) -> [f64; N] {
        let runs: Vec<_> = (0..self.rounds).map(|_| measure()).collect();
        std::array::from_fn(|index| {
            let mut figures: Vec<_> = runs.iter().map(|run| run[index]).collect();
            median(&mut figures)
        })
    }
}

/// Which way a target points.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A figure that there is a target for.
pub struct Target {
    pub what: &'static str,
    pub value: f64,
    pub bound: Bound,
    pub unit: &'static str,
    pub detail: String,
}

impl Target {
    pub fn ratio(&self) -> String {
        format!("{:.2}{}", self.value, self.unit)
    }
}

/// All of them.
pub fn table(targets: &[Target]) -> String {
    let mut table = Table::new(&["figure", "target", "measured", "met", "from"]);
    for target in targets {
        let (bound, is_met) = match target.bound {
            Bound::AtLeast(least) => {
                (format!("at least {least}{}", target.unit), target.value >= least)
            }
            Bound::AtMost(most) => (format!("at most {most}{}", target.unit), target.value <= most),
        };
        table.row([target.what, &bound, &target.ratio(), met(is_met), &target.detail]);
    }
    table.text().to_owned()
}
