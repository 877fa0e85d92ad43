//! The interface of a writer.

use crate::{Batch, Durable, Error};

/// The writer's side: append batches, then make them durable together.
pub trait Journal: Send {
    /// Adds a batch to the group that the next [`Journal::sync`] makes durable. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::OutOfOrder`] leave the journal unchanged; every other error is final.
    fn append(&mut self, batch: Batch) -> Result<(), Error>;

    /// Makes all appended batches durable: one write, one fdatasync. If there is nothing to write, returns the durable
    /// position.
    ///
    /// # Errors
    /// Every error is final: the journal is poisoned, this and every later call fails, and batches appended since the
    /// last success may or may not be durable. The process has to stop and to recover.
    fn sync(&mut self) -> Result<Durable, Error>;

    /// Writes all appended batches, so that readers can read them and a killed process loses none of them. A power loss
    /// can lose them until they are synced, soon, in the background: for replicas, whose entries are in the cluster's
    /// log. By default they are synced at once.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    fn write(&mut self) -> Result<Durable, Error> {
        self.sync()
    }
}
