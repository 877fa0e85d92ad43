//! Signs checkpoints while the ledger grows.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use quota_journal::checkpoint::{Checkpoint, Extends, Notes, key::PrivateKey, note};
use quota_journal::{FileReader, Reader as _};
use tokio_util::sync::CancellationToken;

use super::delivery::{Delivery, Destination, Signed};
use crate::{
    config,
    exit::{Exit, Failure, OrExit as _},
    fatal, metrics,
};

/// How often the signer checks whether a checkpoint is due.
const TICK: Duration = Duration::from_secs(1);

/// How the ledger relates to the last signed checkpoint, if it does not contradict it.
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
    /// The file to which checkpoints are appended.
    file: PathBuf,
    /// Sign after this many entries.
    every_entries: u64,
    /// Sign after this time if there are new entries.
    every: Duration,
    /// Whether the ledger is a replica: if it ends before the last checkpoint, as that of a node whose disk was lost, it
    /// gets the missing entries from the other nodes.
    is_replica: bool,
    standing: LedgerPosition,
}

impl Signer {
    /// Reads the key, and compares the ledger with the last checkpoint. None if no key is configured.
    ///
    /// # Errors
    /// The key or the file of checkpoints cannot be used; the ledger contradicts the last checkpoint, or cannot be read.
    pub(crate) fn open(
        rules: &config::Checkpoint,
        is_replica: bool,
        reader: FileReader,
    ) -> Result<Option<Self>, Failure> {
        let (Some(key_file), Some(file)) = (&rules.key_file, &rules.file) else {
            return Ok(None);
        };
        let in_key_file = || format!("checkpoint.key_file = {}", key_file.display());
        let in_file = || format!("checkpoint.file = {}", file.display());
        let key = std::fs::read_to_string(key_file)
            .with_context(in_key_file)
            .or_exit(Exit::Configuration)?;
        let key: PrivateKey = key.parse().with_context(in_key_file).or_exit(Exit::Configuration)?;
        let (notes, text) = Notes::open(file, key.public().name())
            .with_context(in_file)
            .or_exit(Exit::Configuration)?;
        let last = text
            .as_deref()
            .map(note::read)
            .transpose()
            .with_context(in_file)
            .or_exit(Exit::Configuration)?;
        let earlier = last
            .as_ref()
            .zip(text)
            .map(|(last, note)| Signed { sequence: last.sequence, note: note.into() });
        let mut signer = Self {
            reader,
            key,
            notes,
            last,
            earlier,
            file: file.clone(),
            every_entries: rules.every_entries.get(),
            every: rules.every.get(),
            is_replica,
            standing: LedgerPosition::Extends,
        };
        signer.standing = signer.compare()?;
        Ok(Some(signer))
    }

    /// Compares the ledger with the last checkpoint. A ledger that contradicts it was changed, cut, or replaced by an
    /// older one.
    pub(super) fn compare(&self) -> Result<LedgerPosition, Failure> {
        let Some(last) = &self.last else {
            return Ok(LedgerPosition::Extends);
        };
        let extends = last.is_extended_by(&self.reader).map_err(fatal::at_start)?;
        let why = match extends {
            Extends::Yes => return Ok(LedgerPosition::Extends),
            Extends::Compacted => return Ok(LedgerPosition::Unproven),
            Extends::TooShort { .. } if self.is_replica => return Ok(LedgerPosition::Behind),
            Extends::TooShort { last } => format!("it ends with sequence {last}"),
            Extends::Differs => "the chain hash there is another one".to_owned(),
        };
        let error = anyhow::anyhow!(
            "the ledger does not extend the checkpoint of sequence {} in {}, signed before: {why}",
            last.sequence,
            self.file.display()
        );
        let exit = Exit::Damaged;
        Err(Failure { exit, error })
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
                file = %self.file.display(),
                "no checkpoints are signed until the replica has the entry of the last one"
            );
        }
        while self.standing == LedgerPosition::Behind {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(TICK) => {}
            }
            self.standing = tokio::task::block_in_place(|| self.compare())
                .unwrap_or_else(|failure| fatal::checkpoint_contradicted(&failure));
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
                    file = %self.file.display(),
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
            let is_due = new_entries >= self.every_entries || signed.elapsed() >= self.every;
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
    pub(super) fn sign(&mut self) -> anyhow::Result<Signed> {
        let synced = self.reader.sync()?;
        let checkpoint = Checkpoint::new(self.key.public().name(), &synced);
        let note = note::sign(&checkpoint, &self.key);
        self.notes.append(&note)?;
        metrics::checkpoint_signed(checkpoint.sequence);
        tracing::debug!(sequence = checkpoint.sequence, hash = %checkpoint.hash, "checkpoint signed");
        let signed = Signed { sequence: checkpoint.sequence, note: note.into() };
        self.last = Some(checkpoint);
        Ok(signed)
    }
}
