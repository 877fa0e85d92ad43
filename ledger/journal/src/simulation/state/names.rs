//! Names: files, directories and databases by their paths.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::{Fault, Inode, Pairs, State, error};
use crate::disk::{DirectoryEntry, parent};

#[derive(Clone)]
pub(super) enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl State {
    pub(in crate::simulation) fn create(&mut self, path: &Path) -> io::Result<u64> {
        self.step()?;
        self.parent_exists(path)?;
        let inode = self.link(path);
        self.inodes.insert(inode, Inode::default());
        Ok(inode)
    }

    fn link(&mut self, path: &Path) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.change(NameChange::Link(path.to_path_buf(), inode));
        inode
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if !self.is_there(parent) => Err(ErrorKind::NotFound.into()),
            _ => Ok(()),
        }
    }

    /// Whether a path exists. The root always does.
    fn is_there(&self, path: &Path) -> bool {
        path.parent().is_none() || self.names.contains_key(path)
    }

    pub(in crate::simulation) fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        if self.is_there(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.parent_exists(path)?;
        self.link(path);
        Ok(())
    }

    pub(in crate::simulation) fn has_directory(&mut self, path: &Path) -> io::Result<bool> {
        self.alive()?;
        Ok(self.is_there(path))
    }

    /// The database of a directory; it is created if it does not exist.
    pub(in crate::simulation) fn open_database(&mut self, path: &Path) -> io::Result<u64> {
        if !self.is_there(parent(path)) {
            self.make_directory(parent(path))?;
        }
        self.step()?;
        if let Some(inode) = self.names.get(path) {
            return Ok(*inode);
        }
        let inode = self.link(path);
        self.databases.insert(inode, Pairs::default());
        Ok(inode)
    }

    pub(in crate::simulation) fn open(&mut self, path: &Path) -> io::Result<u64> {
        self.alive()?;
        let found = self.names.get(path).copied();
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    pub(in crate::simulation) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let inode = self.named(from)?;
        self.change(NameChange::Rename(from.to_path_buf(), to.to_path_buf(), inode));
        Ok(())
    }

    pub(in crate::simulation) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.named(path)?;
        self.change(NameChange::Unlink(path.to_path_buf()));
        Ok(())
    }

    /// Removes the content of a directory in any order, then the directory.
    pub(in crate::simulation) fn remove_tree(&mut self, directory: &Path) -> io::Result<()> {
        let below = self.names.keys().filter(|path| path.starts_with(directory));
        let mut below: Vec<PathBuf> = below.cloned().collect();
        below.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        if below.len() > 2 && self.random().is_multiple_of(2) {
            below.swap(0, 1);
        }
        for path in below {
            self.remove(&path)?;
        }
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

    pub(in crate::simulation) fn list(
        &mut self,
        directory: &Path,
    ) -> io::Result<Vec<DirectoryEntry>> {
        self.alive()?;
        let database = self.names.get(directory);
        if let Some(pairs) = database.and_then(|inode| self.databases.get(inode)) {
            return Ok(vec![pairs.listed()]);
        }
        let within = self.names.range(directory.to_path_buf()..);
        let within = within.take_while(|(path, _)| path.starts_with(directory));
        let children = within.filter(|(path, _)| path.parent() == Some(directory));
        let listed = children.map(|(path, inode)| {
            let file = self.inodes.get(inode);
            DirectoryEntry {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                is_directory: file.is_none(),
                length: file.map_or(0, |file| file.content.len() as u64),
            }
        });
        Ok(listed.collect())
    }

    pub(in crate::simulation) fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        match self.sync_fault() {
            Fault::None => {}
            Fault::Lies => return Ok(()),
            Fault::Fails => return Err(error("simulated I/O error")),
        }
        // A rename within one directory; the journal does no others.
        let (synced, pending) = std::mem::take(&mut self.pending_names)
            .into_iter()
            .partition(|change| change.directory() == directory);
        self.pending_names = pending;
        for change in &synced as &Vec<NameChange> {
            apply(&mut self.durable_names, change);
        }
        Ok(())
    }
}

impl NameChange {
    pub(in crate::simulation) fn directory(&self) -> &Path {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) => parent(path),
        }
    }
}

pub(super) fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
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
