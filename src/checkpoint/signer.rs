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
use crate::metrics;

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

/// Signs checkpoints of one ledger.
pub(crate) struct Signer {
    reader: FileReader,
    key: PrivateKey,
    notes: Notes,
    last: Option<Checkpoint>,
    /// The last checkpoint signed before the start: it may not have been delivered.
    earlier: Option<Signed>,
    rules: Settings,
    /// Whether the ledger is verified to extend the last signed checkpoint.
    consistent: bool,
}

impl Signer {
    /// Reads the key, and compares the ledger with the last checkpoint.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn open(rules: Settings, reader: FileReader) -> Result<Self, StartError> {
        let key = read_key(&rules.key_file)?;
        let path = rules.file.display().to_string();
        let (notes, last) = Notes::open(&rules.file, key.public().name())
            .and_then(|(notes, last)| {
                let read = |note: String| {
                    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                    Ok::<_, io::Error>((note::read(&note).map_err(wrong)?, note))
                };
                Ok((notes, last.map(read).transpose()?))
            })
            .map_err(|source| StartError::File {
                path: path.clone(),
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
            consistent: true,
        };
        if let Some(last) = &signer.last {
            let why = match last.is_extended_by(&signer.reader)? {
                Extends::Yes => return Ok(signer),
                Extends::Compacted => {
                    signer.consistent = false;
                    return Ok(signer);
                }
                Extends::TooShort { last } => format!("it ends with sequence {last}"),
                Extends::Differs => "the chain hash there is another one".to_owned(),
            };
            let sequence = last.sequence;
            return Err(StartError::Contradiction {
                sequence,
                path,
                why,
            });
        }
        Ok(signer)
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
        self.sign_until(send, &stop).await;
        let finishing = deliveries.into_iter().map(Delivery::finish);
        futures::future::join_all(finishing).await;
    }

    async fn sign_until(&mut self, send: impl Fn(&Signed), stop: &CancellationToken) {
        if !self.consistent {
            metrics::checkpoint_failed();
            tracing::error!(
                file = %self.rules.file.display(),
                "no checkpoints are signed: the entry of the last one was compacted away, so that nothing proves that \
                 the ledger extends it; begin a new file"
            );
            return;
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
