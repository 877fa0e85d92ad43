//! The anchor: the last acknowledged position, in the file `anchor` beside the write-ahead log.
//!
//! A write-ahead log that ends in garbage was torn by a crash, or was damaged. If the anchor is behind that place,
//! it was damaged. The note is written after each sync of the log, and is itself synced only when a segment or the
//! journal is closed: a killed process loses nothing of it, a power loss may leave an older note, which is still
//! correct, but less precise.
//!
//! The file has two slots, 512 bytes apart, so that a torn note leaves the previous one intact.

use std::{path::Path, sync::Arc};

use super::{
    Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File},
};

/// Name in the data directory.
pub(super) const FILE: &str = "anchor";

const MAGIC: [u8; 3] = *b"QLA";
const SLOT_BYTES: usize = 512;

/// The file of the last acknowledged position.
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
pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Notes, Error> {
    let bytes = disk.read(&directory.join(FILE), 2 * SLOT_BYTES)?.unwrap_or_default();
    let mut noted = Notes { position: None, unreadable: 0 };
    for slot in bytes.chunks(SLOT_BYTES) {
        if slot.iter().all(|byte| *byte == 0) {
            continue;
        }
        match parse(slot) {
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

fn parse(slot: &[u8]) -> Option<Durable> {
    open_record(MAGIC, slot).ok()?.position()
}

impl Anchor {
    /// Creates the anchor file at `position`, durably, replacing any other. Both slots get the note, one after the
    /// other, so that no older one is left.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        position: &Durable,
    ) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let mut bytes = slot(position);
        bytes.extend_from_slice(&slot(position));
        disk.replace(&path, &bytes)?;
        Ok(Self { file: disk.open(&path)?, next: 0 })
    }

    /// Writes a note of a position that has become durable.
    pub(super) fn note(&mut self, position: &Durable) -> Result<(), Error> {
        let record = Record::new(MAGIC).position(position).finish();
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
    let mut bytes = Record::new(MAGIC).position(position).finish();
    debug_assert_eq!(bytes.len(), record_bytes(POSITION_BYTES));
    bytes.resize(SLOT_BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hash, disk::RealDisk, golden};
    use quota_semantics::Timestamp;

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
        let nothing = read(&RealDisk, path).unwrap();
        assert_eq!((nothing.position, nothing.unreadable), (None, 0));
        let mut anchor = Anchor::create(&RealDisk, path, &position(4)).unwrap();
        for sequence in 5..9 {
            anchor.note(&position(sequence)).unwrap();
            let noted = read(&RealDisk, path).unwrap();
            assert_eq!(noted.position, Some(position(sequence)));
        }
        anchor.sync().unwrap();
        let mut bytes = std::fs::read(path.join(FILE)).unwrap();
        bytes[SLOT_BYTES + 20] ^= 1;
        std::fs::write(path.join(FILE), &bytes).unwrap();
        let noted = read(&RealDisk, path).unwrap();
        assert_eq!((noted.position, noted.unreadable), (Some(position(7)), 1));
    }
}
