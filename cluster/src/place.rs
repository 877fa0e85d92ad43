//! Where a replica stands in the stream, in a small file of the data directory.
//!
//! It may be older than the replica: what follows it is read and compared again. It is never newer.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use quota_journal::Durable;
use quota_replication::{Leader, LedgerId, Position};
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};

/// The file.
const FILE: &str = "replica.json";

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    ledger: LedgerId,
    stream: u64,
    sequence: u64,
    hash: String,
    time: i64,
    leader: Option<Leader>,
}

/// The file of one data directory.
#[derive(Clone, Debug)]
pub struct Place(PathBuf);

/// Why it could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct PlaceError {
    path: String,
    why: String,
}

impl Place {
    /// That of a data directory.
    #[must_use]
    pub fn of(data_dir: &Path) -> Self {
        Self(data_dir.join(FILE))
    }

    fn error(&self, why: impl ToString) -> PlaceError {
        PlaceError {
            path: self.0.display().to_string(),
            why: why.to_string(),
        }
    }

    /// The position; none if this data directory has not been a replica yet.
    ///
    /// # Errors
    /// It is there and cannot be understood. Without the file the log is read from its beginning.
    pub fn read(&self) -> Result<Option<Position>, PlaceError> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(error)),
        };
        let written: Written = serde_json::from_slice(&text).map_err(|error| self.error(error))?;
        if written.version != 1 {
            return Err(self.error(format!("unknown version {}", written.version)));
        }
        let hash = written.hash.parse().map_err(|error| self.error(error))?;
        Ok(Some(Position {
            ledger: Some(written.ledger),
            stream: written.stream,
            end: Durable {
                sequence: written.sequence,
                hash,
                time: Timestamp::from_nanoseconds(written.time),
            },
            leader: written.leader,
        }))
    }

    /// Writes a position down, whole or not at all. The replica must be durable up to it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, position: &Position) -> Result<(), PlaceError> {
        let Some(ledger) = position.ledger else {
            return Ok(());
        };
        let written = Written {
            version: 1,
            ledger,
            stream: position.stream,
            sequence: position.end.sequence,
            hash: position.end.hash.to_string(),
            time: position.end.time.nanoseconds(),
            leader: position.leader.clone(),
        };
        let text = serde_json::to_vec_pretty(&written).map_err(|error| self.error(error))?;
        let new = self.0.with_extension("new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.0)
        };
        write().map_err(|error| self.error(error))
    }
}

#[cfg(test)]
mod tests {
    use quota_journal::Hash;

    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::of(directory.path());
        assert_eq!(place.read().unwrap(), None);
        let position = Position {
            ledger: Some(LedgerId::from_bytes([9; 16])),
            stream: 12,
            end: Durable {
                sequence: 5,
                hash: Hash::from_bytes([3; 32]),
                time: Timestamp::from_nanoseconds(7),
            },
            leader: Some(Leader {
                epoch: 2,
                node: "n1".parse().unwrap(),
                instance: u64::MAX,
                handed_to: None,
            }),
        };
        place.write(&position).unwrap();
        assert_eq!(place.read().unwrap(), Some(position));
        fs::write(directory.path().join(FILE), "{").unwrap();
        assert!(place.read().is_err());
    }
}
