//! Compaction: the selection and removal of epochs that are no longer kept.

use quota_semantics::{Span, Timestamp};

use crate::{
    Durable, Error, Operation, Seal,
    archive::Archive,
    reader::Source as _,
    snapshot::{SNAPSHOTS_NEEDED, SnapshotInfo},
    store::{Sealed, Store},
};

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
