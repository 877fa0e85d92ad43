//! The content of the simulated disk: the readable part, and the part that would survive.

mod loss;
mod names;
mod pairs;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    path::PathBuf,
};

use super::{Faults, Fired};
use names::NameChange;
pub(super) use pairs::Pairs;

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All writes can still be read, but may never have reached the disk.
    Kill,
    /// Unsynced writes are lost, in whole or in part.
    PowerLoss,
}

/// The fault of a sync.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Lies,
    Fails,
}

#[derive(Clone, Default)]
struct Inode {
    /// The readable content.
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are not durable, in order.
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Default)]
pub(super) struct State {
    random: u64,
    calls: u64,
    dead: bool,
    faults: Faults,
    locked: bool,
    pub(super) fired: Fired,
    next_inode: u64,
    /// Files. A name without an inode here is a directory or a database.
    inodes: BTreeMap<u64, Inode>,
    pub(super) databases: BTreeMap<u64, Pairs>,
    pub(super) open_databases: BTreeSet<u64>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    /// Changes of names whose directory was not synced since, in order.
    pending_names: Vec<NameChange>,
}

fn error(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

impl State {
    pub(super) fn seed(&mut self, seed: u64) {
        self.random = seed;
    }

    /// splitmix64.
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random() % (limit.max(1) as u64)).unwrap_or(0)
    }

    pub(super) const fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) const fn is_dead(&self) -> bool {
        self.dead
    }

    /// Counts a call; fails from the crash on.
    pub(super) fn step(&mut self) -> io::Result<()> {
        self.alive()?;
        self.calls += 1;
        self.fired.calls += 1;
        if Some(self.calls) == self.faults.crash_at {
            self.dead = true;
        }
        self.alive()
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead {
            return Err(error("the simulated process is dead"));
        }
        Ok(())
    }

    /// The fault of a sync at this call.
    pub(super) fn sync_fault(&mut self) -> Fault {
        if due(&mut self.faults.fail_sync_at, self.calls) {
            self.fired.failed_syncs += 1;
            Fault::Fails
        } else if self.faults.syncs_lie {
            Fault::Lies
        } else {
            Fault::None
        }
    }

    pub(super) fn lock(&mut self) -> io::Result<bool> {
        self.alive()?;
        Ok(!std::mem::replace(&mut self.locked, true))
    }

    pub(super) fn unlock(&mut self) {
        self.locked = false;
    }

    pub(super) fn reboot(&mut self, crash: Crash, faults: Faults) {
        if crash == Crash::PowerLoss {
            self.lose_names();
            self.lose_writes();
        }
        self.lose_pairs(crash);
        self.dead = false;
        self.calls = 0;
        self.faults = faults;
        self.locked = false;
    }

    pub(super) fn inject(&mut self, faults: Faults) {
        self.calls = 0;
        self.faults = faults;
    }

    pub(super) fn read(&mut self, inode: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.alive()?;
        let content = &self.inode(inode)?.content;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let read = buffer.len().min(content.len() - start);
        buffer[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    pub(super) fn write(&mut self, inode: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.alive()?;
        let died = self.step();
        let failed = died.is_ok() && due(&mut self.faults.fail_write_at, self.calls);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let fits = usize::try_from(self.free()).unwrap_or(usize::MAX);
        let grows = (offset + bytes.len()).saturating_sub(self.inode(inode)?.content.len());
        let full = grows > fits;
        let room = bytes.len() - grows.saturating_sub(fits).min(bytes.len());
        // An interrupted write is done in part.
        let part = match died.is_err() || failed || full {
            true => self.below(bytes.len() + 1).min(room),
            false => bytes.len(),
        };
        let file = self.inode_mut(inode)?;
        put(&mut file.content, offset, &bytes[..part]);
        file.pending.push((offset, bytes[..part].to_vec()));
        died?;
        if failed {
            self.fired.failed_writes += 1;
            return Err(error("simulated I/O error"));
        }
        if full {
            self.fired.no_space += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64) -> io::Result<()> {
        self.step()?;
        let fault = self.sync_fault();
        let inode = self.inode_mut(inode)?;
        match fault {
            Fault::None => {
                for (offset, bytes) in std::mem::take(&mut inode.pending) {
                    put(&mut inode.durable, offset, &bytes);
                }
                Ok(())
            }
            Fault::Lies => Ok(()),
            Fault::Fails => {
                // As in Linux: the pages count as clean, and are never written.
                inode.pending.clear();
                Err(error("simulated I/O error"))
            }
        }
    }

    pub(super) fn length(&mut self, inode: u64) -> io::Result<u64> {
        self.alive()?;
        Ok(self.inode(inode)?.content.len() as u64)
    }

    fn inode(&self, inode: u64) -> io::Result<&Inode> {
        self.inodes.get(&inode).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn inode_mut(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn free(&self) -> u64 {
        match self.faults.capacity {
            Some(capacity) => capacity.saturating_sub(self.used()),
            None => u64::MAX,
        }
    }

    pub(super) fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|inode| self.inodes.get(inode));
        files.map(|file| file.content.len() as u64).sum()
    }

    /// Flips one bit of the disk; returns the place.
    pub(super) fn flip(&mut self) -> Option<(PathBuf, u64)> {
        let names: Vec<(PathBuf, u64)> = self.names.clone().into_iter().collect();
        let holds = |(_, inode): &&(PathBuf, u64)| {
            let file = self.inodes.get(inode);
            let database = self.databases.get(inode);
            file.is_some_and(|file| !file.content.is_empty())
                || database.is_some_and(|pairs| !pairs.is_empty())
        };
        let held: Vec<&(PathBuf, u64)> = names.iter().filter(holds).collect();
        let chosen = self.below(held.len());
        let (path, inode) = (*held.get(chosen)?).clone();
        let random = self.random();
        if let Some(pairs) = self.databases.get_mut(&inode) {
            pairs.flip(random);
            return Some((path, 0));
        }
        let file = self.inodes.get_mut(&inode)?;
        let bit = random % (file.content.len() as u64 * 8);
        let at = usize::try_from(bit / 8).unwrap_or(0);
        for bytes in [&mut file.content, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Some((path, bit / 8))
    }

    pub(super) fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (path, inode) in &self.names {
            hasher.update(path.to_string_lossy().as_bytes());
            if let Some(inode) = self.inodes.get(inode) {
                hasher.update(&inode.content);
                hasher.update(&inode.durable);
            }
            if let Some(pairs) = self.databases.get(inode) {
                pairs.fingerprint(&mut hasher);
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Whether a fault is due at this call; it occurs once.
fn due(at: &mut Option<u64>, calls: u64) -> bool {
    at.take_if(|at| *at <= calls).is_some()
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
