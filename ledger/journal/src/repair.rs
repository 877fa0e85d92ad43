//! Repair of damage: damaged or missing sealed epochs are rebuilt from an archive, a backup or another copy of the
//! ledger. The hash chain decides: only exactly the sealed batches are accepted. Damaged files are not removed, but set
//! aside.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Damage, Durable, Error, Offline, Operation,
    disk::{Disk, File, parent},
    epoch::{self, Epoch, Seal},
    journal::Throttle,
    positions,
    reader::{Chunk, Source, through},
    recovery::LOCK,
    wal::{self, scan},
};

/// Directory in which epochs are rebuilt, in the data directory.
const MAKING: &str = "repair";

/// Directory for damaged epochs, in the data directory.
const ASIDE: &str = "damaged";

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The rebuilt epochs.
    pub made: Vec<Remade>,
    /// The damage that could not be repaired.
    pub left: Vec<Damage>,
}

/// A rebuilt epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remade {
    /// Sequence of its first entry.
    pub first_sequence: u64,
    /// Sequence of its last entry.
    pub last_sequence: u64,
    /// The damage.
    pub damage: Damage,
    /// The source of its entries.
    pub from: PathBuf,
    /// The new places of the files that it replaced.
    pub aside: Vec<PathBuf>,
}

/// Entries that are to be made readable again.
struct Hole {
    before: Durable,
    last: Durable,
    damage: Damage,
    /// The damaged epoch, if it exists.
    epoch: Option<Epoch>,
}

impl Hole {
    /// Whether an epoch holds a part of the entries. It may be a part: without their seals, several missing epochs are one
    /// hole.
    fn takes(&self, seal: &Seal) -> bool {
        let begins = seal.before == self.before || seal.before.sequence > self.before.sequence;
        let ends = seal.last == self.last || seal.last.sequence < self.last.sequence;
        begins && ends
    }
}

/// Rebuilds the damaged and missing epochs of a data directory, each from its own remains, if they are complete, or
/// from `from`: an archive, a backup, or another data directory.
///
/// # Errors
/// [`Error::Locked`] while a daemon runs; [`Error::Damaged`] if the base position is unknown; [`Error::Io`].
pub fn repair(disk: Arc<dyn Disk>, directory: &Path, from: Option<&Path>) -> Result<Repair, Error> {
    let not_found =
        || Error::io(directory, Operation::FindLedger, std::io::ErrorKind::NotFound.into());
    let base = positions::read_base(disk.as_ref(), directory)?.ok_or_else(not_found)?;
    let _lock = disk.lock(&directory.join(LOCK))?;
    let source = match from {
        Some(from) => Some((from, Offline::open(Arc::clone(&disk), from, None)?)),
        None => None,
    };
    let repairing = Repairing { disk: disk.as_ref(), directory };
    let mut repair = Repair { made: repairing.finish(&base.position)?, left: Vec::new() };
    disk.remove_directory(&directory.join(MAKING))?;
    for hole in repairing.holes(&base.position, None)? {
        let own = hole.epoch.as_ref().map(|epoch| OwnEpoch { epoch, disk: repairing.disk });
        let own = own.as_ref().map(|own| (own.epoch.directory(), own as &dyn Source));
        let other = source.as_ref().map(|(from, ledger)| (*from, ledger.source()));
        let mut made = None;
        for (from, source) in own.into_iter().chain(other) {
            match repairing.make(&hole, source) {
                Ok(()) => made = Some(from.to_path_buf()),
                Err(Error::Damaged(_) | Error::Compacted { .. }) => continue,
                Err(error) => return Err(error),
            }
            break;
        }
        if let Some(epoch) = &hole.epoch {
            epoch.close();
        }
        match made {
            Some(from) => repair.made.push(Remade {
                first_sequence: hole.before.sequence.saturating_add(1),
                last_sequence: hole.last.sequence,
                aside: repairing.place(&hole.before, &hole.last)?,
                damage: hole.damage,
                from,
            }),
            None => repair.left.push(hole.damage),
        }
    }
    disk.remove_directory(&directory.join(MAKING))?;
    disk.sync_directory(directory)?;
    Ok(repair)
}

struct Repairing<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
}

impl Repairing<'_> {
    fn epochs(&self) -> PathBuf {
        self.directory.join(epoch::DIRECTORY)
    }

    /// Entries that cannot be read, or might not be the next time: epochs that differ from their seals, and gaps
    /// between epochs. What is missing behind the last epoch is determined by the log, or, without one, by the anchor
    /// and by `until`, a position that the ledger has reached.
    fn holes(&self, base: &Durable, until: Option<Durable>) -> Result<Vec<Hole>, Error> {
        let directory = self.epochs();
        let mut holes = Vec::new();
        let mut end = *base;
        for listed in self.disk.list(&directory)? {
            let Some(first) = epoch::first_of(&listed.name) else {
                continue;
            };
            if first <= base.sequence {
                continue;
            }
            let seal = match Seal::read(self.disk, &directory.join(&listed.name)) {
                Ok(Some(seal)) => seal,
                // Its end is determined by the epochs that follow.
                Ok(None) | Err(Error::Damaged(_)) => continue,
                Err(error) => return Err(error),
            };
            holes.extend(gap(&directory, &end, &seal.before));
            let epoch = Epoch::sealed(&directory, &seal);
            if let Some(damage) = self.damage(&epoch, &seal)? {
                holes.push(Hole {
                    before: seal.before,
                    last: seal.last,
                    damage,
                    epoch: Some(epoch),
                });
            }
            end = seal.last;
        }
        let reached = match self.segment_behind(&end)? {
            Some(segment) => scan::before(&scan::read(segment.as_ref())?),
            None => {
                let noted = positions::read_anchor(self.disk, self.directory)?.position;
                noted.into_iter().chain(until).max_by_key(|at| at.sequence)
            }
        };
        holes.extend(reached.and_then(|reached| gap(&directory, &end, &reached)));
        Ok(holes)
    }

    fn damage(&self, epoch: &Epoch, seal: &Seal) -> Result<Option<Damage>, Error> {
        let right = epoch.check(self.disk, seal, |_| {});
        epoch.close();
        match right {
            Err(Error::Damaged(damage)) => Ok(Some(damage)),
            Ok(()) if epoch.is_copied() => epoch.difference(self.disk),
            right => right.map(|()| None),
        }
    }

    /// The first segment of the write-ahead log that is not sealed.
    fn segment_behind(&self, end: &Durable) -> Result<Option<Arc<dyn File>>, Error> {
        let directory = self.directory.join(wal::DIRECTORY);
        for listed in self.disk.list(&directory)? {
            if wal::first_of(&listed.name).is_some_and(|first| first > end.sequence) {
                return self.disk.open(&directory.join(&listed.name)).map(Some);
            }
        }
        Ok(None)
    }

    /// Builds an epoch beside the others, and seals it.
    fn make(&self, hole: &Hole, source: &dyn Source) -> Result<(), Error> {
        let making = self.directory.join(MAKING);
        self.disk.remove_directory(&making)?;
        self.disk.create_directory(&making)?;
        let epoch = Epoch::new(&making, hole.before);
        self.disk.create_directory(epoch.directory())?;
        let mut position = hole.before;
        while position != hole.last {
            let chunk = source.chunk(position.sequence.saturating_add(1))?;
            let (frames, _) = chunk.behind(&position)?;
            let (frames, end) = through(frames, &position, hole.last.sequence);
            if frames.is_empty() {
                return Err(hole.damage.clone().into());
            }
            epoch.put(self.disk, &position, frames, &Throttle::default())?;
            position = end;
        }
        epoch.seal(self.disk, &position, &Throttle::default())?;
        epoch.close();
        Ok(())
    }

    /// Installs the epoch that an earlier repair has built, if that was cut off before it was installed. It may be the
    /// only readable copy of its entries: what they were read from may have been set aside already.
    fn finish(&self, base: &Durable) -> Result<Vec<Remade>, Error> {
        let making = self.directory.join(MAKING);
        let mut finished = Vec::new();
        for listed in self.disk.list(&making)? {
            let from = making.join(&listed.name);
            let seal = match Seal::read(self.disk, &from) {
                Ok(Some(seal)) => seal,
                // It was not built to the end.
                Ok(None) | Err(Error::Damaged(_)) => continue,
                Err(error) => return Err(error),
            };
            let epoch = Epoch::sealed(&making, &seal);
            if self.damage(&epoch, &seal)?.is_some() {
                continue;
            }
            let holes = self.holes(base, Some(seal.last))?;
            let Some(hole) = holes.into_iter().find(|hole| hole.takes(&seal)) else {
                continue;
            };
            finished.push(Remade {
                first_sequence: seal.first_sequence(),
                last_sequence: seal.last.sequence,
                aside: self.place(&seal.before, &seal.last)?,
                damage: hole.damage,
                from,
            });
        }
        Ok(finished)
    }

    /// Installs the rebuilt epoch of the entries between two positions, and returns the new places of the files that it
    /// replaced.
    fn place(&self, before: &Durable, last: &Durable) -> Result<Vec<PathBuf>, Error> {
        let made = Epoch::new(&self.directory.join(MAKING), *before);
        let place = Epoch::new(&self.epochs(), *before);
        let mut aside = Vec::new();
        for listed in self.disk.list(&self.epochs())? {
            let first = epoch::first_of(&listed.name);
            if first.is_some_and(|first| (before.sequence < first) && (first <= last.sequence)) {
                aside.push(self.set_aside(&listed.name)?);
            }
        }
        self.disk.rename(made.directory(), place.directory())?;
        self.disk.sync_directory(&self.epochs())?;
        self.disk.sync_directory(parent(made.directory()))?;
        Ok(aside)
    }

    fn set_aside(&self, name: &str) -> Result<PathBuf, Error> {
        let directory = self.directory.join(ASIDE);
        self.disk.create_directory(&directory)?;
        let taken = self.disk.list(&directory)?;
        let free = (0..).map(|number: u32| match number {
            0 => name.to_owned(),
            number => format!("{name}.{number}"),
        });
        let mut free = free.filter(|name| !taken.iter().any(|taken| taken.name == *name));
        let aside = directory.join(free.next().unwrap_or_default());
        self.disk.rename(&self.epochs().join(name), &aside)?;
        self.disk.sync_directory(&directory)?;
        Ok(aside)
    }
}

/// The missing entries between two positions.
fn gap(directory: &Path, end: &Durable, next: &Durable) -> Option<Hole> {
    (next.sequence > end.sequence).then(|| Hole {
        before: *end,
        last: *next,
        damage: Damage::new(directory, "no epoch with its seal is there")
            .at_sequence(end.sequence.checked_add(1))
            .through(next.sequence),
        epoch: None,
    })
}

/// An epoch as the source of its own remaining entries.
struct OwnEpoch<'a> {
    epoch: &'a Epoch,
    disk: &'a dyn Disk,
}

impl Source for OwnEpoch<'_> {
    fn chunk(&self, from: u64) -> Result<Chunk, Error> {
        self.epoch.chunk(self.disk, from)
    }
}
