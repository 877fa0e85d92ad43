//! How often each event of a simulation happened.

use std::{collections::BTreeMap, fmt};

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(BTreeMap<&'static str, u64>);

impl Report {
    /// Counts one event.
    pub fn count(&mut self, event: &'static str) {
        self.add(event, 1);
    }

    /// Counts some events of the same name.
    pub fn add(&mut self, event: &'static str, number: u64) {
        *self.0.entry(event).or_default() += number;
    }

    /// Adds the counts of another report.
    pub fn merge(&mut self, other: &Self) {
        for (event, number) in &other.0 {
            self.add(event, *number);
        }
    }

    /// The names that were never counted.
    #[must_use]
    pub fn missing(&self, expected: &[&'static str]) -> Vec<&'static str> {
        let never = |event: &&str| self.0.get(event).copied().unwrap_or(0) == 0;
        expected.iter().copied().filter(never).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(event, number)| writeln!(f, "{number:>12}  {event}"))
    }
}
