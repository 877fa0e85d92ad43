//! What was counted and timed.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use super::Answer;

/// Digits of a time that are kept.
const DIGITS: u8 = 3;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// To reserve, once.
    Reserve,
    /// To release, once.
    Release,
    /// To reserve, several times.
    Batch,
    /// To take events.
    Events,
    /// To admit an object.
    Review,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Reserve, Self::Release, Self::Batch, Self::Events, Self::Review];

    /// What it is called in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Release => "release",
            Self::Batch => "batch",
            Self::Events => "events",
            Self::Review => "review",
        }
    }
}

/// Counts and times of a run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Answers within the measured time, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Exchanges that got no answer: lost connections, and what was not answered in time.
    pub failures: u64,
    /// Operations that were refused for want of room.
    pub denied: u64,
    /// How much later than due requests were sent because the generator's timer was late.
    pub late: Histogram<u64>,
    kinds: [Share; Kind::ALL.len()],
}

/// The part of one kind.
#[derive(Clone, Debug)]
pub struct Share {
    /// Operations carried out within the measured time.
    pub operations: u64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Share {
    fn default() -> Self {
        Self { operations: 0, latency: histogram() }
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            statuses: BTreeMap::new(),
            failures: 0,
            denied: 0,
            late: histogram(),
            kinds: Default::default(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("0 to 5 digits are possible")
}

impl Tally {
    /// The part of a kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> &Share {
        &self.kinds[kind as usize]
    }

    /// All operations carried out.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.kinds.iter().map(|share| share.operations).sum()
    }

    /// Latencies of all kinds, in nanoseconds.
    #[must_use]
    pub fn latency(&self) -> Histogram<u64> {
        let mut all = histogram();
        for share in &self.kinds {
            merge(&mut all, &share.latency);
        }
        all
    }

    /// Answers that are neither a success nor a denial, and exchanges without an answer.
    #[must_use]
    pub fn errors(&self) -> u64 {
        let wrong = self
            .statuses
            .iter()
            .filter(|(status, _)| **status >= 300 && **status != DENIED)
            .map(|(_, count)| count);
        wrong.sum::<u64>() + self.failures
    }

    pub(super) fn count(&mut self, kind: Kind, answer: &Answer) {
        self.kinds[kind as usize].operations += answer.done;
        self.denied += answer.denied;
        *self.statuses.entry(answer.status).or_default() += 1;
    }

    pub(super) fn time(&mut self, kind: Kind, latency: Duration, late: Option<Duration>) {
        record(&mut self.kinds[kind as usize].latency, latency);
        if let Some(late) = late {
            record(&mut self.late, late);
        }
    }

    /// Adds what another worker counted.
    pub(super) fn add(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.failures += other.failures;
        self.denied += other.denied;
        merge(&mut self.late, &other.late);
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.operations += theirs.operations;
            merge(&mut mine.latency, &theirs.latency);
        }
    }
}

/// The status of a denial.
pub(super) const DENIED: u16 = 403;

fn merge(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    into.add(from).expect("it grows");
}

/// More than thirty years, in nanoseconds: what a histogram that grows is sure to take.
const LONGEST: u64 = 1 << 60;

fn record(histogram: &mut Histogram<u64>, duration: Duration) {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    histogram.record(nanoseconds.min(LONGEST)).expect("it grows");
}
