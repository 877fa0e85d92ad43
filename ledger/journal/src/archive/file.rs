//! One file of the archive.
//!
//! A record with the chain before the first batch; blocks, each a record of the chain before it, the length
//! of its frames, and the frames, compressed by lz4; a record that lists the blocks (first sequence and
//! offset); and a record at the end with the chain behind the last batch, the offset of the list, and the
//! BLAKE3 hash of all bytes before it.

use std::{path::Path, sync::Arc};

use super::{
    super::{
        Damage, Durable, Error, Hash,
        codec::{POSITION_BYTES, Record, open_record, record_bytes},
        disk::{Disk, File},
        reader::Chunk,
    },
    ArchiveFile,
};

const HEAD: [u8; 3] = *b"QLH";
const BLOCK: [u8; 3] = *b"QLB";
const LIST: [u8; 3] = *b"QLL";
const FOOT: [u8; 3] = *b"QLT";
const FOOT_BYTES: usize = record_bytes(POSITION_BYTES + 8 + 32);

/// Most bytes of frames in one block: a chunk, or one large frame.
const MAX_BLOCK_BYTES: u64 = 32 * 1024 * 1024;

/// Bytes per read when a whole file is hashed.
const HASH_STEP_BYTES: usize = 256 * 1024;

/// An archive file being written, and its hash so far.
pub(super) struct Writer {
    file: Arc<dyn File>,
    offset: u64,
    hasher: blake3::Hasher,
    list: Record,
}

impl Writer {
    /// Begins a file of the batches behind `before`.
    pub(super) fn new(file: Arc<dyn File>, before: &Durable) -> Result<Self, Error> {
        let mut writer =
            Self { file, offset: 0, hasher: blake3::Hasher::new(), list: Record::new(LIST) };
        writer.put(&Record::new(HEAD).position(before).finish())?;
        Ok(writer)
    }

    /// Appends the frames behind `before`.
    pub(super) fn block(&mut self, before: &Durable, frames: &[u8]) -> Result<(), Error> {
        let first = before.sequence.saturating_add(1);
        let list = std::mem::replace(&mut self.list, Record::new(LIST));
        self.list = list.u64(first).u64(self.offset);
        let block = Record::new(BLOCK)
            .position(before)
            .u64(frames.len() as u64)
            .bytes(&lz4_flex::block::compress(frames));
        self.put(&block.finish())
    }

    /// Ends the file behind `last` and syncs it. Returns its length.
    pub(super) fn finish(mut self, last: &Durable) -> Result<u64, Error> {
        let list_at = self.offset;
        let list = std::mem::replace(&mut self.list, Record::new(LIST));
        self.put(&list.finish())?;
        let hash = Hash::from(self.hasher.finalize());
        let foot = Record::new(FOOT).position(last).u64(list_at).hash(&hash);
        self.put(&foot.finish())?;
        self.file.sync()?;
        Ok(self.offset)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(bytes, self.offset)?;
        self.hasher.update(bytes);
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

/// An archive file being read.
pub(super) struct Opened {
    file: Arc<dyn File>,
    pub(super) before: Durable,
    pub(super) last: Durable,
    list_at: u64,
    foot_at: u64,
    hash: Hash,
}

impl Opened {
    /// Opens a file of the archive and reads its head and foot.
    pub(super) fn new(disk: &dyn Disk, listed: &ArchiveFile) -> Result<Self, Error> {
        let file = disk.open(&listed.path)?;
        let wrong = |why| damaged(&listed.path, None, Some(listed.first_sequence), why);
        let mut head = vec![0; record_bytes(POSITION_BYTES)];
        file.read_at(&mut head, 0)?;
        let before = open_record(HEAD, &head).map_err(wrong)?.position();
        let foot_at = file.length()?.saturating_sub(FOOT_BYTES as u64);
        let mut foot = vec![0; FOOT_BYTES];
        file.read_at(&mut foot, foot_at)?;
        let mut fields = open_record(FOOT, &foot).map_err(wrong)?;
        let (Some(before), Some(last), Some(list_at), Some(hash)) =
            (before, fields.position(), fields.u64(), fields.hash())
        else {
            return Err(wrong("a record that is too short".to_owned()));
        };
        let named = (listed.first_sequence, listed.last_sequence);
        if (before.sequence.saturating_add(1), last.sequence) != named {
            return Err(wrong("its content does not match its name".to_owned()));
        }
        Ok(Self { file, before, last, list_at, foot_at, hash })
    }

    /// Reads the whole file and compares its hash.
    pub(super) fn verify_hash(&self) -> Result<(), Error> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; HASH_STEP_BYTES];
        let mut offset = 0;
        while offset < self.foot_at {
            let step = usize::try_from(self.foot_at - offset).unwrap_or(usize::MAX);
            let step = step.min(HASH_STEP_BYTES);
            let read = self.file.read_at(&mut buffer[..step], offset)?;
            hasher.update(&buffer[..read]);
            if read < step {
                break;
            }
            offset = offset.saturating_add(read as u64);
        }
        if Hash::from(hasher.finalize()) == self.hash {
            return Ok(());
        }
        let first = self.before.sequence.saturating_add(1);
        let why = "the file does not have its hash".to_owned();
        Err(damaged(self.file.path(), None, Some(first), why))
    }

    /// The first sequence and the offset of each block.
    pub(super) fn list(&self) -> Result<Vec<(u64, u64)>, Error> {
        let record = self.record(self.list_at, self.foot_at.saturating_sub(self.list_at))?;
        let mut fields = open_record(LIST, &record)
            .map_err(|why| damaged(self.file.path(), Some(self.list_at), None, why))?;
        let mut list = Vec::new();
        while let Some(block) = fields.u64().zip(fields.u64()) {
            list.push(block);
        }
        Ok(list)
    }

    /// The frames of the block at an offset.
    pub(super) fn block(&self, offset: u64) -> Result<Chunk, Error> {
        let wrong = |why| damaged(self.file.path(), Some(offset), None, why);
        let limit = self.list_at.saturating_sub(offset).min(MAX_BLOCK_BYTES);
        let header = self.record(offset, limit.min(12))?;
        let body = header.get(8..12).and_then(|bytes| bytes.try_into().ok());
        let length = record_bytes(body.map_or(0, u32::from_le_bytes) as usize) as u64;
        let record = self.record(offset, length.min(limit))?;
        let mut fields = open_record(BLOCK, &record).map_err(wrong)?;
        let (Some(before), Some(length)) = (fields.position(), fields.u64()) else {
            return Err(wrong("a block without its header".to_owned()));
        };
        if length > MAX_BLOCK_BYTES {
            return Err(wrong("a block of an impossible length".to_owned()));
        }
        let length = usize::try_from(length).unwrap_or(0);
        let bytes = lz4_flex::block::decompress(fields.rest(), length)
            .map_err(|_| wrong("a block that cannot be decompressed".to_owned()))?;
        Ok(Chunk {
            before,
            bytes,
            file: self.file.path().to_path_buf(),
            offset: None,
            through: Some(self.last.sequence),
        })
    }

    fn record(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let length = length.min(self.file.length()?);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// The error of a missing sequence.
pub(super) fn missing(file: &Path, sequence: u64) -> Error {
    damaged(file, None, Some(sequence), format!("sequence {sequence} is missing"))
}

fn damaged(file: &Path, offset: Option<u64>, sequence: Option<u64>, why: String) -> Error {
    Error::Damaged(Damage::new(file, why).at_offset(offset).at_sequence(sequence))
}
