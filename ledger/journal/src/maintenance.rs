//! Background work of an open journal: prepare the next segment, sync written batches, flush frames into the current
//! epoch, seal full epochs. Threads run it; each step is a function that tests call directly.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use quota_semantics::{Span, Timestamp};

use crate::{
    Durable, Error, Operation, Seal,
    archive::Archive,
    journal::Throttle,
    reader::{Source, through},
    snapshot::{SNAPSHOTS_NEEDED, SnapshotInfo},
    store::{Current, Sealed, Store},
};

/// Bytes of frames that are flushed at a time. With larger steps, fewer pages of sled are written twice.
pub(super) const FLUSH_BYTES: u64 = 1024 * 1024;

/// The delay of the sync after a write. One sync covers everything written meanwhile.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Flushing is not throttled when more than this fraction of `wal_limit_bytes` waits for it.
const HURRY_PART: u64 = 16;

impl Store {
    /// Flushes frames into the current epoch, or seals it: at least this many bytes of them, unless they are the last
    /// of their segment. Returns whether there was anything to do.
    ///
    /// After an error the journal is poisoned.
    pub(super) fn flush_some(&self, least: u64) -> Result<bool, Error> {
        self.lifecycle.check()?;
        let flushed = self
            .seal_if_due()
            .and_then(|sealed| if sealed { Ok(true) } else { self.flush_chunk(least) });
        flushed.inspect_err(|error| self.lifecycle.poison(error))
    }

    fn flush_chunk(&self, least: u64) -> Result<bool, Error> {
        let Current { epoch, flushed } = self.epochs.current();
        // sled may sync its file before the log is synced: after a power loss it would have entries that the log lacks.
        let synced = self.write.synced().sequence;
        if flushed.sequence >= synced {
            return Ok(false);
        }
        let from = flushed.sequence.saturating_add(1);
        let Some(chunk) = self.wal.chunk(from, FLUSH_BYTES)? else {
            return Ok(false);
        };
        let (frames, _) = chunk.behind(&flushed)?;
        let (frames, end) = through(frames, &flushed, synced);
        let is_enough = frames.len() as u64 >= least || self.wal.has_segment_end(&end);
        if frames.is_empty() || !is_enough {
            return Ok(false);
        }
        let throttle = self.throttle();
        throttle.pause();
        epoch.put(self.disk.as_ref(), &flushed, frames, &throttle)?;
        throttle.pause();
        self.epochs.set_current(Current { epoch, flushed: end });
        Ok(true)
    }

    /// Seals the current epoch, if its end is the end of a segment and it is large enough or sealing was requested.
    fn seal_if_due(&self) -> Result<bool, Error> {
        let Current { epoch, flushed } = self.epochs.current();
        if flushed.sequence == epoch.before.sequence {
            return Ok(false);
        }
        let mut bytes = 0u64;
        let mut ends_here = false;
        for segment in self.wal.segments() {
            let end = segment.closed_at();
            if let Some(end) = end.filter(|end| end.sequence <= flushed.sequence) {
                bytes = bytes.saturating_add(segment.frame_bytes());
                ends_here = end == flushed;
            }
        }
        let large = bytes >= self.options.epoch_bytes;
        if !ends_here || !(large || self.epochs.seal_requested(&epoch.before)) {
            return Ok(false);
        }
        let throttle = self.throttle();
        let seal = match epoch.seal(self.disk.as_ref(), &flushed, &throttle) {
            Ok(seal) => seal,
            Err(Error::Damaged(_)) => {
                // The log still has every frame: rebuild the database, once.
                self.rebuild(&flushed)?;
                epoch.seal(self.disk.as_ref(), &flushed, &throttle)?
            }
            Err(error) => return Err(error),
        };
        self.epochs.push_sealed(Sealed { seal, epoch });
        self.wal.release(self.disk.as_ref(), seal.last.sequence)?;
        Ok(true)
    }

    /// No throttling while many bytes wait to be flushed.
    fn throttle(&self) -> Throttle {
        match self.waiting_bytes() > self.options.wal_limit_bytes / HURRY_PART {
            true => Throttle::default(),
            false => self.options.throttle.clone(),
        }
    }

    /// Rebuilds the current epoch's database from the log, up to a position.
    fn rebuild(&self, to: &Durable) -> Result<(), Error> {
        let epoch = self.epochs.current().epoch;
        epoch.reset(self.disk.as_ref())?;
        self.epochs.set_current(Current { flushed: epoch.before, epoch });
        while self.epochs.current().flushed.sequence < to.sequence {
            if !self.flush_chunk(0)? {
                break;
            }
        }
        Ok(())
    }

    /// Flushes all synced frames, and closes the current database cleanly.
    pub(super) fn flush_all(&self) -> Result<(), Error> {
        while self.flush_some(0)? {}
        let Current { epoch, flushed } = self.epochs.current();
        epoch.close_at(self.disk.as_ref(), &flushed)
    }
}

/// The threads of an open journal. When dropped, they stop after their present step.
pub(super) struct Maintenance {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the threads, unless the options disable them.
    pub(super) fn start(store: &Arc<Store>) -> Result<Self, Error> {
        let mut maintenance = Self { store: Arc::clone(store), threads: Vec::new() };
        if store.options.background {
            maintenance.spawn("journal-prepare", |store| {
                while store.signal.wait_to_prepare() {
                    store.prepare_segment();
                }
            })?;
            maintenance.spawn("journal-sync", |store| {
                while store.signal.wait_to_sync(SYNC_AFTER) {
                    // An error has poisoned the journal: the writer sees it at its next step.
                    let _ = store.sync_written();
                }
            })?;
            maintenance.spawn("journal-flush", |store| {
                while store.signal.wait_to_flush() {
                    // An error has poisoned the journal: the writer sees it at its next step.
                    let goes_on = || store.flush_some(FLUSH_BYTES / 2).unwrap_or(false);
                    while !store.signal.is_stopping() && goes_on() {
                        store.signal.has_flushed();
                    }
                }
            })?;
        }
        Ok(maintenance)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&Store) + Send + 'static,
    ) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Without this thread the writer would wait for it for ever.
                if catch_unwind(AssertUnwindSafe(|| run(&store))).is_err() {
                    let panicked = std::io::Error::other("a background thread panicked");
                    let error = Error::io(&store.directory, Operation::Flush, panicked);
                    store.lifecycle.poison(&error);
                }
            })
            .map_err(|source| Error::io(&self.store.directory, Operation::StartThread, source))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops the threads.
    pub(super) fn stop(&mut self) {
        self.store.signal.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop();
    }
}

// Compaction: the selection and removal of epochs that are no longer kept.

/// The current epoch is ended when it reaches this fraction of the retention limit: this is the precision of retention.
const PARTS: u64 = 8;

/// The retention limits. Both apply to the data directory's epochs, not to the snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Entries older than this are removed; none: no limit.
    pub max_age: Option<Span>,
    /// The oldest entries are removed when there are more bytes than this; none: no limit.
    pub max_bytes: Option<u64>,
}

/// The result of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// The number of removed epochs.
    pub epochs: usize,
    /// The bytes of their files.
    pub bytes: u64,
    /// The number of archived epochs.
    pub archived: usize,
    /// The number of removed snapshots.
    pub snapshots: usize,
    /// The first sequence in the data directory.
    pub kept_from: u64,
}

/// The number of oldest epochs to remove: those that are too old, or that exceed the size limit together with
/// `more_bytes` that are not sealed yet, but none that ends behind `needed_after`.
fn plan(
    epochs: &[Seal],
    more_bytes: u64,
    needed_after: u64,
    now: Timestamp,
    retention: &Retention,
) -> usize {
    let mut bytes =
        epochs.iter().fold(more_bytes, |sum, epoch| sum.saturating_add(epoch.stored_bytes));
    let mut going = 0;
    for epoch in epochs {
        let old = retention.max_age.is_some_and(|age| epoch.last.time < now.minus(age));
        let much = retention.max_bytes.is_some_and(|limit| bytes > limit);
        if epoch.last.sequence > needed_after || !(old || much) {
            break;
        }
        bytes = bytes.saturating_sub(epoch.stored_bytes);
        going += 1;
    }
    going
}

pub(super) fn compact(
    store: &Store,
    now: Timestamp,
    retention: &Retention,
) -> Result<Compaction, Error> {
    let mut done = Compaction {
        kept_from: store.base_position().sequence.saturating_add(1),
        ..Compaction::default()
    };
    let Some(_alone) = store.compaction.try_write() else {
        return Ok(done);
    };
    roll_if_due(store, now, retention)?;
    let sealed = store.epochs.sealed();
    let (snapshots, _) = store.snapshots.list()?;
    let Some(needed) = needed(&snapshots) else {
        return Ok(done);
    };
    let epochs: Vec<Seal> = sealed.iter().map(|sealed| sealed.seal).collect();
    let needed_after = needed.first().map_or(0, |info| info.position.sequence);
    let going = plan(&epochs, unsealed_bytes(store), needed_after, now, retention);
    let going = &sealed[..going];
    if !going.is_empty() {
        for info in needed {
            if let Some(damage) = store.snapshots.verify_at_leisure(info)? {
                return Err(damage.into());
            }
        }
    }
    let gone = going.iter().try_for_each(|oldest| remove(store, oldest, &mut done));
    // Also after an error, which the room of a snapshot may prevent the next time.
    let snapshots = remove_snapshots(store, &snapshots);
    gone?;
    done.snapshots = snapshots?;
    done.kept_from = store.base_position().sequence.saturating_add(1);
    Ok(done)
}

/// The snapshots that have to be kept; none if there are too few to remove any epoch.
fn needed(snapshots: &[SnapshotInfo]) -> Option<&[SnapshotInfo]> {
    let older = snapshots.len().checked_sub(SNAPSHOTS_NEEDED)?;
    snapshots.get(older..)
}

fn unsealed_bytes(store: &Store) -> u64 {
    store.wal.segments().iter().fold(0u64, |sum, segment| sum.saturating_add(segment.frame_bytes()))
}

/// Ends the current epoch, if it alone is a considerable part of the retention limit.
fn roll_if_due(store: &Store, now: Timestamp, retention: &Retention) -> Result<(), Error> {
    let Some(first_time) = first_unsealed_time(store)? else {
        return Ok(());
    };
    let much = retention.max_bytes.is_some_and(|limit| unsealed_bytes(store) > limit / PARTS);
    let old = retention.max_age.is_some_and(|age| {
        let part = Span::from_nanoseconds(age.nanoseconds() / PARTS.cast_signed());
        first_time < now.minus(part)
    });
    if much || old {
        store.roll()?;
    }
    Ok(())
}

/// Ledger time of the first unsealed batch.
fn first_unsealed_time(store: &Store) -> Result<Option<Timestamp>, Error> {
    let before: Durable = store.epochs.current().epoch.before;
    let chunk = store.chunk(before.sequence.saturating_add(1))?;
    Ok(chunk.first_time())
}

/// Removes the oldest epoch, which is archived first if there is an archive. One epoch at a time: the archive gets the
/// room of the epochs before.
fn remove(store: &Store, oldest: &Sealed, done: &mut Compaction) -> Result<(), Error> {
    if let Some(archive) = &store.archive {
        store_in(archive, oldest, store)?;
        done.archived += 1;
    }
    for removed in store.advance_base(oldest.seal.last)? {
        removed.epoch.remove(store.disk.as_ref())?;
        done.epochs += 1;
        done.bytes = done.bytes.saturating_add(removed.seal.stored_bytes);
    }
    store.disk.sync_directory(&store.epochs_directory())
}

fn store_in(archive: &Archive, sealed: &Sealed, store: &Store) -> Result<(), Error> {
    // On the disk of the ledger, it must not take the space that the write-ahead log needs meanwhile.
    if archive.free_space()? / 2 < sealed.seal.stored_bytes {
        let source = std::io::ErrorKind::StorageFull.into();
        return Err(Error::io(archive.directory(), Operation::Archive, source));
    }
    archive.store(&sealed.seal.before, &sealed.seal.last, store)?;
    Ok(())
}

/// Removes the snapshots before the beginning of the kept ledger.
fn remove_snapshots(store: &Store, snapshots: &[SnapshotInfo]) -> Result<usize, Error> {
    let base = store.base_position().sequence;
    let mut removed = 0usize;
    for info in snapshots {
        if info.position.sequence < base {
            store.snapshots.remove(info)?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> Vec<Seal> {
        (1..=5)
            .map(|i| Seal {
                before: Durable::NOTHING,
                last: Durable {
                    sequence: i * 10,
                    time: Timestamp::EPOCH.plus(Span::from_seconds(i.cast_signed() * 60)),
                    ..Durable::NOTHING
                },
                first_time: Timestamp::EPOCH,
                batches: 1,
                frame_bytes: 90,
                stored_bytes: 100,
            })
            .collect()
    }

    fn going(max_age: Option<i64>, max_bytes: Option<u64>, needed_after: u64) -> usize {
        let retention = Retention { max_age: max_age.map(Span::from_seconds), max_bytes };
        let now = Timestamp::EPOCH.plus(Span::from_seconds(360));
        plan(&epochs(), 50, needed_after, now, &retention)
    }

    #[test]
    fn age_and_size_each_make_epochs_go() {
        assert_eq!(going(None, None, 100), 0);
        assert_eq!(going(Some(1000), Some(1000), 100), 0);
        assert_eq!(going(Some(240), None, 100), 1, "the one of 120 s is just young enough");
        assert_eq!(going(Some(0), None, 100), 5);
        assert_eq!(going(None, Some(350), 100), 2);
        assert_eq!(going(None, Some(0), 100), 5);
        assert_eq!(going(Some(240), Some(350), 100), 2);
    }

    #[test]
    fn nothing_goes_that_a_snapshot_does_not_make_up_for() {
        assert_eq!(going(Some(0), Some(0), 0), 0);
        assert_eq!(going(Some(0), Some(0), 29), 2);
        assert_eq!(going(Some(0), Some(0), 30), 3);
    }
}
