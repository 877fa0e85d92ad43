//! Checkpoints: signed statements of the ledger's last entry and of its chain hash there.
//!
//! A checkpoint proves later that the ledger still holds all entries up to that one, unchanged. Its value depends on
//! the place where it is kept: the key and the file belong outside the data directory, and copies in a place where the
//! daemon cannot rewrite them.

mod file;
pub mod key;
pub mod note;
mod series;
#[cfg(test)]
mod tests;

use crate::{Durable, FileReader, Hash, Reader as _};
use quota_semantics::Timestamp;

pub use file::{Notes, Stored, read_all};
pub use series::{Contradiction, Series};

/// The signed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the ledger.
    pub origin: String,
    /// Its last entry.
    pub sequence: u64,
    /// The chain hash of the batch that ends with that entry.
    pub hash: Hash,
    /// Ledger time of that entry.
    pub time: Timestamp,
}

/// The result of comparing a ledger with a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extends {
    /// The ledger holds all entries of the checkpoint, unchanged.
    Yes,
    /// The ledger ends before the checkpoint.
    TooShort {
        /// The last entry.
        last: u64,
    },
    /// The ledger holds other entries.
    Differs,
    /// The entry was compacted, and is not in the archive.
    Compacted,
}

impl Checkpoint {
    /// The checkpoint of a durable position.
    pub fn new(origin: &str, durable: &Durable) -> Self {
        Self {
            origin: origin.to_owned(),
            sequence: durable.sequence,
            hash: durable.hash,
            time: durable.time,
        }
    }

    /// Whether a ledger extends the checkpoint.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn is_extended_by(&self, reader: &FileReader) -> Result<Extends, crate::Error> {
        let last = reader.durable().sequence;
        if last < self.sequence {
            return Ok(Extends::TooShort { last });
        }
        let mut batches = reader.batches(self.sequence);
        match batches.next_batch() {
            Some(Ok(batch))
                if (batch.last_sequence(), batch.hash) == (self.sequence, self.hash) =>
            {
                Ok(Extends::Yes)
            }
            Some(Ok(_)) => Ok(Extends::Differs),
            Some(Err(crate::Error::Compacted { .. })) => Ok(Extends::Compacted),
            Some(Err(error)) => Err(error),
            None => Ok(Extends::TooShort { last }),
        }
    }
}
