//! The position of a replica in the stream, in a small file of the data directory.
//!
//! It may be older than the replica: the messages behind it are read and compared again. It is never newer.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::protocol::{Leader, LedgerId, Position};
use quota_journal::Durable;
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    ledger: LedgerId,
    stream: u64,
    sequence: u64,
    hash: String,
    time: i64,
    leader: Option<Leader>,
    /// The creation time of the stream, according to its servers.
    #[serde(default)]
    created: Option<String>,
}

/// The file of one data directory.
#[derive(Clone, Debug)]
pub struct PositionFile {
    file: PathBuf,
    created: Option<String>,
    /// Held while a position is being written.
    turn: Arc<Mutex<()>>,
}

/// Why the file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PositionFileError {
    /// The operating system refused it.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content is no position.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

impl PositionFile {
    /// Its name in the data directory.
    pub const NAME: &str = "replica.json";

    /// The file of a data directory.
    pub fn new(data_dir: &Path) -> Self {
        Self { file: data_dir.join(Self::NAME), created: None, turn: Arc::default() }
    }

    /// The file for the stream with this creation time: a position in an earlier stream is ignored.
    #[must_use]
    pub fn in_stream(self, created: String) -> Self {
        Self { created: Some(created), ..self }
    }

    /// The creation time of the stream; none if it is unknown.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.created.as_ref()?.parse().ok()
    }

    fn io(&self, source: io::Error) -> PositionFileError {
        let path = self.file.clone();
        PositionFileError::Io { path, source }
    }

    fn invalid(&self, why: impl ToString) -> PositionFileError {
        let (path, why) = (self.file.clone(), why.to_string());
        PositionFileError::Invalid { path, why }
    }

    /// Reads the position; none if this data directory has not been a replica yet.
    ///
    /// # Errors
    /// The file exists and cannot be read, or not be parsed. Without the file the log is read from its beginning.
    pub fn read(&self) -> Result<Option<Position>, PositionFileError> {
        let text = match fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io(error)),
        };
        let written = self.parse(&text)?;
        let is_of_other = match (&self.created, &written.created) {
            (Some(own), Some(written)) => own != written,
            _ => false,
        };
        match is_of_other {
            true => Ok(None),
            false => self.position(written).map(Some),
        }
    }

    /// The content of the file, in one line: for a node that joins with a backup of this replica.
    ///
    /// # Errors
    /// As [`PositionFile::read`].
    pub fn text(&self) -> Result<Option<String>, PositionFileError> {
        match fs::read(&self.file) {
            Ok(text) => {
                let written = self.parse(&text)?;
                let line = serde_json::to_string(&written).map_err(|error| self.invalid(error))?;
                Ok(Some(line))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io(error)),
        }
    }

    /// Writes the [`PositionFile::text`] of another node.
    ///
    /// # Errors
    /// It cannot be parsed, or not be written.
    pub fn write_text(&self, text: &str) -> Result<Position, PositionFileError> {
        let written = self.parse(text.as_bytes())?;
        self.put(&written)?;
        self.position(written)
    }

    fn parse(&self, text: &[u8]) -> Result<Written, PositionFileError> {
        let written: Written = serde_json::from_slice(text).map_err(|error| self.invalid(error))?;
        match written.version {
            1 => Ok(written),
            version => Err(self.invalid(format!("unknown version {version}"))),
        }
    }

    fn position(&self, written: Written) -> Result<Position, PositionFileError> {
        let hash = written.hash.parse().map_err(|error| self.invalid(error))?;
        Ok(Position {
            ledger: Some(written.ledger),
            stream: written.stream,
            end: Durable {
                sequence: written.sequence,
                hash,
                time: Timestamp::from_nanoseconds(written.time),
            },
            leader: written.leader,
        })
    }

    /// The turn to write; none while another position is being written, be it by a member that has ended: no position may
    /// be followed by an earlier one.
    pub(crate) fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        self.turn.clone().try_lock_owned().ok()
    }

    /// Writes a position atomically. The replica must be durable up to it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, position: &Position) -> Result<(), PositionFileError> {
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
            created: self.created.clone(),
        };
        self.put(&written)
    }

    fn put(&self, written: &Written) -> Result<(), PositionFileError> {
        let text = serde_json::to_vec_pretty(written).map_err(|error| self.invalid(error))?;
        let new = self.file.with_extension("json.tmp");
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &self.file)?;
            // The stream is purged by what was stored: after a power loss the position must not be an earlier one.
            File::open(self.file.parent().unwrap_or(&self.file))?.sync_all()
        };
        write().map_err(|error| self.io(error))
    }
}

#[cfg(test)]
mod tests {
    use quota_journal::Hash;

    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = PositionFile::new(directory.path());
        assert_eq!(file.read().unwrap(), None);
        let position = Position {
            ledger: Some(LedgerId::from_bytes([9; 16])),
            stream: 12,
            end: Durable {
                sequence: 5,
                hash: Hash::from_bytes([3; 32]),
                time: Timestamp::from_nanoseconds(7),
            },
            leader: Some(Leader {
                term: 2,
                node: "n1".parse().unwrap(),
                instance: u64::MAX,
                handed_to: None,
            }),
        };
        file.write(&position).unwrap();
        assert_eq!(file.read().unwrap(), Some(position.clone()));
        let made = |at: &str| file.clone().in_stream(at.to_owned());
        assert_eq!(made("1").read().unwrap(), Some(position.clone()));
        made("1").write(&position).unwrap();
        assert_eq!(made("1").read().unwrap(), Some(position.clone()));
        assert_eq!(file.read().unwrap(), Some(position.clone()));
        assert_eq!(made("2").read().unwrap(), None);
        let line = file.text().unwrap().unwrap();
        assert!(!line.contains('\n'));
        let other = tempfile::tempdir().unwrap();
        let joined = PositionFile::new(other.path());
        assert_eq!(joined.write_text(&line).unwrap(), position);
        assert_eq!(joined.in_stream("1".to_owned()).read().unwrap(), Some(position));
        assert!(PositionFile::new(other.path()).write_text("{}").is_err());
        let path = directory.path().join(PositionFile::NAME);
        fs::write(&path, "{").unwrap();
        let read = file.read();
        assert!(matches!(read, Err(PositionFileError::Invalid { .. })), "{read:?}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let read = file.read();
        assert!(matches!(read, Err(PositionFileError::Io { .. })), "{read:?}");
    }
}
