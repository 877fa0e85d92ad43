//! Recovery of the write-ahead log's segments: all but the last have to be complete; the end of the last may be torn.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    super::{
        Damage,
        disk::File,
        store::Sealed,
        wal::{
            self, Segment,
            scan::{self, Fault, Scan},
        },
    },
    Durable, Error, Opening,
};

/// Bytes of zeros that are written at a time over a torn end.
const ERASE_STEP_BYTES: usize = 1024 * 1024;

/// The write-ahead log as read.
pub(super) struct Read {
    pub(super) segments: VecDeque<Arc<Segment>>,
    /// The segment to be continued, and its size.
    pub(super) active: Option<(Arc<Segment>, u64)>,
    /// The end of the ledger.
    pub(super) position: Durable,
}

impl Opening<'_> {
    /// Reads the log, which has to continue `base`, the end of the last `sealed` epoch. `noted` is the acknowledged
    /// position, or one before it.
    pub(super) fn wal(
        &mut self,
        sealed: Option<&Sealed>,
        base: &Durable,
        noted: Option<&Durable>,
    ) -> Result<Read, Error> {
        let directory = self.directory.join(wal::DIRECTORY);
        let listed = self.disk.list(&directory)?;
        let mut firsts: Vec<u64> =
            listed.iter().filter_map(|listed| wal::first_of(&listed.name)).collect();
        // A sealed epoch consists of whole segments: segments before its end are leftovers.
        let released = firsts.partition_point(|first| *first <= base.sequence);
        if let Some(sealed) = sealed.filter(|_| released > 0) {
            sealed.epoch.sync_seal(self.disk)?;
        }
        for first in firsts.drain(..released) {
            self.disk.remove_file(&directory.join(wal::file_name(first)))?;
            self.repaired(format!("log segment {first}: removed, as its epoch is sealed"));
        }
        let mut read = Read { segments: VecDeque::new(), active: None, position: *base };
        let wanted = noted.map_or(0, |noted| noted.sequence);
        let mut at_wanted = (base.sequence == wanted).then_some(*base);
        let last = firsts.last().copied();
        for first in firsts {
            let path = directory.join(wal::file_name(first));
            let next = read.position.sequence.saturating_add(1);
            if first != next {
                return Err(gap(&path, next, first));
            }
            let file = self.disk.open(&path)?;
            let bytes = scan::read(file.as_ref())?;
            let scan = scan::scan(&bytes, &read.position, |frame| {
                if frame.last_sequence() == wanted {
                    at_wanted = Some(frame.end());
                }
            });
            let is_last = Some(first) == last;
            if let Some(fault) = &scan.fault {
                self.fault(file.as_ref(), &scan, fault, is_last, noted)?;
            }
            if is_last && scan.extent.last.sequence > wanted {
                // The sync of these frames is not certain. If it failed, they can be read, but would never reach the
                // disk: only rewritten frames do.
                let end = usize::try_from(scan.extent.end).unwrap_or(usize::MAX);
                file.write_at(bytes.get(..end).unwrap_or_default(), 0)?;
            }
            file.sync()?;
            self.take(file, scan, is_last, &mut read)?;
        }
        acknowledged(&directory, noted, at_wanted.as_ref(), base, &read.position)?;
        Ok(read)
    }

    fn take(
        &self,
        file: Arc<dyn File>,
        scan: Scan,
        is_last: bool,
        read: &mut Read,
    ) -> Result<(), Error> {
        let before = read.position;
        if is_last && scan.extent.last == before {
            // Nothing was written to it yet: the writer creates it anew.
            self.disk.remove_file(file.path())?;
            return Ok(());
        }
        read.position = scan.extent.last;
        let size = scan.size;
        let segment = Segment::recovered(before, file, scan.extent, !is_last);
        if is_last {
            read.active = Some((Arc::clone(&segment), size));
        }
        read.segments.push_back(segment);
        Ok(())
    }

    /// Refuses damage to acknowledged entries; erases a torn end of unacknowledged ones.
    fn fault(
        &mut self,
        file: &dyn File,
        scan: &Scan,
        fault: &Fault,
        is_last: bool,
        noted: Option<&Durable>,
    ) -> Result<(), Error> {
        let end = scan.extent.last;
        let was_acknowledged = noted.is_some_and(|noted| noted.sequence > end.sequence);
        if !is_last || fault.was_durable || was_acknowledged {
            return Err(fault.damage(file, &end).into());
        }
        erase(file, fault)?;
        self.repaired(format!(
            "{} at byte {}: a torn write after sequence {} erased ({})",
            file.path().display(),
            fault.offset,
            end.sequence,
            fault.why
        ));
        Ok(())
    }
}

/// Overwrites a torn end with zeros, so that no old frame reappears behind later writes. Headers are erased last: if the
/// power fails meanwhile, no payload is left without its header, which tells it from frames.
fn erase(file: &dyn File, fault: &Fault) -> Result<(), Error> {
    let end = file.length()?;
    let mut from = fault.offset;
    for header in &fault.headers {
        zero(file, from..header.start)?;
        from = header.end;
    }
    zero(file, from..end)?;
    file.sync()?;
    for header in &fault.headers {
        zero(file, header.clone())?;
    }
    file.sync()
}

fn zero(file: &dyn File, range: Range<u64>) -> Result<(), Error> {
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let step = left.min(ERASE_STEP_BYTES);
        file.zero_at(step, offset)?;
        offset = offset.saturating_add(step as u64);
    }
    Ok(())
}

fn gap(path: &std::path::Path, from: u64, to: u64) -> Error {
    let why =
        format!("the ledger has a gap: sequences {from} to {} are missing", to.saturating_sub(1));
    Error::Damaged(Damage::new(path, why).at_sequence(from).through(to.checked_sub(1)))
}

/// Compares the end of the ledger with the acknowledged position.
fn acknowledged(
    directory: &std::path::Path,
    noted: Option<&Durable>,
    at_noted: Option<&Durable>,
    base: &Durable,
    end: &Durable,
) -> Result<(), Error> {
    let Some(noted) = noted.filter(|noted| noted.sequence >= base.sequence) else {
        return Ok(());
    };
    let damaged = |sequence: u64, why: String| {
        Err(Error::Damaged(Damage::new(directory, why).at_sequence(sequence)))
    };
    if noted.sequence > end.sequence {
        let why = format!(
            "the ledger ends at sequence {}, but {} was acknowledged",
            end.sequence, noted.sequence
        );
        return damaged(end.sequence.saturating_add(1), why);
    }
    if at_noted.is_none_or(|found| found.hash != noted.hash) {
        let why = format!(
            "sequence {} was acknowledged with hash {}, which is not in the chain",
            noted.sequence, noted.hash
        );
        return damaged(noted.sequence, why);
    }
    Ok(())
}
