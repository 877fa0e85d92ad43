//! Epochs: the ledger at rest, in sled, one database for each span of the ledger.
//!
//! An epoch is filled from the write-ahead log, which keeps all of its frames until the epoch is sealed: its database
//! closed and opened again, every frame checked against the chain, everything synced, and a seal written. So an
//! unsealed database is never the only copy of its entries, and can be discarded and rebuilt. Since sled's files never
//! shrink, compaction removes whole epochs.

mod seal;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

pub use seal::Seal;

use crate::{
    Damage, Durable, Error, MAX_PAYLOAD_BYTES,
    codec::{Fields, POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Database, Disk, Pair},
    frame::{self, OVERHEAD_BYTES, Parsed},
    journal::Throttle,
    reader::Chunk,
};

/// Directory of the epochs, in the data directory.
pub(super) const DIRECTORY: &str = "epochs";

/// Directory of the database, in the epoch's.
const DATABASE: &str = "sled";

/// One span of the ledger.
pub(super) struct Epoch {
    directory: PathBuf,
    /// The chain before its first batch.
    pub(super) before: Durable,
    /// Sequence of its last entry, once it is sealed.
    sealed: OnceLock<u64>,
    /// Whether the open database is a copy.
    is_copied: AtomicBool,
    database: RwLock<Option<Box<dyn Database>>>,
    removed: Mutex<bool>,
}

/// The first sequence of the epoch in a directory of this name.
pub(super) fn first_of(name: &str) -> Option<u64> {
    (name.len() == 20).then(|| name.parse().ok()).flatten()
}

impl Epoch {
    /// The epoch that begins behind `before`; its database is opened on demand.
    pub(super) fn new(epochs: &Path, before: Durable) -> Self {
        let first = before.sequence.saturating_add(1);
        Self {
            directory: epochs.join(format!("{first:020}")),
            before,
            sealed: OnceLock::new(),
            is_copied: AtomicBool::new(false),
            database: RwLock::new(None),
            removed: Mutex::new(false),
        }
    }

    /// A sealed epoch.
    pub(super) fn sealed(epochs: &Path, seal: &Seal) -> Self {
        let epoch = Self::new(epochs, seal.before);
        let _ = epoch.sealed.set(seal.last.sequence);
        epoch
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn first_sequence(&self) -> u64 {
        self.before.sequence.saturating_add(1)
    }

    /// Calls `run` with the open database, which is opened if necessary.
    fn with<T>(
        &self,
        disk: &dyn Disk,
        run: impl FnOnce(&dyn Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            if let Some(database) = &*self.database.read() {
                return run(database.as_ref())
                    .map_err(|error| self.placed(error, self.first_sequence()));
            }
            let mut slot = self.database.write();
            if *self.removed.lock() {
                let first = self.first_sequence();
                return Err(Error::Compacted { first });
            }
            if slot.is_none() {
                let opened =
                    self.open(disk).map_err(|error| self.placed(error, self.first_sequence()))?;
                *slot = Some(opened);
            }
        }
    }

    /// Opens the database. sled repairs a damaged database when it opens it. A sealed epoch is the only copy of its
    /// entries, so sled opens a copy of it, unless its files have been verified against the manifest.
    fn open(&self, disk: &dyn Disk) -> Result<Box<dyn Database>, Error> {
        let path = self.directory.join(DATABASE);
        // sled would create a missing database.
        if self.sealed.get().is_some() && disk.list(&path)?.is_empty() {
            return Err(self.damaged(&self.before, "the database is missing".to_owned()));
        }
        let as_it_is = self.sealed.get().is_none() || disk.is_read_only() || {
            match seal::manifest(disk, &self.directory) {
                Ok(manifest) => manifest.difference(disk, &path)?.is_none(),
                Err(Error::Damaged(_)) => false,
                Err(error) => return Err(error),
            }
        };
        self.is_copied.store(!as_it_is, Ordering::Relaxed);
        match as_it_is {
            true => disk.database(&path),
            false => disk.private_database(&path),
        }
    }

    /// Whether the open database is a copy, since its files may differ from the manifest.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied.load(Ordering::Relaxed)
    }

    /// The difference between its files and the manifest. Whether the entries can still be read is decided by
    /// [`Self::check`].
    pub(super) fn difference(&self, disk: &dyn Disk) -> Result<Option<Damage>, Error> {
        let difference = match seal::manifest(disk, &self.directory) {
            Ok(manifest) => manifest.difference(disk, &self.directory.join(DATABASE)),
            Err(Error::Damaged(damage)) => Ok(Some(damage)),
            Err(error) => Err(error),
        };
        Ok(difference?.map(|damage| self.place(damage, self.first_sequence())))
    }

    /// Damage to any part may affect all entries of the epoch.
    fn place(&self, damage: Damage, first: u64) -> Damage {
        Damage {
            sequence: damage.sequence.or(Some(first)),
            through: damage.through.or(self.sealed.get().copied()),
            ..damage
        }
    }

    fn placed(&self, error: Error, first: u64) -> Error {
        match error {
            Error::Damaged(damage) => self.place(damage, first).into(),
            error => error,
        }
    }

    /// Closes the database after its last reader. Errors are irrelevant here and ignored.
    pub(super) fn close(&self) {
        let _ = self.try_close();
    }

    fn try_close(&self) -> Result<(), Error> {
        self.database.write().take().map_or(Ok(()), Database::close)
    }

    /// Closes the database and removes everything.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.database.write();
        *self.removed.lock() = true;
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Discards an unsealed database, so that it is rebuilt.
    pub(super) fn reset(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.database.write();
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Inserts the frames of a chunk, which continue the present content. The keys are inserted first, without values:
    /// sled splits its pages while that is cheap, and then writes each value once instead of three times.
    pub(super) fn put(
        &self,
        disk: &dyn Disk,
        before: &Durable,
        frames: &[u8],
        throttle: &Throttle,
    ) -> Result<(), Error> {
        let pairs = blocks(before, frames, throttle).map_err(|why| self.damaged(before, why))?;
        let mut puts: Vec<_> = pairs.iter().map(|(key, _)| (key.clone(), Vec::new())).collect();
        puts.extend(pairs);
        // Keys and values need only one sync: their state after a crash is ignored, unless the database was closed
        // cleanly or sealed.
        self.with(disk, |database| database.insert(puts))
    }

    /// Makes all inserted frames durable.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), Error> {
        self.with(disk, |database| database.sync())
    }

    fn damaged(&self, position: &Durable, why: String) -> Error {
        Error::Damaged(
            Damage::new(&self.directory, why)
                .at_sequence(position.sequence.saturating_add(1))
                .through(self.sealed.get().copied()),
        )
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes of all files in a directory and below it.
pub(super) fn stored_bytes(disk: &dyn Disk, directory: &Path) -> Result<u64, Error> {
    let mut bytes = 0u64;
    for listed in disk.list(directory)? {
        let more = if listed.is_directory {
            stored_bytes(disk, &directory.join(&listed.name))?
        } else {
            listed.length
        };
        bytes = bytes.saturating_add(more);
    }
    Ok(bytes)
}

/// Splits frames into blocks.
fn blocks(before: &Durable, frames: &[u8], throttle: &Throttle) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let mut position = *before;
    let mut block = (position, 0, 0);
    while let Some(rest) = frames.get(block.2..).filter(|rest| !rest.is_empty()) {
        let Parsed::Complete(found) = frame::parse(rest) else {
            return Err("frames that cannot be read".to_owned());
        };
        let end = block.2.saturating_add(found.bytes.len());
        if block.2 > block.1 && end.saturating_sub(block.1) > BLOCK_BYTES {
            encode_blocks(&block.0, &frames[block.1..block.2], &mut pairs);
            throttle.pause();
            block = (position, block.2, block.2);
        }
        position = found.end();
        block.2 = end;
    }
    if block.2 > block.1 {
        encode_blocks(&block.0, &frames[block.1..block.2], &mut pairs);
    }
    Ok(pairs)
}

// Reading an epoch: blocks of its database, as chunks of frames; and reopening one that was closed cleanly.

/// Pairs read from a database at a time: at most 256 KiB.
const CHUNK_PAIRS: usize = 64;

/// A chunk with this many bytes of frames takes no further block: compressed frames may grow.
const CHUNK_BYTES: usize = 1024 * 1024;

impl Epoch {
    /// Frames from the one that holds `from`, or a few before it. Empty if there are none.
    pub(crate) fn chunk(&self, disk: &dyn Disk, from: u64) -> Result<Chunk, Error> {
        self.chunk_in(disk, from, Vec::new())
    }

    /// As [`Self::chunk`], in memory that is reused.
    fn chunk_in(&self, disk: &dyn Disk, from: u64, mut memory: Vec<u8>) -> Result<Chunk, Error> {
        memory.clear();
        let mut chunk = Chunk::empty(self.before, &self.directory);
        chunk.bytes = memory;
        chunk.through = self.sealed.get().copied();
        self.with(disk, |database| {
            let filled = self.fill(&mut chunk, database, from);
            filled.map_err(|error| self.placed(error, from))
        })?;
        Ok(chunk)
    }

    fn fill(&self, chunk: &mut Chunk, database: &dyn Database, from: u64) -> Result<(), Error> {
        let place = |why| {
            let position = Durable { sequence: from.saturating_sub(1), ..self.before };
            self.damaged(&position, why)
        };
        let Some(found) = database.key_at_or_below(&block_key(from, u32::MAX))? else {
            return match self.sealed.get() {
                Some(_) => Err(place("the database has lost it".to_owned())),
                None => Ok(()),
            };
        };
        let Some((first, _)) = parse_key(&found) else {
            return Err(place("a key that is none".to_owned()));
        };
        let key = block_key(first, 0);
        let mut pairs = filled(database, &key, CHUNK_PAIRS)?;
        if pairs.is_empty() {
            return Err(place("a block that has no value".to_owned()));
        }
        let mut blocks = Vec::new();
        let mut at = 0;
        let mut length = 0usize;
        while let Some((_, value)) = pairs.get(at) {
            let header = parse_header(value).map_err(place)?;
            let end = at.saturating_add(header.pieces);
            if at > 0 && (end > pairs.len() || length >= CHUNK_BYTES) {
                break;
            }
            if end > pairs.len() {
                pairs = filled(database, &key, header.pieces)?;
                if pairs.len() < header.pieces {
                    return Err(place("a block whose end is missing".to_owned()));
                }
            }
            if at == 0 {
                chunk.before = header.before;
            }
            length = length.saturating_add(header.length);
            blocks.push((header, at..end));
            at = end;
        }
        // At once: stepwise growth would fragment the memory.
        chunk.bytes.reserve_exact(length);
        for (header, pieces) in blocks {
            let pieces = pairs.get(pieces).unwrap_or_default();
            decode(&header, pieces, &mut chunk.bytes).map_err(place)?;
        }
        Ok(())
    }
}

/// Pairs from a key on, up to the first without a value: that one is being inserted, behind every requested position.
fn filled(database: &dyn Database, key: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
    let mut pairs = database.range(key, limit)?;
    let end = pairs.iter().position(|(_, value)| value.is_empty());
    pairs.truncate(end.unwrap_or(pairs.len()));
    Ok(pairs)
}

impl Epoch {
    /// Reads everything in the database and checks it against the chain. `visit` is called for each frame.
    pub(crate) fn verify(
        &self,
        disk: &dyn Disk,
        mut visit: impl FnMut(&frame::Frame<'_>),
    ) -> Result<Durable, Error> {
        let mut position = self.before;
        let mut memory = Vec::new();
        loop {
            let next = position.sequence.saturating_add(1);
            let chunk = self.chunk_in(disk, next, memory)?;
            if chunk.before != position || chunk.bytes.is_empty() {
                return self.ends_at(disk, position);
            }
            let mut rest = chunk.bytes.as_slice();
            while !rest.is_empty() {
                let found = match frame::parse(rest) {
                    Parsed::Complete(found) => found,
                    other => return Err(self.damaged(&position, format!("{other:?}"))),
                };
                position = found.follow(&position).map_err(|why| self.damaged(&position, why))?;
                visit(&found);
                rest = &rest[found.bytes.len()..];
            }
            memory = chunk.bytes;
        }
    }

    /// Fails if the database holds any entry behind the end.
    fn ends_at(&self, disk: &dyn Disk, position: Durable) -> Result<Durable, Error> {
        let last = self.with(disk, |database| database.key_at_or_below(&[u8::MAX; 12]))?;
        let first = last.and_then(|key| parse_key(&key));
        match first {
            Some((first, _)) if first > position.sequence || position == self.before => {
                let why = format!("it holds sequence {first}, which does not follow");
                Err(self.damaged(&position, why))
            }
            _ => Ok(position),
        }
    }

    /// Reads everything in the database and compares it with the seal.
    pub(crate) fn check(
        &self,
        disk: &dyn Disk,
        seal: &Seal,
        visit: impl FnMut(&frame::Frame<'_>),
    ) -> Result<(), Error> {
        let found = self.verify(disk, visit)?;
        if found == seal.last {
            return Ok(());
        }
        let why = format!(
            "it ends at sequence {}, but was sealed at {}",
            found.sequence, seal.last.sequence
        );
        Err(self.damaged(&found, why))
    }
}

/// The note in the directory of an unsealed epoch whose database was closed cleanly: its last position.
const CLOSED: &str = "CLOSED";

const CLOSED_MAGIC: [u8; 3] = *b"QLC";

impl Epoch {
    /// Closes the database cleanly, so that it can be reused.
    pub(crate) fn close_at(&self, disk: &dyn Disk, flushed: &Durable) -> Result<(), Error> {
        if flushed.sequence == self.before.sequence {
            return Ok(());
        }
        self.sync(disk)?;
        self.try_close()?;
        let record = Record::new(CLOSED_MAGIC).position(flushed).finish();
        disk.replace(&self.directory.join(CLOSED), &record)
    }

    /// The position up to which the database was filled when it was closed; none if it was not closed cleanly, or is
    /// damaged. The note is removed, since the database changes from now on.
    pub(crate) fn reopen(&self, disk: &dyn Disk) -> Result<Option<Durable>, Error> {
        let path = self.directory.join(CLOSED);
        let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES))? else {
            return Ok(None);
        };
        disk.remove_file(&path)?;
        disk.sync_directory(&self.directory)?;
        let noted = closed_at(&bytes);
        let verified = self.verify(disk, |_| {});
        // An open database takes more memory than its checked content; the next flush opens it again.
        self.close();
        match verified {
            Ok(found) => Ok(noted.filter(|noted| *noted == found)),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Positions of the write-ahead log that an unsealed epoch proves: its end when its database was closed, and the
    /// end of the frames in it. They may be behind the log, but never differ from it.
    pub(crate) fn witnessed(&self, disk: &dyn Disk) -> Result<Vec<Durable>, Error> {
        let noted = disk.read(&self.directory.join(CLOSED), record_bytes(POSITION_BYTES))?;
        let mut witnessed = Vec::from_iter(noted.and_then(|bytes| closed_at(&bytes)));
        let mut last = None;
        let verified = self.verify(disk, |frame| last = Some(frame.end()));
        self.close();
        match verified {
            // The database of a killed process may be unusable; the valid frames in it were durable in the log.
            Ok(_) | Err(Error::Damaged(_)) => witnessed.extend(last),
            Err(error) => return Err(error),
        }
        Ok(witnessed)
    }
}

/// The position in the note of a clean close.
fn closed_at(bytes: &[u8]) -> Option<Durable> {
    open_record(CLOSED_MAGIC, bytes).ok()?.position()
}

// Blocks: whole frames, verbatim, as values of sled.
//
// The key is the first sequence and a piece number, both big-endian, so that keys are in order. A value never has more
// than 4 KiB: sled writes up to 17 values as one, and puts values above 128 KiB into files of their own, which it
// never syncs. The first piece begins with a header: version 1, codec (0 none, 1 lz4), length before compression u32,
// number of pieces u32, position of the chain before the block.

/// Most bytes of one value.
const VALUE_BYTES: usize = 4 * 1024;

/// Frames are gathered into blocks of about this many bytes before compression; only a single larger frame makes a
/// larger block. This is the window of lz4: the end of a reservation repeats the names of its beginning.
const BLOCK_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 2 + 4 + 4 + POSITION_BYTES;
const VERSION: u8 = 1;
const RAW: u8 = 0;
const LZ4: u8 = 1;

/// The key of a piece.
fn block_key(first_sequence: u64, piece: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&first_sequence.to_be_bytes());
    key[8..].copy_from_slice(&piece.to_be_bytes());
    key
}

/// The first sequence and the piece number of a key.
fn parse_key(key: &[u8]) -> Option<(u64, u32)> {
    let (first, piece) = key.split_first_chunk::<8>()?;
    let piece: [u8; 4] = piece.try_into().ok()?;
    Some((u64::from_be_bytes(*first), u32::from_be_bytes(piece)))
}

/// Appends the pairs of a block of these frames, which continue `before`.
fn encode_blocks(before: &Durable, frames: &[u8], pairs: &mut Vec<Pair>) {
    let packed = lz4_flex::block::compress(frames);
    let (codec, stored) =
        if packed.len() < frames.len() { (LZ4, packed.as_slice()) } else { (RAW, frames) };
    let pieces = stored.len().saturating_add(HEADER_BYTES).div_ceil(VALUE_BYTES);
    let mut value = Vec::with_capacity(VALUE_BYTES.min(HEADER_BYTES + stored.len()));
    value.extend_from_slice(&[VERSION, codec]);
    value.extend_from_slice(&u32::try_from(frames.len()).unwrap_or(u32::MAX).to_le_bytes());
    value.extend_from_slice(&u32::try_from(pieces).unwrap_or(u32::MAX).to_le_bytes());
    value.extend_from_slice(&before.sequence.to_le_bytes());
    value.extend_from_slice(before.hash.as_bytes());
    value.extend_from_slice(&before.time.nanoseconds().to_le_bytes());
    let first = before.sequence.saturating_add(1);
    let mut rest = stored;
    for piece in 0.. {
        let taken = rest.len().min(VALUE_BYTES.saturating_sub(value.len()));
        value.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        pairs.push((block_key(first, piece).to_vec(), std::mem::take(&mut value)));
        if rest.is_empty() {
            return;
        }
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    before: Durable,
    pieces: usize,
    codec: u8,
    /// The length of its frames in bytes.
    length: usize,
}

/// The header in the first piece of a block.
fn parse_header(value: &[u8]) -> Result<Header, String> {
    let mut fields = Fields::new(value);
    let (Some(version), Some(codec), Some(length), Some(pieces), Some(before)) =
        (fields.u8(), fields.u8(), fields.u32(), fields.u32(), fields.position())
    else {
        return Err("a block without its header".to_owned());
    };
    if version != VERSION || codec > LZ4 {
        return Err(format!("a block of unknown version {version}, codec {codec}"));
    }
    let length = length as usize;
    if length > MAX_PAYLOAD_BYTES + OVERHEAD_BYTES || pieces == 0 {
        return Err("a block of an impossible length".to_owned());
    }
    Ok(Header { before, pieces: pieces as usize, codec, length })
}

/// Appends the frames of a block, all of whose values are given, to `frames`.
fn decode(header: &Header, values: &[Pair], frames: &mut Vec<u8>) -> Result<(), String> {
    let first = header.before.sequence.saturating_add(1);
    let bytes = values.iter().map(|(_, value)| value.len()).sum();
    let mut stored = Vec::with_capacity(bytes);
    for (number, (found, value)) in (0u32..).zip(values) {
        if parse_key(found) != Some((first, number)) {
            return Err(format!("piece {number} of the block at {first} is missing"));
        }
        let skip = if number == 0 { HEADER_BYTES } else { 0 };
        stored.extend_from_slice(value.get(skip..).unwrap_or_default());
    }
    if header.codec == RAW {
        if stored.len() != header.length {
            return Err("a block that has not its length".to_owned());
        }
        frames.extend_from_slice(&stored);
        return Ok(());
    }
    let start = frames.len();
    frames.resize(start.saturating_add(header.length), 0);
    match lz4_flex::block::decompress_into(&stored, &mut frames[start..]) {
        Ok(length) if length == header.length => Ok(()),
        _ => Err("a block that cannot be decompressed".to_owned()),
    }
}
