//! Stores the position of a member in the stream from time to time.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::FutureExt;
use quota_journal::Durable;
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::JoinHandle,
};

use crate::protocol::{Leader, LedgerId, Millis, PendingPosition, Position};

/// The interval at which the position is stored.
const INTERVAL: Millis = 5_000;

/// The stored positions of a member. Another thread stores them: a disk may take seconds for it, and the member has to
/// renew its lease meanwhile.
pub(crate) struct StoredPosition {
    file: PositionFile,
    pending: PendingPosition,
    /// When a position was last set to be stored.
    set_at: Millis,
    /// The last stored position in the stream.
    stored: u64,
    storing: Option<JoinHandle<Result<u64, PositionFileError>>>,
}

impl StoredPosition {
    /// The stored position in the stream is that of the file.
    pub(crate) fn new(file: PositionFile, stored: u64) -> Self {
        Self { file, pending: PendingPosition::default(), set_at: 0, stored, storing: None }
    }

    /// The last stored position in the stream.
    pub(crate) const fn stored(&self) -> u64 {
        self.stored
    }

    /// Sets the position to be stored, if it is time for another one.
    pub(crate) fn set(&mut self, now: Millis, position: &Position) {
        if now > self.set_at + INTERVAL {
            self.set_at = now;
            self.pending.set(position);
        }
    }

    /// Begins to store the position that was set, once the replica is synced up to it, and collects the result. The
    /// caller polls it.
    pub(crate) fn store(&mut self, synced: &Durable) {
        self.look_at_end();
        if self.storing.is_some() {
            return;
        }
        let Some(turn) = self.file.turn() else { return };
        let Some(position) = self.pending.due(synced) else {
            return;
        };
        let file = self.file.clone();
        self.storing = Some(tokio::task::spawn_blocking(move || {
            let _turn = turn;
            file.write(&position).map(|()| position.stream)
        }));
    }

    fn look_at_end(&mut self) {
        let Some(ended) = self.storing.as_mut().and_then(FutureExt::now_or_never) else {
            return;
        };
        self.storing = None;
        let error = match ended {
            Ok(Ok(stored)) => {
                self.stored = stored;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // This is harmless: the next start compares from an earlier position.
        tracing::warn!(error, "the position in the stream could not be stored");
    }
}

// The position of a replica in the stream, in a small file of the data directory.
//
// It may be older than the replica: the messages behind it are read and compared again. It is never newer.

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
    use std::{
        fs::{self, File},
        time::Duration,
    };

    use quota_journal::Hash;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    use crate::protocol::LedgerId;

    fn position(stream: u64) -> Position {
        Position { ledger: Some(LedgerId::from_bytes([9; 16])), stream, ..Position::NOTHING }
    }

    async fn wait_until_stored(stored_position: &mut StoredPosition, stream: u64) {
        while stored_position.stored() != stream {
            stored_position.store(&Durable::NOTHING);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn nothing_waits_for_a_position_to_be_stored_but_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = PositionFile::new(directory.path());
        // Opening it lasts until somebody reads, as writing does on a disk that hangs.
        let pipe = directory.path().join("replica.json.tmp");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let mut stored_position = StoredPosition::new(file.clone(), 3);
        stored_position.set(1, &position(1));
        stored_position.store(&Durable::NOTHING);
        assert!(stored_position.storing.is_none());
        let mut now = 0;
        for stream in [4, 5] {
            now += INTERVAL + 1;
            stored_position.set(now, &position(stream));
            stored_position.store(&Durable::NOTHING);
            assert_eq!(stored_position.stored(), 3);
        }
        // Nor does that of another member.
        let mut next = StoredPosition::new(file.clone(), 3);
        next.set(INTERVAL + 1, &position(6));
        next.store(&Durable::NOTHING);
        assert!(next.storing.is_none());
        drop(File::open(&pipe).unwrap());
        fs::remove_file(&pipe).unwrap();
        for (stored_position, stream) in [(&mut stored_position, 5), (&mut next, 6)] {
            wait_until_stored(stored_position, stream).await;
            assert_eq!(file.read().unwrap().unwrap().stream, stream);
        }
    }

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
