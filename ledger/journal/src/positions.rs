//! The base position, at which the kept ledger begins: the file `LEDGER`, which makes a directory a data directory.
//!
//! It holds the position of the chain before the first kept batch. Compaction moves it forward *before* it removes
//! anything, so any file before it is a leftover, and any file missing behind it is a gap. It also holds the first
//! archived sequence, so that a missing archive file is detected.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Archive, DIRECTORIES, Damage, Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File, TEMPORARY},
};

/// Name in the data directory.
pub(super) const BASE_FILE: &str = "LEDGER";

const BASE_MAGIC: [u8; 3] = *b"QLD";

/// The beginning of the kept ledger, and the archived part before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// The chain before the first kept batch.
    pub(super) position: Durable,
    /// The first sequence from which everything before `position` was archived; none: nothing was archived.
    pub(super) archived_from: Option<u64>,
}

impl Base {
    /// The base at a position, with no archive.
    pub(super) const fn at(position: Durable) -> Self {
        Self { position, archived_from: None }
    }

    /// The part that the archive should hold and does not.
    pub(super) fn missing_in(&self, archive: &Archive) -> Option<Damage> {
        let (from, last) = (self.archived_from?, self.position.sequence);
        let reaches_to = archive.reaches_back_to(last);
        let missing = match reaches_to {
            Some(first) if first <= from => return None,
            Some(first) => first.saturating_sub(1),
            None => last,
        };
        let why = format!(
            "sequences {from} to {last} were archived, but not all up to {missing} are there"
        );
        Some(Damage::new(archive.directory(), why).at_sequence(from).through(missing))
    }
}

/// Reads the base position; none if the directory is not a data directory yet.
///
/// # Errors
/// [`Error::Damaged`] also if the file is missing although other files of a ledger exist.
pub(super) fn read_base(disk: &dyn Disk, directory: &Path) -> Result<Option<Base>, Error> {
    let path = directory.join(BASE_FILE);
    let damaged = |offset, why| Err(Error::Damaged(Damage::new(&path, why).at_offset(offset)));
    let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES + 8))? else {
        return match left_over(disk, directory)? {
            Some(left) => damaged(None, format!("missing, although there is {}", left.display())),
            None => Ok(None),
        };
    };
    let base = open_record(BASE_MAGIC, &bytes).and_then(|mut fields| {
        let position =
            fields.position().ok_or_else(|| "a LEDGER record that is too short".to_owned())?;
        Ok(Base { position, archived_from: fields.u64() })
    });
    match base {
        Ok(base) => Ok(Some(base)),
        Err(why) => damaged(Some(0), why),
    }
}

/// A file of a ledger in a directory without a base position.
fn left_over(disk: &dyn Disk, directory: &Path) -> Result<Option<PathBuf>, Error> {
    for part in DIRECTORIES {
        let part = directory.join(part);
        for listed in disk.list(&part)? {
            if !listed.name.ends_with(TEMPORARY) {
                return Ok(Some(part.join(listed.name)));
            }
        }
    }
    let noted = read_anchor(disk, directory)?.position;
    let any = noted.is_some_and(|noted| noted.sequence > 0);
    Ok(any.then(|| directory.join(ANCHOR_FILE)))
}

/// Sets the base position, durably.
pub(super) fn write_base(disk: &dyn Disk, directory: &Path, base: &Base) -> Result<(), Error> {
    stage_base(disk, directory, base)?;
    install_base(disk, directory)
}

/// Writes the new base position to a temporary file.
pub(super) fn stage_base(disk: &dyn Disk, directory: &Path, base: &Base) -> Result<(), Error> {
    let record = Record::new(BASE_MAGIC).position(&base.position);
    let record = match base.archived_from {
        Some(first) => record.u64(first),
        None => record,
    };
    disk.stage(&directory.join(BASE_FILE), &record.finish())
}

/// Installs the staged base position. After an error it is unknown which of the two positions is on disk.
pub(super) fn install_base(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    disk.install(&directory.join(BASE_FILE))
}

/// Name in the data directory.
pub(super) const ANCHOR_FILE: &str = "anchor";

const ANCHOR_MAGIC: [u8; 3] = *b"QLA";
const SLOT_BYTES: usize = 512;

/// The anchor: the last acknowledged position, in the file `anchor` beside the write-ahead log.
///
/// A write-ahead log that ends in garbage was torn by a crash, or was damaged. If the anchor is behind that place, it
/// was damaged. The note is written after each sync of the log, and is itself synced only when a segment or the journal
/// is closed: a killed process loses nothing of it, a power loss may leave an older note, which is still correct, but
/// less precise.
///
/// The file has two slots, 512 bytes apart, so that a torn note leaves the previous one intact.
pub(super) struct Anchor {
    file: Arc<dyn File>,
    /// The slot for the next note.
    next: usize,
}

/// The content of the anchor file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notes {
    /// The later of its notes; none if no slot can be read.
    pub(super) position: Option<Durable>,
    /// Slots with unreadable content.
    pub(super) unreadable: usize,
}

/// Reads the notes of a data directory.
pub(super) fn read_anchor(disk: &dyn Disk, directory: &Path) -> Result<Notes, Error> {
    let bytes = disk.read(&directory.join(ANCHOR_FILE), 2 * SLOT_BYTES)?.unwrap_or_default();
    let mut noted = Notes { position: None, unreadable: 0 };
    for slot in bytes.chunks(SLOT_BYTES) {
        if slot.iter().all(|byte| *byte == 0) {
            continue;
        }
        match parse_slot(slot) {
            Some(position) => {
                let later =
                    noted.position.is_none_or(|earlier| earlier.sequence < position.sequence);
                if later {
                    noted.position = Some(position);
                }
            }
            None => noted.unreadable += 1,
        }
    }
    Ok(noted)
}

fn parse_slot(slot: &[u8]) -> Option<Durable> {
    open_record(ANCHOR_MAGIC, slot).ok()?.position()
}

impl Anchor {
    /// Creates the anchor file at `position`, durably, replacing any other. Both slots get the note, one after the
    /// other, so that no older one is left.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        position: &Durable,
    ) -> Result<Self, Error> {
        let path = directory.join(ANCHOR_FILE);
        let mut bytes = slot(position);
        bytes.extend_from_slice(&slot(position));
        disk.replace(&path, &bytes)?;
        Ok(Self { file: disk.open(&path)?, next: 0 })
    }

    /// Writes a note of a position that has become durable.
    pub(super) fn note(&mut self, position: &Durable) -> Result<(), Error> {
        let record = Record::new(ANCHOR_MAGIC).position(position).finish();
        let offset = self.next.saturating_mul(SLOT_BYTES) as u64;
        self.file.write_at(&record, offset)?;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Makes the notes durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync()
    }
}

fn slot(position: &Durable) -> Vec<u8> {
    let mut bytes = Record::new(ANCHOR_MAGIC).position(position).finish();
    debug_assert_eq!(bytes.len(), record_bytes(POSITION_BYTES));
    bytes.resize(SLOT_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use quota_semantics::Timestamp;

    use super::*;

    use crate::{Hash, disk::RealDisk, golden};

    #[test]
    fn it_reads_back_and_damage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(read_base(&RealDisk, path).unwrap(), None);
        let archived =
            Base { position: Durable { sequence: 9, ..Durable::NOTHING }, archived_from: Some(3) };
        for base in [archived, Base::at(Durable::NOTHING)] {
            write_base(&RealDisk, path, &base).unwrap();
            assert_eq!(read_base(&RealDisk, path).unwrap(), Some(base));
        }
        let mut bytes = std::fs::read(path.join(BASE_FILE)).unwrap();
        golden::check("origin", &bytes);
        bytes[15] ^= 4;
        std::fs::write(path.join(BASE_FILE), &bytes).unwrap();
        let error = read_base(&RealDisk, path).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("LEDGER"));
    }

    fn position(sequence: u64) -> Durable {
        Durable {
            sequence,
            hash: Hash::from(blake3::hash(&sequence.to_le_bytes())),
            time: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
        }
    }

    #[test]
    fn version_1_has_these_bytes() {
        let bytes = slot(&position(300));
        golden::check("anchor", &bytes[..record_bytes(POSITION_BYTES)]);
    }

    #[test]
    fn the_later_note_counts_and_a_torn_one_leaves_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let nothing = read_anchor(&RealDisk, path).unwrap();
        assert_eq!((nothing.position, nothing.unreadable), (None, 0));
        let mut anchor = Anchor::create(&RealDisk, path, &position(4)).unwrap();
        for sequence in 5..9 {
            anchor.note(&position(sequence)).unwrap();
            let noted = read_anchor(&RealDisk, path).unwrap();
            assert_eq!(noted.position, Some(position(sequence)));
        }
        anchor.sync().unwrap();
        let mut bytes = std::fs::read(path.join(ANCHOR_FILE)).unwrap();
        bytes[SLOT_BYTES + 20] ^= 1;
        std::fs::write(path.join(ANCHOR_FILE), &bytes).unwrap();
        let noted = read_anchor(&RealDisk, path).unwrap();
        assert_eq!((noted.position, noted.unreadable), (Some(position(7)), 1));
    }
}
