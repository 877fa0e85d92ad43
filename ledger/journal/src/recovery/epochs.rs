//! Recovery of epochs: whether the sealed ones continue each other, and how much of the current one is usable.

use std::sync::Arc;

use super::{
    super::{Damage, store::Sealed},
    Durable, Epoch, Error, Opening, Options, Wal, epoch,
};
use crate::{epoch::Seal, parallel, wal::CHUNK_BYTES};

impl Opening<'_> {
    /// The sealed epochs, oldest first. Epochs before the base are leftovers of an interrupted compaction.
    pub(super) fn sealed_epochs(&mut self, base: &Durable) -> Result<Vec<Sealed>, Error> {
        let directory = self.directory.join(epoch::DIRECTORY);
        let mut sealed: Vec<Sealed> = Vec::new();
        let mut end = *base;
        for listed in self.disk.list(&directory)? {
            let Some(first) = epoch::first_of(&listed.name) else {
                continue;
            };
            let path = directory.join(&listed.name);
            if first <= base.sequence {
                self.disk.remove_directory(&path)?;
                self.repaired(format!("epoch {first}: removed, as compaction had begun to"));
                continue;
            }
            let Some(seal) = Seal::read(self.disk, &path)? else {
                if first == end.sequence.saturating_add(1) {
                    // The current epoch. If others follow it, it has lost its seal, and they will not continue the
                    // chain.
                    continue;
                }
                self.strays.push((first, path));
                continue;
            };
            if seal.before != end {
                let why = format!(
                    "it continues sequence {} with hash {}, but the ledger before it ends at {} with {}",
                    seal.before.sequence, seal.before.hash, end.sequence, end.hash
                );
                return Err(Error::Damaged(
                    Damage::new(path, why).at_sequence(end.sequence.saturating_add(1)),
                ));
            }
            end = seal.last;
            sealed.push(Sealed { seal, epoch: Arc::new(Epoch::sealed(&directory, &seal)) });
        }
        Ok(sealed)
    }

    /// Removes unsealed epochs that do not begin at the expected position. The write-ahead log was read before: the log
    /// has all of their entries, or opening has failed.
    pub(super) fn remove_strays(&mut self) -> Result<(), Error> {
        for (first, path) in std::mem::take(&mut self.strays) {
            self.disk.remove_directory(&path)?;
            self.repaired(format!("epoch {first}: removed, as it does not continue the ledger"));
        }
        Ok(())
    }

    /// Reads sealed epochs, newest first, and compares them with their seals. Returns the number of checked bytes of
    /// frames, and the damage despite which the ledger can be opened.
    pub(super) fn check_sealed(
        &self,
        sealed: &[Sealed],
        options: &Options,
    ) -> Result<(u64, Vec<Damage>), Error> {
        let mut bytes = 0u64;
        let within = |sealed: &&Sealed| {
            bytes = bytes.saturating_add(sealed.seal.frame_bytes);
            bytes <= options.check_bytes
        };
        let checked: Vec<&Sealed> = sealed.iter().rev().take_while(within).collect();
        let workers = match options.background {
            true => std::thread::available_parallelism().map_or(1, usize::from),
            false => 1,
        };
        let found = parallel::each(&checked, workers, |sealed| self.check_epoch(sealed, options));
        // The damage with the lowest sequence is reported first.
        let damaged = found.into_iter().rev().filter_map(Result::transpose);
        let damaged = damaged.collect::<Result<_, _>>()?;
        let bytes =
            checked.iter().fold(0u64, |sum, sealed| sum.saturating_add(sealed.seal.frame_bytes));
        Ok((bytes, damaged))
    }

    /// Reads a sealed epoch. Damage is an error, unless all entries can be read nevertheless, or the options allow it.
    fn check_epoch(&self, sealed: &Sealed, options: &Options) -> Result<Option<Damage>, Error> {
        let Sealed { seal, epoch } = sealed;
        let right = epoch.check(self.disk, seal, |_| {});
        epoch.close();
        match right {
            Ok(()) if !epoch.is_copied() => Ok(None),
            Ok(()) => {
                let damage = epoch.difference(self.disk)?;
                Ok(damage.map(|damage| Damage {
                    why: format!("{}; all that it holds can be read", damage.why),
                    ..damage
                }))
            }
            Err(Error::Damaged(damage)) if options.start_with_damage => Ok(Some(damage)),
            Err(error) => Err(error),
        }
    }

    /// The position up to which the current database can be used. Unless it was closed cleanly and agrees with the log,
    /// it is discarded: the log has everything, and it is unknown whether the writes of a killed process will ever be
    /// durable.
    pub(super) fn current_epoch(
        &mut self,
        epoch: &Epoch,
        log: &Wal,
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
        self.repaired(format!("epoch {first}: being rebuilt from the write-ahead log"));
        Ok(epoch.before)
    }
}

/// Whether this position is in the log.
fn agrees(log: &Wal, position: &Durable, durable: &Durable) -> Result<bool, Error> {
    if position.sequence > durable.sequence {
        return Ok(false);
    }
    let Some(chunk) = log.chunk(position.sequence, CHUNK_BYTES)? else {
        return Ok(false);
    };
    Ok(chunk.position_at(position.sequence)? == Some(*position))
}
