//! Consistency of checkpoints of one ledger: a ledger only grows, and its time never goes back.

use std::collections::BTreeMap;

use super::Checkpoint;

/// A contradiction between checkpoints of one ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// Two histories.
    #[error(
        "two checkpoints contradict each other: sequence {sequence} has two hashes or times, as if there were two ledgers"
    )]
    Fork {
        /// The sequence of both.
        sequence: u64,
    },
    /// The ledger had become shorter.
    #[error(
        "sequence {sequence} was signed after sequence {before}: the ledger had become shorter"
    )]
    Shrunk {
        /// The checkpoint that was signed later.
        sequence: u64,
        /// The checkpoint that was signed earlier.
        before: u64,
    },
    /// More entries at an earlier time.
    #[error("sequence {later} is of an earlier time than sequence {earlier}")]
    Time {
        /// The sequence of the entry that comes later.
        later: u64,
        /// The sequence of the one before it.
        earlier: u64,
    },
}

/// Checkpoints of one ledger, from any number of files.
#[derive(Clone, Debug, Default)]
pub struct Series {
    by_sequence: BTreeMap<u64, Checkpoint>,
    /// The last checkpoint of the file that is being read.
    last: Option<u64>,
}

impl Series {
    /// Begins a file, whose checkpoints are in the order of their signatures.
    pub const fn begin_file(&mut self) {
        self.last = None;
    }

    /// Adds the next checkpoint of a file. Of two with the same sequence the first is kept.
    ///
    /// # Errors
    /// If it contradicts an earlier one.
    pub fn add(&mut self, checkpoint: Checkpoint) -> Result<(), Contradiction> {
        let sequence = checkpoint.sequence;
        let before = self.last.replace(sequence);
        if let Some(existing) = self.by_sequence.get(&sequence) {
            let agrees = (existing.hash, existing.time) == (checkpoint.hash, checkpoint.time);
            return match agrees {
                true => shrunk(before, sequence),
                false => Err(Contradiction::Fork { sequence }),
            };
        }
        let below = self.by_sequence.range(..sequence).next_back();
        let above = self.by_sequence.range(sequence..).next();
        let time = checkpoint.time;
        let wrong = match (below, above) {
            (Some((below, existing)), _) if existing.time > time => Some((sequence, *below)),
            (_, Some((above, existing))) if existing.time < time => Some((*above, sequence)),
            _ => None,
        };
        self.by_sequence.insert(sequence, checkpoint);
        match wrong {
            Some((later, earlier)) => Err(Contradiction::Time { later, earlier }),
            None => shrunk(before, sequence),
        }
    }

    /// The checkpoints, by sequence.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Checkpoint> + DoubleEndedIterator + Clone {
        self.by_sequence.values()
    }
}

fn shrunk(before: Option<u64>, sequence: u64) -> Result<(), Contradiction> {
    match before {
        Some(before) if before > sequence => Err(Contradiction::Shrunk { sequence, before }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::Hash;
    use quota_semantics::{Span, Timestamp};

    use super::*;

    fn at(sequence: u64, hash: u8, seconds: i64) -> Checkpoint {
        Checkpoint {
            origin: "o".to_owned(),
            sequence,
            hash: Hash::from_bytes([hash; 32]),
            time: Timestamp::EPOCH.plus(Span::from_seconds(seconds)),
        }
    }

    #[test]
    fn what_grows_is_consistent_and_may_be_told_twice() {
        let mut series = Series::default();
        for (sequence, seconds) in [(2, 1), (4, 1), (4, 1), (9, 5)] {
            assert_eq!(series.add(at(sequence, 1, seconds)), Ok(()));
        }
        series.begin_file();
        assert_eq!(series.add(at(4, 1, 1)), Ok(()));
        assert_eq!(series.add(at(7, 1, 3)), Ok(()));
        let sequences: Vec<_> = series.iter().map(|checkpoint| checkpoint.sequence).collect();
        assert_eq!(sequences, [2, 4, 7, 9]);
    }

    #[test]
    fn forks_shrinking_and_time_going_back_are_told() {
        let mut series = Series::default();
        series.add(at(5, 1, 10)).unwrap();
        let fork = Contradiction::Fork { sequence: 5 };
        assert_eq!(series.add(at(5, 2, 10)), Err(fork.clone()));
        assert_eq!(series.add(at(5, 1, 11)), Err(fork));
        let shrunk = Contradiction::Shrunk { sequence: 3, before: 5 };
        assert_eq!(series.add(at(3, 1, 9)), Err(shrunk));
        series.begin_file();
        let time = |later, earlier| Err(Contradiction::Time { later, earlier });
        assert_eq!(series.add(at(6, 1, 8)), time(6, 5));
        series.begin_file();
        assert_eq!(series.add(at(1, 1, 10)), time(3, 1));
    }
}
