//! Reading an epoch: blocks of its database, as chunks of frames.

use super::{Epoch, block};
use crate::{
    Durable, Error,
    disk::{Database, Disk, Pair},
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
            let position = Durable {
                sequence: from.saturating_sub(1),
                ..self.before
            };
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
