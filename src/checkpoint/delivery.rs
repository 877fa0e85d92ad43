//! Delivers checkpoints to a destination. Nothing waits for a delivery: a failed delivery is retried, and metrics count
//! it.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_nats::{HeaderMap, jetstream};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::{self, CheckpointPlace},
    supervisor,
};

/// Most checkpoints that wait for a destination. A new one displaces the oldest, since the new one covers more.
const PENDING_MAX: usize = 1000;

/// Wait before the second attempt; doubled with each further attempt…
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// …up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The checkpoints that wait for a destination, oldest first.
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
pub(super) struct Delivery {
    place: Destination,
    outbox: Arc<Outbox>,
    ends: CancellationToken,
    task: JoinHandle<()>,
}

impl Delivery {
    /// Starts the delivery task of a destination.
    pub(super) fn begin(place: Destination) -> Self {
        let outbox = Arc::<Outbox>::default();
        let ends = CancellationToken::new();
        let task = supervisor::spawn(
            "the delivery of checkpoints",
            ends.clone(),
            run(place.clone(), Arc::clone(&outbox), ends.clone()),
        );
        Self { place, outbox, ends, task }
    }

    /// Queues a checkpoint for delivery.
    pub(super) fn send(&self, signed: Signed) {
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
    pub(super) async fn finish(self) {
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
pub(super) const ATTEMPT: Duration = Duration::from_secs(10);

/// The file name suffix of a copy.
const SUFFIX: &str = ".checkpoint";

/// A signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) sequence: u64,
    /// Its note.
    pub(super) note: Arc<str>,
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
    pub(super) const fn kind(&self) -> CheckpointPlace {
        match self {
            Self::Nats { .. } => CheckpointPlace::Nats,
            Self::Directory(_) => CheckpointPlace::Directory,
        }
    }

    /// The name of the destination, for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Nats { subject, .. } => subject.clone(),
            Self::Directory(directory) => directory.display().to_string(),
        }
    }

    /// Delivers a checkpoint.
    ///
    /// # Errors
    /// Says why the delivery is not confirmed.
    pub(super) async fn deliver(&self, signed: &Signed) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn signed(sequence: u64) -> Signed {
        Signed { sequence, note: "".into() }
    }

    #[test]
    fn waits_are_bounded() {
        let waits = [1, 2, 3, 7, 8, u32::MAX].map(|failures| wait(failures).as_secs());
        assert_eq!(waits, [1, 2, 4, 60, 60, 60]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_is_given_up() {
        let outbox = Outbox::default();
        for sequence in 1..=PENDING_MAX as u64 {
            assert!(!outbox.put(signed(sequence)));
        }
        let first = outbox.first().unwrap();
        assert!(outbox.put(signed(9999)));
        assert_eq!(outbox.len(), PENDING_MAX);
        // The delivery was in progress when the checkpoint was displaced.
        outbox.delivered(&first);
        assert_eq!((outbox.len(), outbox.first()), (PENDING_MAX, Some(signed(2))));
        outbox.delivered(&signed(2));
        assert_eq!(outbox.first(), Some(signed(3)));
    }

    #[test]
    fn a_copy_is_completed_and_never_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("00000000000000000007.checkpoint");
        let signed = |note: &str| Signed { sequence: 7, note: note.into() };
        store(directory.path(), &signed("a note\n")).unwrap();
        store(directory.path(), &signed("a note\n")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        fs::write(&path, "a n").unwrap();
        store(directory.path(), &signed("a note\n")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        for other in ["b note\n", "a"] {
            let error = store(directory.path(), &signed(other)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        assert!(store(Path::new("/nonexistent"), &signed("x")).is_err());
    }
}
