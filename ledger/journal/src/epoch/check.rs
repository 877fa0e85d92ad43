//! Checking an epoch: every frame against the chain, and all of them against the seal.

use super::{Epoch, Seal, block};
use crate::{
    Durable, Error,
    disk::Disk,
    frame::{self, Parsed},
};

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
                position = found
                    .follow(&position)
                    .map_err(|why| self.damaged(&position, why))?;
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
