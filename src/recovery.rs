//! Opens the ledger at the start, and closes it last. Recovers the state from a data directory: opens the journal, loads
//! the newest snapshot, and replays later entries.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use quota_core::{event::Sequence, state::State};
use quota_journal::{Durable, FileJournal, FileReader, LOCK, Operation, Throttle, disk::RealDisk};
use quota_ledger::replay;
use quota_replication::jetstream::ReplicatedJournal;
use quota_service::program;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, WatermarkSource},
    daemon::policy,
    denials, disk_space,
    exit::{Exit, Failure},
    fairness, fatal,
    intake::nats,
    maintenance::Maintenance,
    now,
    writer::{self, Ledger, Replica, Required, Threads, Watermark},
};

/// An open and recovered ledger, before it serves requests.
pub struct Recovered {
    /// The fold of all durable entries.
    pub state: State,
    /// Appends entries.
    pub journal: FileJournal,
    /// Reads entries.
    pub reader: FileReader,
    /// The durable end of the ledger.
    pub durable: Durable,
}

/// Opens the ledger of a data directory, or begins one, as [`replay::recover`] does. Background work of the journal
/// uses `throttle`.
///
/// # Errors
/// The directory is in use, damaged, or cannot be read or written.
pub fn recover(config: &Config, throttle: Throttle) -> Result<Recovered, replay::Error> {
    let directory = Path::new(&config.data_dir);
    let started = Instant::now();
    let replay::Recovered { state, journal, reader, recovery, loaded, unusable } =
        open_journal(&options(config, throttle), directory)?;
    for repaired in &recovery.repaired {
        tracing::warn!(repaired, "repaired the ledger after an unclean stop");
    }
    for damage in &recovery.damaged_epochs {
        tracing::error!(%damage, "epoch damaged: entries that cannot be read are not served");
    }
    for damage in &recovery.damaged_snapshots {
        tracing::error!(%damage, "a snapshot is damaged and not used");
    }
    if let Some(damage) = &recovery.missing_archive {
        tracing::error!(%damage, "the archive lacks its beginning: the entries in there are lost");
    }
    for error in unusable {
        tracing::error!(%error, "a snapshot cannot be used");
    }
    let durable = recovery.durable;
    tracing::info!(
        sequence = durable.sequence,
        hash = %durable.hash,
        from_snapshot = loaded,
        replayed = state.head().sequence - loaded,
        objects = state.object_count(),
        pending_reservations = state.pending_count(),
        duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "recovered"
    );
    Ok(Recovered { state, journal, reader, durable })
}

/// On a full disk, removes the ballast and tries again.
fn open_journal(
    options: &quota_journal::Options,
    directory: &Path,
) -> Result<replay::Recovered, replay::Error> {
    let open_journal =
        || replay::recover(Arc::new(RealDisk), directory, options.clone(), report_progress);
    match open_journal() {
        Err(replay::Error::Journal(error)) if error.is_disk_full() => {
            match disk_space::release_ballast(directory) {
                Ok(true) => {
                    tracing::warn!(%error, "the disk is full; the ballast is given up to open the ledger");
                    open_journal()
                }
                _ => Err(error.into()),
            }
        }
        opened => opened,
    }
}

/// Interval of entries between two progress reports to systemd: a few reports per second.
const REPORTED_EVERY: Sequence = 1 << 18;

fn report_progress(sequence: Sequence, last: Sequence) {
    if sequence == last || sequence.is_multiple_of(REPORTED_EVERY) {
        program::status(&format!("replaying the ledger: entry {sequence} of {last}"));
    }
}

fn options(config: &Config, throttle: Throttle) -> quota_journal::Options {
    quota_journal::Options {
        segment_bytes: config.journal.segment_bytes.bytes(),
        epoch_bytes: config.journal.epoch_bytes.bytes(),
        start_with_damage: config.ledger.start_with_damage,
        archive: config.retention.archive_dir.clone(),
        throttle,
        ..quota_journal::Options::default()
    }
}

// The ledger: opened before anything is served, closed last.

/// An open ledger, and its writer.
pub(crate) struct Opened {
    pub(crate) ledger: Ledger,
    pub(crate) reader: FileReader,
    writer: Writer,
    /// Applies the log to the ledger while another node leads; none without a cluster.
    pub(crate) replica: Option<Replica<FileJournal>>,
    denials_thread: std::thread::JoinHandle<()>,
}

/// The threads of the writer.
enum Writer {
    Alone(Threads<FileJournal>),
    OfCluster(Threads<ReplicatedJournal<FileJournal>>),
}

impl Writer {
    fn join(self) -> Result<FileJournal, quota_journal::Error> {
        match self {
            Self::Alone(threads) => threads.join(),
            Self::OfCluster(threads) => threads.join().map(ReplicatedJournal::into_replica),
        }
    }
}

/// Opens the ledger. `stop` ends the throttling of background work, since from then on a caller waits for it to end.
pub(crate) async fn open(config: &Arc<Config>, stop: CancellationToken) -> Result<Opened, Failure> {
    let recovering = config.clone();
    let recovered =
        tokio::task::spawn_blocking(move || recover(&recovering, fairness::until(stop)));
    let recovered = recovered.await.context("recovery failed")?;
    let recovered = recovered.map_err(|error| {
        let exit = exit_of(&error);
        let context = match &error {
            replay::Error::Journal(quota_journal::Error::Damaged(damage)) if damage.through.is_some() => {
                "cannot open the ledger (`quotactl ledger repair --from` an archive or a backup puts damaged epochs \
                 back; ledger.start_with_damage = true serves what does not need them)"
            }
            _ => "cannot open the ledger",
        };
        Failure {
            exit,
            error: anyhow::Error::new(error).context(context),
        }
    })?;
    let watermark = Arc::new(watermark(config));
    let options = writer::Options {
        policy: policy(config)?,
        queue: config.limits.queue.get(),
        max_batch_entries: config.journal.max_batch_entries.get(),
    };
    let reader = recovered.reader;
    let file = config.data_dir.join("denials.ndjson");
    let kept = denials::start(&file, denials::Bounds::of(config));
    let (denials, denials_thread) = kept.map_err(|source| {
        fatal::at_start(quota_journal::Error::io(file, Operation::Open, source))
    })?;
    let (state, journal, durable) = (recovered.state, recovered.journal, recovered.durable);
    let failed = |error: &_| fatal::journal_stopped(error);
    let started = match config.cluster.is_on() {
        false => writer::start(state, journal, durable, watermark, options, failed)
            .map(|(ledger, threads)| (ledger, Writer::Alone(threads), None)),
        true => {
            let journal = ReplicatedJournal::new(journal);
            writer::start_following(state, journal, durable, watermark, options, failed).map(
                |(ledger, threads, replica)| (ledger, Writer::OfCluster(threads), Some(replica)),
            )
        }
    };
    let (ledger, writer, replica) = started.context("cannot start the writer")?;
    Ok(Opened {
        ledger: ledger.keeping_denials(denials).with_coverage(crate::daemon::coverage(config)),
        reader,
        writer,
        replica,
        denials_thread,
    })
}

/// The source of the watermark.
fn watermark(config: &Config) -> Watermark {
    if config.nats.url.is_none() {
        return Watermark::without_sources();
    }
    match config.nats.watermark {
        WatermarkSource::Poll => Watermark::unknown(),
        WatermarkSource::Bridge => Watermark::published(Required {
            source: nats::principal(&config.nats).as_str().into(),
            resources: config
                .watermark_resources()
                .iter()
                .map(|resource| resource.as_str().into())
                .collect(),
            since: now(),
            max_age: config.nats.max_watermark_age.span(),
        }),
    }
}

/// Takes a last snapshot and closes the ledger. The snapshot only makes the next start faster.
pub(crate) async fn close(opened: Opened, maintenance: &Maintenance) -> Result<(), Failure> {
    if maintenance.has_news()
        && !opened.ledger.is_disk_low()
        && let Err(error) = maintenance.snapshot().await
    {
        tracing::warn!(%error, "the snapshot at shutdown failed");
    }
    let closed = tokio::task::spawn_blocking(move || {
        opened.ledger.close();
        let journal = opened.writer.join()?;
        if let Some(denials) = opened.ledger.denials() {
            denials.close();
        }
        if opened.denials_thread.join().is_err() {
            tracing::error!("the thread that keeps denials panicked");
        }
        journal.close()
    });
    let durable = closed.await.context("closing the ledger failed")?;
    let durable = durable.map_err(|error| Failure {
        exit: fatal::exit_of_stopped(&error),
        error: anyhow::Error::new(error).context("cannot close the ledger"),
    })?;
    tracing::info!(sequence = durable.sequence, hash = %durable.hash, "ledger closed");
    Ok(())
}

fn exit_of(error: &replay::Error) -> Exit {
    match error {
        replay::Error::Entries { .. } | replay::Error::Snapshot { .. } => Exit::Damaged,
        replay::Error::Journal(error) => fatal::exit_at_start(error),
    }
}

// Remembers where the ledger was opened. A directory may be removed, replaced by a backup, or unmounted while its
// files are open: writes to them still succeed, but cannot be found again. So the lock file is checked, as PostgreSQL
// checks its `postmaster.pid`.

/// The location of an open ledger.
#[derive(Clone, Debug)]
pub(crate) struct DataDirGuard {
    lock: PathBuf,
    identity: (u64, u64),
}

impl DataDirGuard {
    /// The location of the ledger that was just opened in this directory.
    pub(crate) fn of(directory: &Path) -> io::Result<Self> {
        let lock = directory.join(LOCK);
        Ok(Self { identity: identity(&lock)?, lock })
    }

    /// Whether the path still leads to the ledger that was opened.
    ///
    /// # Errors
    /// The path cannot be examined.
    pub(crate) fn is_held(&self) -> io::Result<bool> {
        match identity(&self.lock) {
            Ok(found) => Ok(found == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file that is checked.
    pub(crate) fn lock(&self) -> &Path {
        &self.lock
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_was_removed_exchanged_or_lost_its_lock_is_not_held() {
        let outside = tempfile::tempdir().unwrap();
        let directory = outside.path().join("data");
        let elsewhere = outside.path().join("elsewhere");
        fs::create_dir(&directory).unwrap();
        assert!(DataDirGuard::of(&directory).is_err());
        fs::write(directory.join(LOCK), "1").unwrap();
        let place = DataDirGuard::of(&directory).unwrap();
        assert!(place.is_held().unwrap());
        // The content of the file does not matter.
        fs::write(directory.join(LOCK), "2").unwrap();
        assert!(place.is_held().unwrap());
        fs::rename(&directory, &elsewhere).unwrap();
        assert!(!place.is_held().unwrap());
        fs::create_dir(&directory).unwrap();
        assert!(!place.is_held().unwrap());
        fs::copy(elsewhere.join(LOCK), directory.join(LOCK)).unwrap();
        assert!(!place.is_held().unwrap());
        fs::remove_dir_all(&directory).unwrap();
        fs::rename(&elsewhere, &directory).unwrap();
        assert!(place.is_held().unwrap());
    }
}
