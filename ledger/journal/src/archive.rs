//! The archive: files to which epochs are copied before compaction removes them, so that an audit can replay from the
//! beginning. `FIRST-LAST.qla` holds the batches from one sequence to another.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use crate::{
    Damage, Durable, Error, Hash,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File, temporary},
    frame::Frame,
    reader::{BatchReader, Chunk, Source},
};

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

const HEAD: [u8; 3] = *b"QLH";
const BLOCK: [u8; 3] = *b"QLB";
const LIST: [u8; 3] = *b"QLL";
const FOOT: [u8; 3] = *b"QLT";
const FOOT_BYTES: usize = record_bytes(POSITION_BYTES + 8 + 32);

/// Most bytes of frames in one block: a chunk, or one large frame.
const MAX_BLOCK_BYTES: u64 = 32 * 1024 * 1024;

/// Bytes per read when a whole file is hashed.
const HASH_STEP_BYTES: usize = 256 * 1024;

/// An archive file being written, and its hash so far.
///
/// A record with the chain before the first batch; blocks, each a record of the chain before it, the length
/// of its frames, and the frames, compressed by lz4; a record that lists the blocks (first sequence and
/// offset); and a record at the end with the chain behind the last batch, the offset of the list, and the
/// BLAKE3 hash of all bytes before it.
struct Writer {
    file: Arc<dyn File>,
    offset: u64,
    hasher: blake3::Hasher,
    list: Record,
}

impl Writer {
    /// Begins a file of the batches behind `before`.
    fn new(file: Arc<dyn File>, before: &Durable) -> Result<Self, Error> {
        let mut writer =
            Self { file, offset: 0, hasher: blake3::Hasher::new(), list: Record::new(LIST) };
        writer.put(&Record::new(HEAD).position(before).finish())?;
        Ok(writer)
    }

    /// Appends the frames behind `before`.
    fn block(&mut self, before: &Durable, frames: &[u8]) -> Result<(), Error> {
        let first = before.sequence.saturating_add(1);
        let list = std::mem::replace(&mut self.list, Record::new(LIST));
        self.list = list.u64(first).u64(self.offset);
        let block = Record::new(BLOCK)
            .position(before)
            .u64(frames.len() as u64)
            .bytes(&lz4_flex::block::compress(frames));
        self.put(&block.finish())
    }

    /// Ends the file behind `last` and syncs it. Returns its length.
    fn finish(mut self, last: &Durable) -> Result<u64, Error> {
        let list_at = self.offset;
        let list = std::mem::replace(&mut self.list, Record::new(LIST));
        self.put(&list.finish())?;
        let hash = Hash::from(self.hasher.finalize());
        let foot = Record::new(FOOT).position(last).u64(list_at).hash(&hash);
        self.put(&foot.finish())?;
        self.file.sync()?;
        Ok(self.offset)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(bytes, self.offset)?;
        self.hasher.update(bytes);
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

/// An archive file being read.
struct Opened {
    file: Arc<dyn File>,
    before: Durable,
    last: Durable,
    list_at: u64,
    foot_at: u64,
    hash: Hash,
}

impl Opened {
    /// Opens a file of the archive and reads its head and foot.
    fn new(disk: &dyn Disk, listed: &ArchiveFile) -> Result<Self, Error> {
        let file = disk.open(&listed.path)?;
        let wrong = |why| damaged(&listed.path, None, Some(listed.first_sequence), why);
        let mut head = vec![0; record_bytes(POSITION_BYTES)];
        file.read_at(&mut head, 0)?;
        let before = open_record(HEAD, &head).map_err(wrong)?.position();
        let foot_at = file.length()?.saturating_sub(FOOT_BYTES as u64);
        let mut foot = vec![0; FOOT_BYTES];
        file.read_at(&mut foot, foot_at)?;
        let mut fields = open_record(FOOT, &foot).map_err(wrong)?;
        let (Some(before), Some(last), Some(list_at), Some(hash)) =
            (before, fields.position(), fields.u64(), fields.hash())
        else {
            return Err(wrong("a record that is too short".to_owned()));
        };
        let named = (listed.first_sequence, listed.last_sequence);
        if (before.sequence.saturating_add(1), last.sequence) != named {
            return Err(wrong("its content does not match its name".to_owned()));
        }
        Ok(Self { file, before, last, list_at, foot_at, hash })
    }

    /// Reads the whole file and compares its hash.
    fn verify_hash(&self) -> Result<(), Error> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; HASH_STEP_BYTES];
        let mut offset = 0;
        while offset < self.foot_at {
            let step = usize::try_from(self.foot_at - offset).unwrap_or(usize::MAX);
            let step = step.min(HASH_STEP_BYTES);
            let read = self.file.read_at(&mut buffer[..step], offset)?;
            hasher.update(&buffer[..read]);
            if read < step {
                break;
            }
            offset = offset.saturating_add(read as u64);
        }
        if Hash::from(hasher.finalize()) == self.hash {
            return Ok(());
        }
        let first = self.before.sequence.saturating_add(1);
        let why = "the file does not have its hash".to_owned();
        Err(damaged(self.file.path(), None, Some(first), why))
    }

    /// The first sequence and the offset of each block.
    fn list(&self) -> Result<Vec<(u64, u64)>, Error> {
        let record = self.record(self.list_at, self.foot_at.saturating_sub(self.list_at))?;
        let mut fields = open_record(LIST, &record)
            .map_err(|why| damaged(self.file.path(), Some(self.list_at), None, why))?;
        let mut list = Vec::new();
        while let Some(block) = fields.u64().zip(fields.u64()) {
            list.push(block);
        }
        Ok(list)
    }

    /// The frames of the block at an offset.
    fn block(&self, offset: u64) -> Result<Chunk, Error> {
        let wrong = |why| damaged(self.file.path(), Some(offset), None, why);
        let limit = self.list_at.saturating_sub(offset).min(MAX_BLOCK_BYTES);
        let header = self.record(offset, limit.min(12))?;
        let body = header.get(8..12).and_then(|bytes| bytes.try_into().ok());
        let length = record_bytes(body.map_or(0, u32::from_le_bytes) as usize) as u64;
        let record = self.record(offset, length.min(limit))?;
        let mut fields = open_record(BLOCK, &record).map_err(wrong)?;
        let (Some(before), Some(length)) = (fields.position(), fields.u64()) else {
            return Err(wrong("a block without its header".to_owned()));
        };
        if length > MAX_BLOCK_BYTES {
            return Err(wrong("a block of an impossible length".to_owned()));
        }
        let length = usize::try_from(length).unwrap_or(0);
        let bytes = lz4_flex::block::decompress(fields.rest(), length)
            .map_err(|_| wrong("a block that cannot be decompressed".to_owned()))?;
        Ok(Chunk {
            before,
            bytes,
            file: self.file.path().to_path_buf(),
            offset: None,
            through: Some(self.last.sequence),
        })
    }

    fn record(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let length = length.min(self.file.length()?);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// The error of a missing sequence.
fn missing(file: &Path, sequence: u64) -> Error {
    damaged(file, None, Some(sequence), format!("sequence {sequence} is missing"))
}

fn damaged(file: &Path, offset: Option<u64>, sequence: Option<u64>, why: String) -> Error {
    Error::Damaged(Damage::new(file, why).at_offset(offset).at_sequence(sequence))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::RealDisk;

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
