//! The base position, at which the kept ledger begins: the file `LEDGER`, which makes a directory a data directory.
//!
//! It holds the position of the chain before the first kept batch. Compaction moves it forward *before* it removes
//! anything, so any file before it is a leftover, and any file missing behind it is a gap. It also holds the first
//! archived sequence, so that a missing archive file is detected.

use std::path::{Path, PathBuf};

use super::{
    Archive, DIRECTORIES, Damage, Durable, Error, anchor,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, TEMPORARY},
};

/// Name in the data directory.
pub(super) const FILE: &str = "LEDGER";

const MAGIC: [u8; 3] = *b"QLD";

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
pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Base>, Error> {
    let path = directory.join(FILE);
    let damaged = |offset, why| Err(Error::Damaged(Damage::new(&path, why).at_offset(offset)));
    let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES + 8))? else {
        return match left_over(disk, directory)? {
            Some(left) => damaged(None, format!("missing, although there is {}", left.display())),
            None => Ok(None),
        };
    };
    let base = open_record(MAGIC, &bytes).and_then(|mut fields| {
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
    let noted = anchor::read(disk, directory)?.position;
    let any = noted.is_some_and(|noted| noted.sequence > 0);
    Ok(any.then(|| directory.join(anchor::FILE)))
}

/// Sets the base position, durably.
pub(super) fn write(disk: &dyn Disk, directory: &Path, base: &Base) -> Result<(), Error> {
    stage(disk, directory, base)?;
    install(disk, directory)
}

/// Writes the new base position to a temporary file.
pub(super) fn stage(disk: &dyn Disk, directory: &Path, base: &Base) -> Result<(), Error> {
    let record = Record::new(MAGIC).position(&base.position);
    let record = match base.archived_from {
        Some(first) => record.u64(first),
        None => record,
    };
    disk.stage(&directory.join(FILE), &record.finish())
}

/// Installs the staged base position. After an error it is unknown which of the two positions is on disk.
pub(super) fn install(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    disk.install(&directory.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{disk::RealDisk, golden};

    #[test]
    fn it_reads_back_and_damage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(read(&RealDisk, path).unwrap(), None);
        let archived =
            Base { position: Durable { sequence: 9, ..Durable::NOTHING }, archived_from: Some(3) };
        for base in [archived, Base::at(Durable::NOTHING)] {
            write(&RealDisk, path, &base).unwrap();
            assert_eq!(read(&RealDisk, path).unwrap(), Some(base));
        }
        let mut bytes = std::fs::read(path.join(FILE)).unwrap();
        golden::check("origin", &bytes);
        bytes[15] ^= 4;
        std::fs::write(path.join(FILE), &bytes).unwrap();
        let error = read(&RealDisk, path).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("LEDGER"));
    }
}
