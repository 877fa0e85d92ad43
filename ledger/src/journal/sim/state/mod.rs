//! What is on the simulated disk: what can be read, and what of it would survive.

mod loss;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::{
    super::disk::{Listed, parent},
    Faults,
    database::Pairs,
};

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything that was written can still be read, but may never have reached the disk.
    Kill,
    /// What was not synced is gone, or is there in part.
    PowerLoss,
}

/// What goes wrong with a sync.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Lies,
    Fails,
}

#[derive(Clone, Default)]
struct Inode {
    /// What is read.
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are not durable, in order.
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

#[derive(Clone, Default)]
pub(super) struct State {
    random: u64,
    calls: u64,
    dead: bool,
    faults: Faults,
    locked: bool,
    next_inode: u64,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<NameChange>,
    /// Databases, by directory.
    pub(super) databases: BTreeMap<PathBuf, Pairs>,
    pub(super) open_databases: BTreeSet<PathBuf>,
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

    /// What goes wrong with a sync at this call.
    pub(super) fn sync_fault(&self) -> Fault {
        if Some(self.calls) == self.faults.fail_sync_at {
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

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        self.step()?;
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.change(NameChange::Link(path.to_path_buf(), inode));
        Ok(inode)
    }

    pub(super) fn open(&mut self, path: &Path) -> io::Result<u64> {
        self.alive()?;
        let found = self.names.get(path).copied();
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let inode = self.named(from)?;
        self.change(NameChange::Rename(
            from.to_path_buf(),
            to.to_path_buf(),
            inode,
        ));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.named(path)?;
        self.change(NameChange::Unlink(path.to_path_buf()));
        Ok(())
    }

    pub(super) fn remove_tree(&mut self, directory: &Path) -> io::Result<()> {
        let below: Vec<PathBuf> = self
            .names
            .keys()
            .filter(|p| p.starts_with(directory))
            .cloned()
            .collect();
        for path in below {
            self.remove(&path)?;
        }
        self.step()?;
        self.databases
            .retain(|path, _| !path.starts_with(directory));
        Ok(())
    }

    fn named(&self, path: &Path) -> io::Result<u64> {
        let found = self.names.get(path).copied();
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.pending_names.push(change);
    }

    pub(super) fn list(&mut self, directory: &Path) -> io::Result<Vec<Listed>> {
        self.alive()?;
        let mut found = BTreeMap::new();
        let databases = self.databases.keys().map(|path| (path, true));
        for (path, is_database) in self.names.keys().map(|path| (path, false)).chain(databases) {
            let Ok(below) = path.strip_prefix(directory) else {
                continue;
            };
            let mut parts = below.iter();
            let Some(name) = parts.next() else {
                continue;
            };
            let is_directory = is_database || parts.next().is_some();
            let name = name.to_string_lossy().into_owned();
            let inode = self
                .names
                .get(path)
                .and_then(|inode| self.inodes.get(inode));
            let length = inode.map_or(0, |inode| inode.content.len() as u64);
            found.insert(
                name.clone(),
                Listed {
                    name,
                    is_directory,
                    length: if is_directory { 0 } else { length },
                },
            );
        }
        Ok(found.into_values().collect())
    }

    pub(super) fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        match self.sync_fault() {
            Fault::None => {}
            Fault::Lies => return Ok(()),
            Fault::Fails => return Err(error("simulated I/O error")),
        }
        // A rename within the directory; the journal does no others.
        let (synced, pending) = std::mem::take(&mut self.pending_names)
            .into_iter()
            .partition(|change| change.directory() == directory);
        self.pending_names = pending;
        for change in &synced as &Vec<NameChange> {
            apply(&mut self.durable_names, change);
        }
        Ok(())
    }

    pub(super) fn read(&mut self, inode: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.alive()?;
        let content = &self.inode(inode)?.content;
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let read = buffer.len().min(content.len() - start);
        buffer[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    pub(super) fn write(&mut self, inode: u64, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let died = self.step();
        let fits = usize::try_from(self.free()).unwrap_or(usize::MAX);
        let grows = (offset + bytes.len()).saturating_sub(self.inode(inode)?.content.len());
        let full = grows > fits;
        // A write that is interrupted is done in part.
        let part = if died.is_err() || full {
            self.below(bytes.len() + 1)
                .min(bytes.len() - grows.saturating_sub(fits).min(bytes.len()))
        } else {
            bytes.len()
        };
        if self.calls > 0 && (died.is_ok() || Some(self.calls) == self.faults.crash_at) {
            let inode = self.inode_mut(inode)?;
            put(&mut inode.content, offset, &bytes[..part]);
            inode.pending.push((offset, bytes[..part].to_vec()));
        }
        died?;
        if full {
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
                // As Linux does: the pages count as clean, and are never written.
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
        self.inodes
            .get(&inode)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn inode_mut(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes
            .get_mut(&inode)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(super) fn free(&self) -> u64 {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        let used: u64 = named
            .iter()
            .filter_map(|inode| self.inodes.get(inode))
            .map(|inode| inode.content.len() as u64)
            .sum();
        self.faults
            .capacity
            .unwrap_or(u64::MAX)
            .saturating_sub(used)
    }

    pub(super) fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (path, inode) in &self.names {
            hasher.update(path.to_string_lossy().as_bytes());
            if let Some(inode) = self.inodes.get(inode) {
                hasher.update(&inode.content);
                hasher.update(&inode.durable);
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

impl NameChange {
    fn directory(&self) -> &Path {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) => parent(path),
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Link(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        NameChange::Unlink(path) => {
            names.remove(path);
        }
        NameChange::Rename(from, to, inode) => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}
