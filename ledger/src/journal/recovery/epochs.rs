//! The epochs: whether the sealed ones continue each other, and what of the one being filled is usable.

use std::sync::Arc;

use super::{
    super::{Damage, store::Sealed},
    Durable, Epoch, Error, Log, Opening, epoch,
};
use crate::journal::epoch::Seal;

impl Opening<'_> {
    /// The sealed epochs, oldest first. What lies before the origin is what a compaction did not get
    /// to remove.
    pub(super) fn sealed_epochs(&mut self, origin: &Durable) -> Result<Vec<Sealed>, Error> {
        let directory = self.directory.join(epoch::DIRECTORY);
        let mut sealed: Vec<Sealed> = Vec::new();
        let mut end = *origin;
        for listed in self.disk.list(&directory)? {
            let Some(first) = epoch::first_of(&listed.name) else {
                continue;
            };
            let path = directory.join(&listed.name);
            if first <= origin.sequence {
                self.disk.remove_directory(&path)?;
                self.repaired(format!(
                    "epoch {first}: removed, as compaction had begun to"
                ));
                continue;
            }
            let Some(seal) = Seal::read(self.disk, &path)? else {
                if first == end.sequence.saturating_add(1) {
                    // The one being filled. If there are others behind it, it has lost its seal, and
                    // they will not continue.
                    continue;
                }
                self.remove_stray(first, &path)?;
                continue;
            };
            if seal.before != end {
                return Err(Error::Damaged(Damage {
                    file: path,
                    offset: None,
                    sequence: Some(end.sequence.saturating_add(1)),
                    why: format!(
                        "it continues sequence {} with hash {}, but the ledger before it ends at {} with {}",
                        seal.before.sequence, seal.before.hash, end.sequence, end.hash
                    ),
                }));
            }
            end = seal.last;
            sealed.push(Sealed {
                seal,
                epoch: Arc::new(Epoch::new(&directory, seal.before)),
            });
        }
        Ok(sealed)
    }

    /// An epoch that was being filled, but does not begin where the next one has to: all of it is in the
    /// commit log, or else the log's end will show that something is missing.
    fn remove_stray(&mut self, first: u64, path: &std::path::Path) -> Result<(), Error> {
        self.disk.remove_directory(path)?;
        self.repaired(format!(
            "epoch {first}: removed, as it does not continue the ledger"
        ));
        Ok(())
    }

    /// Reads sealed epochs, newest first, and compares them with their seals.
    pub(super) fn check_sealed(&self, sealed: &[Sealed], limit: u64) -> Result<u64, Error> {
        let mut checked = 0u64;
        for Sealed { seal, epoch } in sealed.iter().rev() {
            checked = checked.saturating_add(seal.frame_bytes);
            if checked > limit {
                return Ok(checked.saturating_sub(seal.frame_bytes));
            }
            epoch.check(self.disk, seal, |_| {})?;
            epoch.close();
        }
        Ok(checked)
    }

    /// How far the database that was being filled can be used. Unless it was closed cleanly and agrees
    /// with the log, it is thrown away: the log has everything, and of what a killed process wrote nobody
    /// knows whether it will ever be durable.
    pub(super) fn current_epoch(
        &mut self,
        epoch: &Epoch,
        log: &Log,
        durable: &Durable,
    ) -> Result<Durable, Error> {
        if self.disk.list(epoch.directory())?.is_empty() {
            return Ok(epoch.before);
        }
        if let Some(end) = epoch.reopen(self.disk)?
            && agrees(log, &end, durable)?
        {
            return Ok(end);
        }
        epoch.reset(self.disk)?;
        let first = epoch.before.sequence.saturating_add(1);
        self.repaired(format!(
            "epoch {first}: being made again from the commit log"
        ));
        Ok(epoch.before)
    }
}

/// Whether the log has this position.
fn agrees(log: &Log, position: &Durable, durable: &Durable) -> Result<bool, Error> {
    if position.sequence > durable.sequence {
        return Ok(false);
    }
    let Some(chunk) = log.chunk(position.sequence)? else {
        return Ok(false);
    };
    Ok(chunk.position_at(position.sequence)? == Some(*position))
}
