//! Reading an epoch: blocks of its database, as chunks of frames; and reopening one that was closed cleanly.

use super::{Epoch, Seal, block};
use crate::{
    Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Database, Disk, Pair},
    frame::{self, Parsed},
    reader::Chunk,
};

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
    pub(super) fn chunk_in(
        &self,
        disk: &dyn Disk,
        from: u64,
        mut memory: Vec<u8>,
    ) -> Result<Chunk, Error> {
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
        let Some(found) = database.key_at_or_below(&block::key(from, u32::MAX))? else {
            return match self.sealed.get() {
                Some(_) => Err(place("the database has lost it".to_owned())),
                None => Ok(()),
            };
        };
        let Some((first, _)) = block::parse_key(&found) else {
            return Err(place("a key that is none".to_owned()));
        };
        let key = block::key(first, 0);
        let mut pairs = filled(database, &key, CHUNK_PAIRS)?;
        if pairs.is_empty() {
            return Err(place("a block that has no value".to_owned()));
        }
        let mut blocks = Vec::new();
        let mut at = 0;
        let mut length = 0usize;
        while let Some((_, value)) = pairs.get(at) {
            let header = block::parse_header(value).map_err(place)?;
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
            block::decode(&header, pieces, &mut chunk.bytes).map_err(place)?;
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
        let first = last.and_then(|key| block::parse_key(&key));
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
