//! The seal of an epoch: a small file with the content of its database, written when that was verified and made
//! durable. The manifest of the database's files follows it.

use std::path::Path;

use quota_semantics::Timestamp;

use super::{DATABASE, Epoch, stored_bytes};
use crate::{
    Damage, Durable, Error, Hash,
    codec::{Fields, POSITION_BYTES, Record, open_record, record_bytes},
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
        disk.open(&self.directory.join(FILE))?.sync()?;
        disk.sync_directory(&self.directory)?;
        disk.sync_directory(parent(&self.directory))
    }
}

const MANIFEST_MAGIC: [u8; 3] = *b"QLM";

/// Bytes of a file per hash: the precision with which damage is located.
const PIECE_BYTES: usize = 64 * 1024;

/// Longest name of a file, in bytes.
const NAME_BYTES: usize = 4096;

/// The manifest of a sealed epoch: hashes of its database's files at the time of the seal, behind the seal in the same
/// file.
///
/// sled repairs a damaged database when it opens it, and loses the entries behind the damage. So the files are compared
/// with the manifest before sled opens them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    files: Vec<SealedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SealedFile {
    /// Path within the database's directory, with `/`.
    name: String,
    length: u64,
    /// BLAKE3 of each piece.
    pieces: Vec<Hash>,
}

impl Manifest {
    /// Reads the files of a database, and makes them durable.
    pub(super) fn take(
        disk: &dyn Disk,
        database: &Path,
        throttle: &Throttle,
    ) -> Result<Self, Error> {
        let mut manifest = Self::default();
        for name in disk.database_files(database)? {
            let path = database.join(&name);
            let file = SealedFile::read(disk, &path, name, throttle)?;
            disk.open(&path)?.sync()?;
            disk.sync_directory(parent(&path))?;
            manifest.files.push(file);
        }
        Ok(manifest)
    }

    /// The first difference between the files of a database and the manifest.
    pub(super) fn difference(
        &self,
        disk: &dyn Disk,
        database: &Path,
    ) -> Result<Option<Damage>, Error> {
        let found = disk.database_files(database)?;
        let sealed = self.files.iter().map(|file| &file.name);
        if let Some(missing) = sealed.clone().find(|name| !found.contains(name)) {
            return Ok(Some(Damage::new(database.join(missing), "the file is missing")));
        }
        if let Some(more) = found.iter().find(|name| !sealed.clone().any(|sealed| sealed == *name))
        {
            let why = "the file was not there when the epoch was sealed";
            return Ok(Some(Damage::new(database.join(more), why)));
        }
        for sealed in &self.files {
            let path = database.join(&sealed.name);
            let file = SealedFile::read(disk, &path, sealed.name.clone(), &Throttle::default())?;
            let mut pieces = file.pieces.iter().zip(&sealed.pieces);
            if let Some(piece) = pieces.position(|(found, sealed)| found != sealed) {
                let offset = (piece as u64).saturating_mul(PIECE_BYTES as u64);
                let why = format!("the {PIECE_BYTES} bytes from there on differ from the seal");
                return Ok(Some(Damage::new(path, why).at_offset(offset)));
            }
            if file.length != sealed.length {
                let why =
                    format!("it has {} bytes and was sealed with {}", file.length, sealed.length);
                return Ok(Some(Damage::new(path, why).at_offset(file.length.min(sealed.length))));
            }
        }
        Ok(None)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let count = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        let mut record = Record::new(MANIFEST_MAGIC).u32(count);
        for file in &self.files {
            let length = u32::try_from(file.name.len()).unwrap_or(u32::MAX);
            record = record.u32(length).bytes(file.name.as_bytes()).u64(file.length);
            for piece in &file.pieces {
                record = record.hash(piece);
            }
        }
        record.finish()
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = open_record(MANIFEST_MAGIC, bytes)?;
        let files = (|| {
            let count = fields.u32()?;
            (0..count).map(|_| SealedFile::parse(&mut fields)).collect()
        })();
        match files {
            Some(files) if fields.rest().is_empty() => Ok(Self { files }),
            _ => Err("a manifest that cannot be".to_owned()),
        }
    }
}

impl SealedFile {
    fn read(
        disk: &dyn Disk,
        path: &Path,
        name: String,
        throttle: &Throttle,
    ) -> Result<Self, Error> {
        let file = disk.open(path)?;
        let mut buffer = vec![0; PIECE_BYTES];
        let (mut length, mut pieces) = (0u64, Vec::new());
        loop {
            let read = file.read_at(&mut buffer, length)?;
            if read > 0 {
                pieces.push(Hash::from(blake3::hash(&buffer[..read])));
                throttle.pause();
                length = length.saturating_add(read as u64);
            }
            if read < PIECE_BYTES {
                return Ok(Self { name, length, pieces });
            }
        }
    }

    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        let length = fields.u32()? as usize;
        let name = fields.rest().get(..length.min(NAME_BYTES))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        fields.skip(length)?;
        let length = fields.u64()?;
        let pieces = length.div_ceil(PIECE_BYTES as u64);
        if pieces > fields.rest().len() as u64 {
            return None;
        }
        let pieces = (0..pieces).map(|_| fields.hash()).collect::<Option<_>>()?;
        Some(Self { name, length, pieces })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Hash, disk::RealDisk, golden};

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

    fn hash(number: u8) -> Hash {
        Hash::from_bytes([number; 32])
    }

    #[test]
    fn version_1_of_a_manifest_has_these_bytes_and_reads_back() {
        let file = |name: &str, length, pieces: &[u8]| SealedFile {
            name: name.to_owned(),
            length,
            pieces: pieces.iter().copied().map(hash).collect(),
        };
        let manifest = Manifest {
            files: vec![
                file("conf", 7, &[1]),
                file("db", 3 * 65_536, &[2, 3, 4]),
                file("empty", 0, &[]),
            ],
        };
        let bytes = manifest.encode();
        golden::check("manifest", &bytes);
        assert_eq!(Manifest::parse(&bytes), Ok(manifest));
        for length in 0..bytes.len() {
            assert!(Manifest::parse(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn every_change_of_a_file_is_told_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir(path.join("blobs")).unwrap();
        fs::write(path.join("db"), vec![7; 200_000]).unwrap();
        fs::write(path.join("blobs/1"), b"blob").unwrap();
        let manifest = Manifest::take(&RealDisk, path, &Throttle::default()).unwrap();
        let difference = || manifest.difference(&RealDisk, path).unwrap();
        assert_eq!(difference(), None);

        let mut bytes = vec![7; 200_000];
        bytes[140_000] ^= 1;
        fs::write(path.join("db"), &bytes).unwrap();
        let damage = difference().unwrap();
        assert_eq!((damage.file, damage.offset), (path.join("db"), Some(131_072)));
        fs::write(path.join("db"), vec![7; 200_001]).unwrap();
        assert_eq!(difference().unwrap().offset, Some(196_608));
        fs::write(path.join("db"), vec![7; 131_072]).unwrap();
        assert_eq!(difference().unwrap().offset, Some(131_072));
        fs::write(path.join("db"), vec![7; 200_000]).unwrap();
        assert_eq!(difference(), None);

        fs::write(path.join("more"), b"").unwrap();
        assert_eq!(difference().unwrap().file, path.join("more"));
        fs::remove_file(path.join("more")).unwrap();
        fs::remove_file(path.join("blobs/1")).unwrap();
        assert_eq!(difference().unwrap().file, path.join("blobs/1"));
    }
}
