//! What has happened, by kind.

use std::{collections::BTreeMap, fmt};

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report(BTreeMap<&'static str, u64>);

/// Faults: a kind that never fired in a run of many seeds is a fault of the rig.
pub(crate) const FAULTS: [&str; 28] = [
    "process kill",
    "power loss",
    "sync failed",
    "write failed",
    "disk full",
    "unsynced writes lost",
    "unsynced writes reordered",
    "names lost",
    "database suffix lost",
    "database does not open",
    "bit flip, no harm",
    "bit flip, refused",
    "bit flip, refused when read",
    "start failed",
    "clean stop",
    "clock forward",
    "clock back",
    "answer lost",
    "request repeated",
    "queue full",
    "message delivered twice",
    "messages out of order",
    "message not delivered",
    "consumer lost",
    "stream purged",
    "stream lost a range",
    "stream lost its tail",
    "stream created anew",
];

impl Report {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, number: u64) {
        *self.0.entry(what).or_default() += number;
    }

    pub(crate) fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (what, number) in &other.0 {
            self.add(what, *number);
        }
    }

    /// Kinds of faults, and of what has to happen besides, that never did.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let other = [
            "granted",
            "denied",
            "expired",
            "snapshot",
            "epochs removed",
            "gap recorded",
        ];
        let all = FAULTS.into_iter().chain(other);
        all.filter(|what| self.get(what) == 0).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, number) in &self.0 {
            writeln!(f, "{number:>12}  {what}")?;
        }
        Ok(())
    }
}
