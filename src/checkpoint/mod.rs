//! Signs checkpoints while the ledger grows, and delivers them. `quota_journal::checkpoint` defines checkpoints.
//!
//! A checkpoint that contradicts an earlier signed one is never signed: the last checkpoint is durable in the file
//! before it leaves the daemon, and each start compares it with the ledger: in a cluster as soon as the replica has its
//! entry.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use async_nats::{HeaderMap, jetstream};
use parking_lot::Mutex;
use quota_journal::{
    FileReader, Reader as _,
    checkpoint::{self, Checkpoint, Extends, Notes, PrivateKey},
};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    config,
    exit::{Exit, Failure, OrExit as _},
    fatal,
    metrics::{self, CheckpointPlace},
};

/// How often the signer checks whether a checkpoint is due.
const TICK: Duration = Duration::from_secs(1);

/// How the ledger relates to the last signed checkpoint, if it does not contradict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LedgerPosition {
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
            .map(checkpoint::read)
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
    fn compare(&self) -> Result<LedgerPosition, Failure> {
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
    fn notes_mut(&mut self) -> &mut Notes {
        &mut self.notes
    }

    fn new_entries(&self) -> u64 {
        let last = self.last.as_ref().map_or(0, |last| last.sequence);
        self.reader.durable().sequence.saturating_sub(last)
    }

    /// Signs the end of the ledger, and answers the checkpoint once it is durable itself. The entries are synced before:
    /// after a power loss a replica would lack the entries that were only written, and would contradict the checkpoint.
    fn sign(&mut self) -> anyhow::Result<Signed> {
        let synced = self.reader.sync()?;
        let checkpoint = Checkpoint::new(self.key.public().name(), &synced);
        let note = checkpoint::sign(&checkpoint, &self.key);
        self.notes.append(&note)?;
        metrics::checkpoint_signed(checkpoint.sequence);
        tracing::debug!(sequence = checkpoint.sequence, hash = %checkpoint.hash, "checkpoint signed");
        let signed = Signed { sequence: checkpoint.sequence, note: note.into() };
        self.last = Some(checkpoint);
        Ok(signed)
    }
}

/// Most checkpoints that wait for a destination. A new one displaces the oldest, since the new one covers more.
const PENDING_MAX: usize = 1000;

/// Wait before the second attempt; doubled with each further attempt…
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// …up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The checkpoints that wait for a destination, oldest first. Nothing waits for a delivery: a failed delivery is
/// retried, and metrics count it.
#[derive(Default)]
struct Outbox {
    pending: Mutex<VecDeque<Signed>>,
    changed: Notify,
}

impl Outbox {
    /// Adds a checkpoint; answers whether another one is displaced.
    fn put(&self, signed: Signed) -> bool {
        let mut pending = self.pending.lock();
        let is_full = pending.len() >= PENDING_MAX;
        if is_full {
            pending.pop_front();
        }
        pending.push_back(signed);
        self.changed.notify_one();
        is_full
    }

    fn first(&self) -> Option<Signed> {
        self.pending.lock().front().cloned()
    }

    /// Removes a delivered checkpoint, unless it was displaced meanwhile.
    fn delivered(&self, signed: &Signed) {
        let mut pending = self.pending.lock();
        if pending.front() == Some(signed) {
            pending.pop_front();
        }
    }

    fn len(&self) -> usize {
        self.pending.lock().len()
    }
}

/// The wait after this many consecutive failures.
fn wait(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

/// Delivers to one destination.
struct Delivery {
    place: Destination,
    outbox: Arc<Outbox>,
    ends: CancellationToken,
    task: JoinHandle<()>,
}

impl Delivery {
    /// Starts the delivery task of a destination.
    fn begin(place: Destination) -> Self {
        let outbox = Arc::<Outbox>::default();
        let ends = CancellationToken::new();
        let task = fatal::spawn(
            "the delivery of checkpoints",
            ends.clone(),
            run(place.clone(), Arc::clone(&outbox), ends.clone()),
        );
        Self { place, outbox, ends, task }
    }

    /// Queues a checkpoint for delivery.
    fn send(&self, signed: Signed) {
        if self.outbox.put(signed) {
            metrics::checkpoint_given_up(self.place.kind());
            tracing::warn!(
                place = self.place.name(),
                "a checkpoint was dropped: too many wait to be delivered"
            );
        }
        metrics::checkpoints_undelivered(self.place.kind(), self.outbox.len());
    }

    /// Delivers the remaining checkpoints, as long as each succeeds at once.
    async fn finish(self) {
        self.ends.cancel();
        let stop = self.task.abort_handle();
        if tokio::time::timeout(ATTEMPT, self.task).await.is_err() {
            stop.abort();
        }
        let left = self.outbox.len();
        if left > 0 {
            tracing::warn!(
                place = self.place.name(),
                left,
                "checkpoints were not delivered: the file has them"
            );
        }
    }
}

async fn run(place: Destination, outbox: Arc<Outbox>, ends: CancellationToken) {
    let mut failures = 0_u32;
    loop {
        let Some(signed) = outbox.first() else {
            tokio::select! {
                () = outbox.changed.notified() => continue,
                () = ends.cancelled() => return,
            }
        };
        match place.deliver(&signed).await {
            Ok(()) => {
                failures = 0;
                outbox.delivered(&signed);
                metrics::checkpoint_delivered(place.kind(), signed.sequence);
                metrics::checkpoints_undelivered(place.kind(), outbox.len());
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                metrics::checkpoint_failed();
                tracing::warn!(
                    place = place.name(),
                    sequence = signed.sequence,
                    error,
                    "a checkpoint was not delivered"
                );
                if ends.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(wait(failures)) => {}
                    () = ends.cancelled() => {}
                }
            }
        }
    }
}

/// The timeout of one attempt.
const ATTEMPT: Duration = Duration::from_secs(10);

/// The file name suffix of a copy.
const SUFFIX: &str = ".checkpoint";

/// A signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signed {
    sequence: u64,
    /// Its note.
    note: Arc<str>,
}

/// A destination of checkpoints. To deliver a checkpoint twice does no harm.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are two at most")]
pub(crate) enum Destination {
    /// A subject that a JetStream stream stores.
    Nats {
        /// The connection.
        context: jetstream::Context,
        /// The subject.
        subject: String,
    },
    /// A directory, in which each checkpoint becomes a file of its own that is never written again.
    Directory(PathBuf),
}

impl Destination {
    /// A subject on this connection.
    pub(crate) fn nats(client: async_nats::Client, subject: String) -> Self {
        let context = jetstream::new(client);
        Self::Nats { context, subject }
    }

    /// The kind of the destination, for metrics.
    const fn kind(&self) -> CheckpointPlace {
        match self {
            Self::Nats { .. } => CheckpointPlace::Nats,
            Self::Directory(_) => CheckpointPlace::Directory,
        }
    }

    /// The name of the destination, for messages.
    fn name(&self) -> String {
        match self {
            Self::Nats { subject, .. } => subject.clone(),
            Self::Directory(directory) => directory.display().to_string(),
        }
    }

    /// Delivers a checkpoint.
    ///
    /// # Errors
    /// Says why the delivery is not confirmed.
    async fn deliver(&self, signed: &Signed) -> Result<(), String> {
        let delivering = async {
            match self.clone() {
                Self::Nats { context, subject } => publish(&context, subject, signed).await,
                Self::Directory(directory) => {
                    let signed = signed.clone();
                    let stored = tokio::task::spawn_blocking(move || store(&directory, &signed));
                    let stored = stored.await.map_err(|error| error.to_string())?;
                    stored.map_err(|error| error.to_string())
                }
            }
        };
        let timeout = tokio::time::timeout(ATTEMPT, delivering);
        timeout.await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// The stream drops a message that it has stored already, in case an acknowledgement was lost.
async fn publish(
    context: &jetstream::Context,
    subject: String,
    signed: &Signed,
) -> Result<(), String> {
    let mut headers = HeaderMap::new();
    let id = blake3::hash(signed.note.as_bytes()).to_hex();
    headers.insert(async_nats::header::NATS_MESSAGE_ID, id.as_str());
    let note = signed.note.to_string().into();
    let sent = context.publish_with_headers(subject, headers, note).await;
    let stored = sent.map_err(|error| error.to_string())?.await;
    stored.map(drop).map_err(|error| error.to_string())
}

/// Stores a checkpoint durably in a file of its own. Completes a file that a kill has cut off; changes no other file.
fn store(directory: &Path, signed: &Signed) -> io::Result<()> {
    let path = directory.join(format!("{:020}{SUFFIX}", signed.sequence));
    let note = signed.note.as_bytes();
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(&path)?;
    let mut there = Vec::new();
    file.read_to_end(&mut there)?;
    let Some(rest) = note.strip_prefix(there.as_slice()) else {
        let why = format!("{}: another checkpoint is there", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    };
    file.write_all(rest)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}
