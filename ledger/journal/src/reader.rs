//! Reading batches from any part of the ledger, each checked against its checksum and the chain.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use quota_semantics::Timestamp;

use crate::{
    Archive, Batch, Damage, Durable, Error, FileReader, Hash, Operation, Options, StoredBatch,
    disk::{Disk, Lock, ReadOnlyDisk},
    frame::{self, Parsed},
    positions, recovery,
};

/// Batches in order of their sequence, up to the durable position at the time when the iterator reaches it.
pub type Batches = Box<dyn Iterator<Item = Result<StoredBatch, Error>> + Send>;

/// The readers' side: durable batches only, from any thread, while the writer appends.
pub trait Reader: Send + Sync {
    /// Reads from the batch that holds the entry `from` (0 and 1: from the beginning). Every batch is checked against
    /// its checksum and against the chain; after an error the iterator ends.
    ///
    /// The first item is [`Error::Compacted`] if that entry is no longer kept. Behind the durable end there are no
    /// items.
    fn read(&self, from: u64) -> Batches;

    /// Sequence of the first entry that can be read: 1 until compaction removes entries; later as well, if the archive
    /// holds all of them.
    fn first_sequence(&self) -> u64;

    /// The position up to which the journal is durable, or at least [written](crate::Journal::write), and so can be read.
    fn durable(&self) -> Durable;
}

/// Some frames, and their place.
pub(super) struct Chunk {
    /// The chain before the first frame.
    pub(super) before: Durable,
    /// Whole frames; the last one may be incomplete.
    pub(super) bytes: Vec<u8>,
    pub(super) file: PathBuf,
    /// Offset of the first frame in the file, if the file holds the frames as they are.
    pub(super) offset: Option<u64>,
    /// The last sequence that is lost if the frames are damaged, if determined.
    pub(super) through: Option<u64>,
}

impl Chunk {
    pub(super) fn empty(before: Durable, file: &Path) -> Self {
        Self { before, bytes: Vec::new(), file: file.to_path_buf(), offset: None, through: None }
    }

    /// Visits the frames behind `position`, each with the chain before it, and returns the chain behind them.
    pub(super) fn each_behind(
        &self,
        position: &Durable,
        visit: &mut impl FnMut(&Durable, &frame::Frame<'_>),
    ) -> Result<Durable, Error> {
        let (mut frames, _) = self.behind(position)?;
        let mut here = *position;
        while let Parsed::Complete(frame) = frame::parse(frames) {
            visit(&here, &frame);
            here = frame.end();
            frames = &frames[frame.bytes.len()..];
        }
        Ok(here)
    }

    /// Ledger time of the first frame.
    pub(super) fn first_time(&self) -> Option<Timestamp> {
        match frame::parse(&self.bytes) {
            Parsed::Complete(frame) => Some(frame.time),
            _ => None,
        }
    }

    fn damage(&self, at: usize, position: &Durable, why: String) -> Error {
        Error::Damaged(
            Damage::new(&self.file, why)
                .at_offset(self.offset.map(|offset| offset.saturating_add(at as u64)))
                .at_sequence(position.sequence.saturating_add(1))
                .through(self.through),
        )
    }

    /// Skips the frame at an offset, behind the chain position `here`. False if there is no complete frame.
    fn pass(&self, at: &mut usize, here: &mut Durable) -> Result<bool, Error> {
        match frame::parse(self.bytes.get(*at..).unwrap_or_default()) {
            Parsed::Complete(frame) => {
                *here = frame.follow(here).map_err(|why| self.damage(*at, here, why))?;
                *at = at.saturating_add(frame.bytes.len());
                Ok(true)
            }
            Parsed::Corrupt(why) => Err(self.damage(*at, here, why.to_owned())),
            Parsed::End | Parsed::NeedMore(_) => Ok(false),
        }
    }

    /// The chain at `sequence`, if a batch ends there. Everything up to there is checked.
    pub(super) fn position_at(&self, sequence: u64) -> Result<Option<Durable>, Error> {
        let mut at = 0;
        let mut here = self.before;
        while here.sequence < sequence {
            if !self.pass(&mut at, &mut here)? {
                return Ok(None);
            }
        }
        Ok((here.sequence == sequence).then_some(here))
    }

    /// The frames behind `position`, which has to be the end of one of them or the beginning, and the chain behind
    /// them. All are checked.
    pub(super) fn behind(&self, position: &Durable) -> Result<(&[u8], Durable), Error> {
        let mut at = 0;
        let mut start = None;
        let mut here = self.before;
        loop {
            if here.sequence == position.sequence {
                if here != *position {
                    let why = format!("the chain hash there should be {}", position.hash);
                    return Err(self.damage(at, &here, why));
                }
                start = Some(at);
            }
            if !self.pass(&mut at, &mut here)? {
                break;
            }
        }
        match start {
            Some(start) => Ok((&self.bytes[start..at], here)),
            None => Ok((&[], *position)),
        }
    }
}

/// The frames up to a sequence, and the chain behind them.
pub(super) fn through<'a>(frames: &'a [u8], before: &Durable, last: u64) -> (&'a [u8], Durable) {
    let (mut at, mut position) = (0, *before);
    while let Parsed::Complete(frame) = frame::parse(&frames[at..]) {
        if frame.last_sequence() > last {
            break;
        }
        at = at.saturating_add(frame.bytes.len());
        position = frame.end();
    }
    (&frames[..at], position)
}

/// A source of chunks.
pub(super) trait Source: Send + Sync {
    /// Frames from the one that holds the sequence `from`, or a few before it; empty only behind the end.
    fn chunk(&self, from: u64) -> Result<Chunk, Error>;
}

/// A stored batch, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRef<'a> {
    /// Sequence of its first entry.
    pub first_sequence: u64,
    /// Number of entries.
    pub count: u32,
    /// Ledger time of its last entry.
    pub time: Timestamp,
    /// The encoded entries.
    pub payload: &'a [u8],
    /// Its chain hash.
    pub hash: Hash,
    /// The chain hash of the batch before.
    pub previous: Hash,
}

impl BatchRef<'_> {
    /// Sequence of its last entry.
    pub const fn last_sequence(&self) -> u64 {
        self.first_sequence + self.count as u64 - 1
    }

    /// A copy that is not borrowed.
    pub fn to_stored(&self) -> StoredBatch {
        StoredBatch {
            batch: Batch {
                first_sequence: self.first_sequence,
                count: self.count,
                time: self.time,
                payload: self.payload.to_vec(),
            },
            hash: self.hash,
            previous: self.previous,
        }
    }
}

/// Reads batches in order. As an iterator it returns copies; [`BatchReader::next_batch`] lends them.
pub struct BatchReader {
    source: Arc<dyn Source>,
    /// The next sequence.
    next: u64,
    /// The chain behind the last returned batch.
    position: Option<Durable>,
    chunk: Chunk,
    at: usize,
    /// The chain before `at`.
    here: Durable,
    failed: bool,
}

/// The place of a batch in the chunk.
struct Found {
    first_sequence: u64,
    payload: std::ops::Range<usize>,
    previous: Hash,
    end: Durable,
}

impl BatchReader {
    pub(super) fn new(source: Arc<dyn Source>, from: u64) -> Self {
        Self {
            source,
            next: from.max(1),
            position: None,
            chunk: Chunk::empty(Durable::NOTHING, Path::new("")),
            at: 0,
            here: Durable::NOTHING,
            failed: false,
        }
    }

    /// Lends the next batch; none at the durable end, where a later call may return more. After an error there are no
    /// more batches.
    pub fn next_batch(&mut self) -> Option<Result<BatchRef<'_>, Error>> {
        if self.failed {
            return None;
        }
        match self.advance() {
            Ok(None) => None,
            Ok(Some(found)) => Some(Ok(BatchRef {
                first_sequence: found.first_sequence,
                count: u32::try_from(found.end.sequence - found.first_sequence + 1)
                    .unwrap_or(u32::MAX),
                time: found.end.time,
                payload: &self.chunk.bytes[found.payload],
                hash: found.end.hash,
                previous: found.previous,
            })),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Found>, Error> {
        if let Some(found) = self.step()? {
            return Ok(Some(found));
        }
        self.chunk = self.source.chunk(self.next)?;
        self.at = 0;
        self.here = self.chunk.before;
        if self.chunk.bytes.is_empty() {
            return Ok(None);
        }
        match self.step()? {
            Some(found) => Ok(Some(found)),
            None => Err(self.damaged(format!("sequence {} is missing", self.next))),
        }
    }

    /// The next batch of the chunk.
    fn step(&mut self) -> Result<Option<Found>, Error> {
        loop {
            let rest = self.chunk.bytes.get(self.at..).unwrap_or_default();
            let frame = match frame::parse(rest) {
                Parsed::Complete(frame) => frame,
                Parsed::End | Parsed::NeedMore(_) => return Ok(None),
                Parsed::Corrupt(why) => return Err(self.damaged(why.to_owned())),
            };
            let before = self.here;
            let end = frame.follow(&before).map_err(|why| self.damaged(why))?;
            let payload_at = self.at.saturating_add(frame::PAYLOAD_AT);
            let found = Found {
                first_sequence: frame.first_sequence,
                payload: payload_at..payload_at.saturating_add(frame.payload.len()),
                previous: before.hash,
                end,
            };
            let length = frame.bytes.len();
            let wanted = end.sequence >= self.next;
            if wanted {
                if self.position.is_some_and(|position| position != before) {
                    let why = "it does not continue the previous batches".to_owned();
                    return Err(self.damaged(why));
                }
                self.position = Some(end);
                self.next = end.sequence.saturating_add(1);
            }
            self.at = self.at.saturating_add(length);
            self.here = end;
            if wanted {
                return Ok(Some(found));
            }
        }
    }

    fn damaged(&self, why: String) -> Error {
        self.chunk.damage(self.at, &self.here, why)
    }
}

impl Iterator for BatchReader {
    type Item = Result<StoredBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map(|batch| batch.map(|batch| batch.to_stored()))
    }
}

// Reading a ledger without a daemon, and without changing it: a data directory, or an archive.

/// A ledger at rest.
pub enum Offline {
    /// A data directory. While it is held, no daemon can open it.
    Data(Box<OfflineData>),
    /// An archive directory, or a part of one.
    Archive(Arc<Archive>),
}

/// A data directory at rest.
pub struct OfflineData {
    reader: FileReader,
    _lock: Box<dyn Lock>,
}

impl Offline {
    /// Opens a directory for reading. For a data directory, `archive` may name the directory that its compaction
    /// filled. A torn end that recovery would erase is not read, and sealed epochs are checked as they are read.
    ///
    /// # Errors
    /// [`Error::Locked`] while a daemon runs, [`Error::Damaged`], [`Error::Io`]; not found, if the directory holds no
    /// ledger.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        archive: Option<&Path>,
    ) -> Result<Self, Error> {
        if !exists(disk.as_ref(), directory)? {
            let archive = Archive::open(disk, directory)?;
            if archive.files().is_empty() {
                let path = directory.join(positions::BASE_FILE);
                return Err(Error::io(path, Operation::Open, ErrorKind::NotFound.into()));
            }
            return Ok(Self::Archive(Arc::new(archive)));
        }
        let options = Options {
            archive: archive.map(Path::to_path_buf),
            check_bytes: 0,
            start_with_damage: true,
            background: false,
            ..Options::default()
        };
        let opened = recovery::open(Arc::new(ReadOnlyDisk::new(disk)), directory, options)?;
        Ok(Self::Data(Box::new(OfflineData {
            reader: FileReader::new(Arc::new(opened.store)),
            _lock: opened.lock,
        })))
    }

    /// Reads from the batch that holds the entry `from`; 0: from the first available one.
    pub fn batches(&self, from: u64) -> BatchReader {
        let from = from.max(self.first_sequence());
        match self {
            Self::Data(data) => data.reader.batches(from),
            Self::Archive(archive) => archive.read(from),
        }
    }

    /// The source of chunks.
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Self::Data(data) => data.reader.store.as_ref(),
            Self::Archive(archive) => archive.as_ref(),
        }
    }

    /// Sequence of the first entry that can be read.
    pub fn first_sequence(&self) -> u64 {
        match self {
            Self::Data(data) => data.reader.first_sequence(),
            Self::Archive(archive) => archive.files().first().map_or(1, |file| file.first_sequence),
        }
    }

    /// Sequence of the last entry.
    pub fn last_sequence(&self) -> u64 {
        match self {
            Self::Data(data) => data.reader.durable().sequence,
            Self::Archive(archive) => archive.files().last().map_or(0, |file| file.last_sequence),
        }
    }
}

/// Whether a directory is a data directory.
pub(super) fn exists(disk: &dyn Disk, directory: &Path) -> Result<bool, Error> {
    let listed = disk.list(directory)?;
    if listed.iter().any(|listed| listed.name == positions::BASE_FILE) {
        return Ok(true);
    }
    // Even without a base position, enough files of a ledger may be there to report the damage.
    Ok(positions::read_base(disk, directory)?.is_some())
}

impl OfflineData {
    /// The reader.
    pub const fn reader(&self) -> &FileReader {
        &self.reader
    }
}

impl Drop for OfflineData {
    fn drop(&mut self) {
        self.reader.store.close();
    }
}
