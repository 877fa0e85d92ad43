//! Signs checkpoints while the ledger grows.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use quota_checkpoint::{
    Checkpoint, Extends, Notes,
    key::{KeyError, PrivateKey},
    note,
};
use quota_journal::{FileReader, Reader as _};
use tokio_util::sync::CancellationToken;

use super::{
    delivery::Delivery,
    destination::{Destination, Signed},
};
use crate::{
    exit::{Exit, Failure},
    fatal, metrics,
};

/// How often the signer checks whether a checkpoint is due.
const TICK: Duration = Duration::from_secs(1);

/// When checkpoints are signed, and where they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The private key.
    pub key_file: PathBuf,
    /// The file to which checkpoints are appended.
    pub file: PathBuf,
    /// Sign after this many entries.
    pub every_entries: u64,
    /// Sign after this time if there are new entries.
    pub every: Duration,
    /// Whether the ledger is a replica: if it ends before the last checkpoint, as that of a node whose disk was lost, it
    /// gets the missing entries from the other nodes.
    pub is_replica: bool,
}

/// Why checkpoints cannot be signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The key cannot be read.
    #[error("checkpoint.key_file = {path}: {source}")]
    KeyFile {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The key is not valid.
    #[error("checkpoint.key_file = {path}: {source}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: KeyError,
    },
    /// The file of checkpoints cannot be read or written, or holds none.
    #[error("checkpoint.file = {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The ledger contradicts a checkpoint that was signed before: it was changed, cut, or replaced by an older one.
    #[error(
        "the ledger does not extend the checkpoint of sequence {sequence} in {path}, signed before: {why}"
    )]
    Contradiction {
        /// The sequence of the signed checkpoint.
        sequence: u64,
        /// The file of checkpoints.
        path: String,
        /// How the ledger contradicts the checkpoint.
        why: String,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Journal(#[from] quota_journal::Error),
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self {
            exit: match &error {
                StartError::Contradiction { .. } => Exit::Damaged,
                StartError::Journal(error) => fatal::exit_at_start(error),
                _ => Exit::Configuration,
            },
            error: error.into(),
        }
    }
}

/// Why a checkpoint was not signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    /// The ledger cannot be synced.
    #[error(transparent)]
    Journal(#[from] quota_journal::Error),
    /// The checkpoint cannot be stored.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// How the ledger stands to the last signed checkpoint, if it does not contradict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerPosition {
    /// The ledger extends it, or there is none.
    Extends,
    /// The replica does not reach it yet.
    Behind,
    /// The entry of the checkpoint was compacted away.
    Unproven,
}

/// Signs checkpoints of one ledger.
pub(crate) struct Signer {
    reader: FileReader,
    key: PrivateKey,
    notes: Notes,
    last: Option<Checkpoint>,
    /// The last checkpoint signed before the start: it may not have been delivered.
    earlier: Option<Signed>,
    rules: Settings,
    standing: LedgerPosition,
}

impl Signer {
    /// Reads the key, and compares the ledger with the last checkpoint.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn open(rules: Settings, reader: FileReader) -> Result<Self, StartError> {
        let key = read_key(&rules.key_file)?;
        let (notes, last) = Notes::open(&rules.file, key.public().name())
            .and_then(|(notes, last)| {
                let read = |note: String| {
                    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                    Ok::<_, io::Error>((note::read(&note).map_err(wrong)?, note))
                };
                Ok((notes, last.map(read).transpose()?))
            })
            .map_err(|source| StartError::File {
                path: rules.file.display().to_string(),
                source,
            })?;
        let (last, text) = last.unzip();
        let earlier = last.as_ref().zip(text).map(|(last, note)| Signed {
            sequence: last.sequence,
            note: note.into(),
        });
        let mut signer = Self {
            reader,
            key,
            notes,
            last,
            earlier,
            rules,
            standing: LedgerPosition::Extends,
        };
        signer.standing = signer.compare()?;
        Ok(signer)
    }

    /// Compares the ledger with the last checkpoint.
    pub(super) fn compare(&self) -> Result<LedgerPosition, StartError> {
        let Some(last) = &self.last else {
            return Ok(LedgerPosition::Extends);
        };
        let why = match last.is_extended_by(&self.reader)? {
            Extends::Yes => return Ok(LedgerPosition::Extends),
            Extends::Compacted => return Ok(LedgerPosition::Unproven),
            Extends::TooShort { .. } if self.rules.is_replica => return Ok(LedgerPosition::Behind),
            Extends::TooShort { last } => format!("it ends with sequence {last}"),
            Extends::Differs => "the chain hash there is another one".to_owned(),
        };
        Err(StartError::Contradiction {
            sequence: last.sequence,
            path: self.rules.file.display().to_string(),
            why,
        })
    }

    /// Signs whenever a checkpoint is due, until `stop`; then once more if there are new entries. Delivers each
    /// checkpoint to the destinations.
    pub(crate) async fn run(mut self, places: Vec<Destination>, stop: CancellationToken) {
        let deliveries: Vec<_> = places.into_iter().map(Delivery::begin).collect();
        let send = |signed: &Signed| {
            for delivery in &deliveries {
                delivery.send(signed.clone());
            }
        };
        self.earlier.take().iter().for_each(send);
        self.catch_up(&stop).await;
        self.sign_until(send, &stop).await;
        let finishing = deliveries.into_iter().map(Delivery::finish);
        futures::future::join_all(finishing).await;
    }

    /// Waits until the replica has the entry of the last checkpoint. A replica that has another one there ends the
    /// process, as it would at the next start.
    async fn catch_up(&mut self, stop: &CancellationToken) {
        if self.standing == LedgerPosition::Behind {
            tracing::warn!(
                file = %self.rules.file.display(),
                "no checkpoints are signed until the replica has the entry of the last one"
            );
        }
        while self.standing == LedgerPosition::Behind {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK) => {}
            }
            self.standing = tokio::task::block_in_place(|| self.compare())
                .unwrap_or_else(|error| fatal::checkpoint_contradicted(&error.into()));
        }
    }

    async fn sign_until(&mut self, send: impl Fn(&Signed), stop: &CancellationToken) {
        match self.standing {
            LedgerPosition::Extends => {}
            // The daemon stops before the replica has caught up.
            LedgerPosition::Behind => return,
            LedgerPosition::Unproven => {
                metrics::checkpoint_failed();
                tracing::error!(
                    file = %self.rules.file.display(),
                    "no checkpoints are signed: the entry of the last one was compacted away, so that nothing proves that \
                     the ledger extends it; begin a new file"
                );
                return;
            }
        }
        let mut signed = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let stopped = tokio::select! {
                () = stop.cancelled() => true,
                _ = ticks.tick() => false,
            };
            let new_entries = self.new_entries();
            let is_due =
                new_entries >= self.rules.every_entries || signed.elapsed() >= self.rules.every;
            if new_entries > 0 && (is_due || stopped) {
                signed = Instant::now();
                match tokio::task::block_in_place(|| self.sign()) {
                    Ok(signed) => send(&signed),
                    Err(error) => {
                        // The content of the file is uncertain now: nothing more is signed before the next start.
                        metrics::checkpoint_failed();
                        tracing::error!(%error, "a checkpoint cannot be stored: no more are signed");
                        return;
                    }
                }
            }
            if stopped {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn notes_mut(&mut self) -> &mut Notes {
        &mut self.notes
    }

    fn new_entries(&self) -> u64 {
        let last = self.last.as_ref().map_or(0, |last| last.sequence);
        self.reader.durable().sequence.saturating_sub(last)
    }

    /// Signs the end of the ledger, and answers the checkpoint once it is durable itself. The entries are synced before:
    /// after a power loss a replica would lack the entries that were only written, and would contradict the checkpoint.
    pub(super) fn sign(&mut self) -> Result<Signed, SignError> {
        let synced = self.reader.sync()?;
        let checkpoint = Checkpoint::of(self.key.public().name(), &synced);
        let note = note::sign(&checkpoint, &self.key);
        self.notes.append(&note)?;
        metrics::checkpoint_signed(checkpoint.sequence);
        tracing::debug!(sequence = checkpoint.sequence, hash = %checkpoint.hash, "checkpoint signed");
        let signed = Signed {
            sequence: checkpoint.sequence,
            note: note.into(),
        };
        self.last = Some(checkpoint);
        Ok(signed)
    }
}

fn read_key(path: &Path) -> Result<PrivateKey, StartError> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| StartError::KeyFile {
        path: name(),
        source,
    })?;
    text.parse().map_err(|source| StartError::Key {
        path: name(),
        source,
    })
}
