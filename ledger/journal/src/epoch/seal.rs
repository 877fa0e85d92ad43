//! The seal of an epoch: a small file with the content of its database, written when that was verified and made
//! durable. The manifest of the database's files follows it.

use std::path::Path;

use quota_semantics::Timestamp;

use super::{DATABASE, Epoch, manifest::Manifest, seal, stored_bytes};
use crate::{
    Damage, Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, parent},
    journal::Throttle,
};

/// Name in the epoch's directory.
pub(super) const FILE: &str = "SEAL";

const MAGIC: [u8; 3] = *b"QLE";
const RECORD_BYTES: usize = record_bytes(2 * POSITION_BYTES + 4 * 8);

/// Most bytes of the file: enough for the manifest of 30 GiB.
const FILE_BYTES: usize = 16 * 1024 * 1024;

/// The content of a sealed epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The chain before its first batch.
    pub before: Durable,
    /// The chain behind its last batch.
    pub last: Durable,
    /// Ledger time of its first batch.
    pub first_time: Timestamp,
    /// Number of batches.
    pub batches: u64,
    /// Bytes of all frames.
    pub frame_bytes: u64,
    /// Bytes of its files at the time of the seal.
    pub stored_bytes: u64,
}

impl Seal {
    /// Sequence of its first entry.
    pub const fn first_sequence(&self) -> u64 {
        self.before.sequence.saturating_add(1)
    }

    /// Number of entries.
    pub const fn entries(&self) -> u64 {
        self.last.sequence.saturating_sub(self.before.sequence)
    }

    fn encode(&self) -> Vec<u8> {
        Record::new(MAGIC)
            .position(&self.before)
            .position(&self.last)
            .time(self.first_time)
            .u64(self.batches)
            .u64(self.frame_bytes)
            .u64(self.stored_bytes)
            .finish()
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = open_record(MAGIC, bytes)?;
        let mut read = || {
            Some(Self {
                before: fields.position()?,
                last: fields.position()?,
                first_time: fields.time()?,
                batches: fields.u64()?,
                frame_bytes: fields.u64()?,
                stored_bytes: fields.u64()?,
            })
        };
        match read() {
            Some(seal) if seal.last.sequence > seal.before.sequence => Ok(seal),
            _ => Err("a seal that cannot be".to_owned()),
        }
    }

    /// Reads the seal in an epoch's directory; none if it is not sealed.
    pub(crate) fn read(disk: &dyn Disk, epoch: &Path) -> Result<Option<Self>, Error> {
        let path = epoch.join(FILE);
        let Some(bytes) = disk.read(&path, RECORD_BYTES)? else {
            return Ok(None);
        };
        Self::parse(&bytes).map(Some).map_err(|why| damaged(&path, 0, why))
    }

    /// Writes the seal, durably.
    pub(super) fn write(
        &self,
        disk: &dyn Disk,
        epoch: &Path,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        disk.replace(&epoch.join(FILE), &[self.encode(), manifest.encode()].concat())
    }
}

/// Reads the manifest behind the seal of an epoch.
pub(super) fn manifest(disk: &dyn Disk, epoch: &Path) -> Result<Manifest, Error> {
    let path = epoch.join(FILE);
    let bytes = disk.read(&path, FILE_BYTES)?.unwrap_or_default();
    let manifest = Manifest::parse(bytes.get(RECORD_BYTES..).unwrap_or_default());
    manifest.map_err(|why| damaged(&path, RECORD_BYTES as u64, why))
}

fn damaged(file: &Path, offset: u64, why: String) -> Error {
    Error::Damaged(Damage::new(file, why).at_offset(offset))
}

impl Epoch {
    /// Closes the database, opens it again, verifies that it holds everything up to `last`, syncs and closes it, and
    /// writes the seal with hashes of the files: reads do not change them any more.
    pub(crate) fn seal(
        &self,
        disk: &dyn Disk,
        last: &Durable,
        throttle: &Throttle,
    ) -> Result<Seal, Error> {
        self.sync(disk)?;
        self.try_close()?;
        let mut seal = Seal {
            before: self.before,
            last: *last,
            first_time: last.time,
            batches: 0,
            frame_bytes: 0,
            stored_bytes: 0,
        };
        let found = self.verify(disk, |frame| {
            if seal.batches == 0 {
                seal.first_time = frame.time;
            }
            seal.batches = seal.batches.saturating_add(1);
            seal.frame_bytes = seal.frame_bytes.saturating_add(frame.bytes.len() as u64);
            throttle.pause();
        })?;
        if found != *last {
            let why =
                format!("it ends at sequence {} instead of {}", found.sequence, last.sequence);
            return Err(self.damaged(&found, why));
        }
        self.sync(disk)?;
        self.try_close()?;
        seal.stored_bytes = stored_bytes(disk, &self.directory)?;
        let manifest = Manifest::take(disk, &self.directory.join(DATABASE), throttle)?;
        seal.write(disk, &self.directory, &manifest)?;
        disk.sync_directory(parent(&self.directory))?;
        let _ = self.sealed.set(last.sequence);
        Ok(seal)
    }

    /// Makes the seal durable as it was read, before the log removes the entries that it covers.
    pub(crate) fn sync_seal(&self, disk: &dyn Disk) -> Result<(), Error> {
        disk.open(&self.directory.join(seal::FILE))?.sync()?;
        disk.sync_directory(&self.directory)?;
        disk.sync_directory(parent(&self.directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hash, golden};

    #[test]
    fn version_1_has_these_bytes_and_reads_back() {
        let position = |sequence: u64| Durable {
            sequence,
            hash: Hash::from(blake3::hash(&sequence.to_le_bytes())),
            time: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
        };
        let seal = Seal {
            before: position(10),
            last: position(30),
            first_time: Timestamp::from_nanoseconds(1_600_000_000_000_000_000),
            batches: 5,
            frame_bytes: 4000,
            stored_bytes: 5000,
        };
        let bytes = seal.encode();
        golden::check("seal", &bytes);
        assert_eq!(Seal::parse(&bytes), Ok(seal));
        assert_eq!((seal.first_sequence(), seal.entries()), (11, 20));
        let backwards = Seal { last: position(2), ..seal };
        assert!(Seal::parse(&backwards.encode()).is_err());
    }
}
