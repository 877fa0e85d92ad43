//! Stores the position of a member in the stream from time to time.

use crate::protocol::{Millis, PendingPosition, Position};
use futures::FutureExt;
use quota_journal::Durable;
use tokio::task::JoinHandle;

use crate::jetstream::{PositionFile, PositionFileError};

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

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        time::Duration,
    };

    use crate::protocol::LedgerId;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

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
}
