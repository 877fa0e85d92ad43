//! Recovers the state from a data directory: opens the journal, loads the newest snapshot, and replays later entries.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use quota_core::{event::Sequence, state::State};
use quota_journal::{Durable, FileJournal, FileReader, Throttle, disk::RealDisk};
use quota_ledger::replay;
use quota_service::systemd;

use crate::{config::Config, disk_space};

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
        open(&options(config, throttle), directory)?;
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
fn open(
    options: &quota_journal::Options,
    directory: &Path,
) -> Result<replay::Recovered, replay::Error> {
    let open = || replay::recover(Arc::new(RealDisk), directory, options.clone(), report_progress);
    match open() {
        Err(replay::Error::Journal(error)) if error.is_disk_full() => {
            match disk_space::release_ballast(directory) {
                Ok(true) => {
                    tracing::warn!(%error, "the disk is full; the ballast is given up to open the ledger");
                    open()
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
        systemd::status(&format!("replaying the ledger: entry {sequence} of {last}"));
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
