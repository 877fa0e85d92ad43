//! Where the kept ledger begins: the file `LEDGER`, which makes a directory a data directory.
//!
//! It holds the position of the chain before the first batch that is kept. Compaction moves it
//! forward *before* it removes anything, so what lies before it is a leftover, and what is missing
//! behind it is a gap.

use std::path::Path;

use super::{
    Damage, Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::Disk,
};

/// Name in the data directory.
pub(super) const FILE: &str = "LEDGER";

const MAGIC: [u8; 3] = *b"QLD";

/// Reads where the ledger begins; none if this is no data directory yet.
pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Durable>, Error> {
    let path = directory.join(FILE);
    let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES))? else {
        return Ok(None);
    };
    let origin = open_record(MAGIC, &bytes).and_then(|mut fields| {
        fields
            .position()
            .ok_or_else(|| "a LEDGER record that is too short".to_owned())
    });
    match origin {
        Ok(origin) => Ok(Some(origin)),
        Err(why) => Err(Error::Damaged(Damage {
            file: path,
            offset: Some(0),
            sequence: None,
            why,
        })),
    }
}

/// Sets where the ledger begins, durably.
pub(super) fn write(disk: &dyn Disk, directory: &Path, origin: &Durable) -> Result<(), Error> {
    let record = Record::new(MAGIC).position(origin).finish();
    disk.replace(&directory.join(FILE), &record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{disk::RealDisk, golden};

    #[test]
    fn it_reads_back_and_damage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(read(&RealDisk, path).unwrap(), None);
        write(&RealDisk, path, &Durable::NOTHING).unwrap();
        assert_eq!(read(&RealDisk, path).unwrap(), Some(Durable::NOTHING));
        let mut bytes = std::fs::read(path.join(FILE)).unwrap();
        golden::check("origin", &bytes);
        bytes[15] ^= 4;
        std::fs::write(path.join(FILE), &bytes).unwrap();
        let error = read(&RealDisk, path).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("LEDGER"));
    }
}
