//! The archive: files to which epochs are copied before compaction removes them, so that an audit can replay from the
//! beginning. `FIRST-LAST.qla` holds the batches from one sequence to another.

mod file;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use super::{
    Damage, Durable, Error,
    disk::{Disk, temporary},
    frame::Frame,
    reader::{BatchReader, Chunk, Source},
};
use file::{Opened, Writer, missing};

const ENDING: &str = ".qla";

/// The ending of a file that is being written.
const UNFINISHED: &str = ".qla.tmp";

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Sequence of its first entry.
    pub first_sequence: u64,
    /// Sequence of its last entry.
    pub last_sequence: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Its path.
    pub path: PathBuf,
}

/// An archive directory.
pub struct Archive {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    files: RwLock<Vec<ArchiveFile>>,
}

impl Archive {
    /// Opens an archive directory, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> Result<Self, Error> {
        let archive = Self {
            files: RwLock::new(list(disk.as_ref(), directory)?),
            disk,
            directory: directory.to_path_buf(),
        };
        Ok(archive)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The free bytes of the file system that holds it. The directory is created if it does not exist.
    pub(super) fn free_space(&self) -> Result<u64, Error> {
        self.disk.create_directory(&self.directory)?;
        self.disk.free_space(&self.directory)
    }

    /// Its files, oldest first.
    pub fn files(&self) -> Vec<ArchiveFile> {
        self.files.read().clone()
    }

    /// The first sequence from which the archive holds everything up to `last`.
    pub(crate) fn reaches_back_to(&self, last: u64) -> Option<u64> {
        let mut first = None;
        let mut wanted = last;
        for file in self.files().iter().rev() {
            if file.last_sequence == wanted {
                first = Some(file.first_sequence);
                wanted = file.first_sequence.saturating_sub(1);
            }
        }
        first
    }

    /// Refuses a ledger that ends before the last archived entry.
    pub(super) fn is_not_ahead_of(&self, durable: &Durable) -> Result<(), Error> {
        let files = self.files();
        let ahead = files.iter().find(|file| file.last_sequence > durable.sequence);
        let Some(file) = ahead else {
            return Ok(());
        };
        let why = format!(
            "the ledger ends at sequence {}, but {} was archived",
            durable.sequence, file.last_sequence
        );
        Err(Error::Damaged(
            Damage::new(&file.path, why).at_sequence(durable.sequence.saturating_add(1)),
        ))
    }

    /// Reads batches from the archive alone, beginning with the batch that holds `from`.
    pub fn read(self: &Arc<Self>, from: u64) -> BatchReader {
        BatchReader::new(Arc::clone(self) as Arc<dyn Source>, from)
    }

    /// The file that holds a sequence.
    fn file_of(&self, sequence: u64) -> Option<ArchiveFile> {
        let files = self.files.read();
        let behind = files.partition_point(|file| file.first_sequence <= sequence);
        let file = files.get(behind.checked_sub(1)?)?;
        (sequence <= file.last_sequence).then(|| file.clone())
    }

    /// Stores the batches of `source` from behind `before` up to `last`, durably, and reads them back.
    pub(super) fn store(
        &self,
        before: &Durable,
        last: &Durable,
        source: &dyn Source,
    ) -> Result<ArchiveFile, Error> {
        self.disk.create_directory(&self.directory)?;
        let first = before.sequence.saturating_add(1);
        let name = format!("{first:020}-{:020}{ENDING}", last.sequence);
        let path = self.directory.join(name);
        let bytes = self
            .write(&path, before, last, source)
            .inspect_err(|_| self.remove_unfinished(&temporary(&path)))?;
        let file = ArchiveFile { first_sequence: first, last_sequence: last.sequence, bytes, path };
        self.verify(&file, |_, _| {})?;
        let mut files = self.files.write();
        files.retain(|other| other.path != file.path);
        files.push(file.clone());
        files.sort_by_key(|file| file.first_sequence);
        Ok(file)
    }

    /// Removes the files that a killed process did not finish: they take the room that the archive needs.
    ///
    /// # Errors
    /// [`Error::Io`]: the directory cannot be listed.
    pub(super) fn clean_up(&self) -> Result<(), Error> {
        for listed in self.disk.list(&self.directory)? {
            if listed.name.ends_with(UNFINISHED) {
                self.remove_unfinished(&self.directory.join(&listed.name));
            }
        }
        Ok(())
    }

    fn remove_unfinished(&self, path: &Path) {
        // A file that cannot be removed now is removed at the next start, or overwritten.
        let _ = self.disk.remove_file(path);
    }

    /// Writes a file and installs it, durably. Returns its length.
    fn write(
        &self,
        path: &Path,
        before: &Durable,
        last: &Durable,
        source: &dyn Source,
    ) -> Result<u64, Error> {
        let mut writer = Writer::new(self.disk.create(&temporary(path))?, before)?;
        let mut position = *before;
        while position.sequence < last.sequence {
            let next = position.sequence.saturating_add(1);
            let chunk = source.chunk(next)?;
            let (frames, end) = chunk.behind(&position)?;
            if frames.is_empty() {
                return Err(missing(&chunk.file, next));
            }
            writer.block(&position, frames)?;
            position = end;
        }
        if position != *last {
            return Err(missing(path, last.sequence));
        }
        let bytes = writer.finish(last)?;
        self.disk.rename(&temporary(path), path)?;
        self.disk.sync_directory(&self.directory)?;
        Ok(bytes)
    }

    /// Reads a whole file: its hash, its head and foot, and every frame against the chain. Returns the chain before and
    /// behind it; `visit` is called for each frame, with the chain before the frame.
    pub(super) fn verify(
        &self,
        file: &ArchiveFile,
        mut visit: impl FnMut(&Durable, &Frame<'_>),
    ) -> Result<(Durable, Durable), Error> {
        let opened = Opened::new(self.disk.as_ref(), file)?;
        opened.verify_hash()?;
        let mut position = opened.before;
        for (_, offset) in opened.list()? {
            let chunk = opened.block(offset)?;
            let end = chunk.each_behind(&position, &mut visit)?;
            if end == position {
                return Err(missing(&file.path, position.sequence.saturating_add(1)));
            }
            position = end;
        }
        if position != opened.last {
            return Err(missing(&file.path, position.sequence.saturating_add(1)));
        }
        Ok((opened.before, position))
    }
}

impl Source for Archive {
    fn chunk(&self, from: u64) -> Result<Chunk, Error> {
        let Some(file) = self.file_of(from) else {
            let files = self.files();
            if files.last().is_none_or(|file| file.last_sequence < from) {
                return Ok(Chunk::empty(Durable::NOTHING, &self.directory));
            }
            return Err(missing(&self.directory, from));
        };
        let opened = Opened::new(self.disk.as_ref(), &file)?;
        let list = opened.list()?;
        let behind = list.partition_point(|(first, _)| *first <= from);
        match behind.checked_sub(1).and_then(|at| list.get(at)) {
            Some((_, offset)) => opened.block(*offset),
            None => Err(missing(&file.path, from)),
        }
    }
}

/// The archive files in a directory, by name.
fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<ArchiveFile>, Error> {
    let mut files: Vec<ArchiveFile> = Vec::new();
    for listed in disk.list(directory)? {
        let range = listed.name.strip_suffix(ENDING).and_then(|range| range.split_once('-'));
        let Some((Ok(first_sequence), Ok(last_sequence))) =
            range.map(|(first, last)| (first.parse(), last.parse()))
        else {
            continue;
        };
        files.push(ArchiveFile {
            first_sequence,
            last_sequence,
            bytes: listed.length,
            path: directory.join(&listed.name),
        });
    }
    files.sort_by_key(|file| file.first_sequence);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{super::disk::RealDisk, *};

    struct Broken;

    impl Source for Broken {
        fn chunk(&self, _: u64) -> Result<Chunk, Error> {
            Err(Error::Closed)
        }
    }

    #[test]
    fn files_that_are_not_finished_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let names = || {
            let listed = RealDisk.list(directory.path()).unwrap();
            listed.into_iter().map(|listed| listed.name)
        };
        let archive = Archive::open(Arc::new(RealDisk), directory.path()).unwrap();
        let last = Durable { sequence: 5, ..Durable::NOTHING };
        let error = archive.store(&Durable::NOTHING, &last, &Broken).err();
        assert!(matches!(error, Some(Error::Closed)), "{error:?}");
        assert_eq!(names().count(), 0);

        let unfinished = temporary(&directory.path().join("1-5.qla"));
        assert!(unfinished.to_string_lossy().ends_with(UNFINISHED));
        for path in [unfinished, directory.path().join("other.tmp")] {
            fs::write(path, "").unwrap();
        }
        archive.clean_up().unwrap();
        assert_eq!(names().collect::<Vec<_>>(), ["other.tmp"]);
    }
}
