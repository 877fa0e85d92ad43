//! The write-ahead log: the ack path. Segments of a fixed size, filled with zeros ahead of need, so that an append is
//! one write and one fdatasync that changes no metadata.
//!
//! A segment file is named after its first sequence, and begins with a record: the position of the chain before it, and
//! its size. Frames follow, then zeros.

pub(super) mod scan;
mod torn;
pub(super) mod writer;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use super::{
    Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File},
    frame::{self, Parsed},
    reader::Chunk,
};

pub(super) use writer::Writer;

/// Directory of the segments, in the data directory.
pub(super) const DIRECTORY: &str = "log";

const MAGIC: [u8; 3] = *b"QLS";
const ENDING: &str = ".log";

/// Where the frames of a segment begin.
const HEADER_BYTES: u64 = record_bytes(POSITION_BYTES + 8) as u64;

/// Distance of the marks in a segment, in bytes of frames.
const MARK_EVERY_BYTES: u64 = 8 * 1024;

/// Bytes that readers read at a time.
pub(super) const CHUNK_BYTES: u64 = 256 * 1024;

/// The file of the segment behind `before`.
fn path_of(directory: &Path, before: &Durable) -> PathBuf {
    directory.join(file_name(before.sequence.saturating_add(1)))
}

/// The file name of the segment with this first sequence.
pub(super) fn file_name(first: u64) -> String {
    format!("{first:020}{ENDING}")
}

/// The first sequence of the segment with this file name.
pub(super) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

fn header(before: &Durable, size: u64) -> Vec<u8> {
    Record::new(MAGIC).position(before).u64(size).finish()
}

/// The position before a segment, and the size that it was prepared with (0: it grows).
fn parse_header(bytes: &[u8]) -> Result<(Durable, u64), String> {
    let mut fields = open_record(MAGIC, bytes)?;
    fields
        .position()
        .zip(fields.u64())
        .ok_or_else(|| "a segment header that is too short".to_owned())
}

/// A frame's place in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    before: Durable,
    offset: u64,
}

/// The durable part of a segment.
#[derive(Debug)]
pub(super) struct Extent {
    /// The offset of the next frame.
    pub(super) end: u64,
    /// The chain behind its last frame.
    pub(super) last: Durable,
    /// Whether it is complete.
    pub(super) closed: bool,
    marks: Vec<Mark>,
}

impl Extent {
    fn new(before: &Durable) -> Self {
        Self { end: HEADER_BYTES, last: *before, closed: false, marks: Vec::new() }
    }

    /// Extends the end by a frame of this many bytes.
    fn extend(&mut self, bytes: u64, last: Durable) {
        let due = match self.marks.last() {
            // A large frame begins a chunk of its own.
            Some(mark) => self.end.saturating_sub(mark.offset).max(bytes) >= MARK_EVERY_BYTES,
            None => true,
        };
        if due {
            self.marks.push(Mark { before: self.last, offset: self.end });
        }
        self.end = self.end.saturating_add(bytes);
        self.last = last;
    }
}

/// One file of the write-ahead log.
pub(super) struct Segment {
    /// The chain before its first frame.
    pub(super) before: Durable,
    pub(super) file: Arc<dyn File>,
    pub(super) extent: RwLock<Extent>,
}

impl Segment {
    fn new(before: Durable, file: Arc<dyn File>, extent: Extent) -> Arc<Self> {
        Arc::new(Self { before, file, extent: RwLock::new(extent) })
    }

    /// The end of the segment, if it is complete.
    pub(super) fn closed_at(&self) -> Option<Durable> {
        let extent = self.extent.read();
        extent.closed.then_some(extent.last)
    }

    /// Bytes of durable frames.
    pub(super) fn frame_bytes(&self) -> u64 {
        self.extent.read().end.saturating_sub(HEADER_BYTES)
    }

    /// About `limit` bytes of frames from the one that holds `from`, or a few before it.
    fn chunk(&self, from: u64, limit: u64) -> Result<Chunk, Error> {
        let (mark, end) = {
            let extent = self.extent.read();
            let behind = extent.marks.partition_point(|mark| mark.before.sequence < from);
            let Some(mark) = behind.checked_sub(1).and_then(|at| extent.marks.get(at)) else {
                return Ok(Chunk::empty(self.before, self.file.path()));
            };
            (*mark, extent.end)
        };
        let available = end.saturating_sub(mark.offset);
        let mut bytes = self.bytes(mark.offset, available.min(limit))?;
        if let Parsed::NeedMore(whole) = frame::parse(&bytes) {
            bytes = self.bytes(mark.offset, available.min(whole as u64))?;
        }
        Ok(Chunk {
            before: mark.before,
            bytes,
            file: self.file.path().to_path_buf(),
            offset: Some(mark.offset),
            through: None,
        })
    }

    fn bytes(&self, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = self.file.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// The segments, oldest first; the last one is active.
pub(super) struct Wal {
    directory: PathBuf,
    segments: RwLock<VecDeque<Arc<Segment>>>,
}

impl Wal {
    pub(super) fn new(directory: PathBuf, segments: VecDeque<Arc<Segment>>) -> Self {
        Self { directory, segments: RwLock::new(segments) }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The present segments.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().iter().cloned().collect()
    }

    /// About `limit` bytes of frames of one segment, from the one that holds `from`; none if the log begins later.
    pub(super) fn chunk(&self, from: u64, limit: u64) -> Result<Option<Chunk>, Error> {
        let segment = {
            let held = self.segments.read();
            let behind = held.partition_point(|segment| segment.before.sequence < from);
            behind.checked_sub(1).and_then(|at| held.get(at)).cloned()
        };
        segment.map(|segment| segment.chunk(from, limit)).transpose()
    }

    /// Whether a complete segment ends at this position.
    pub(super) fn has_segment_end(&self, end: &Durable) -> bool {
        let held = self.segments.read();
        held.iter().any(|segment| segment.closed_at() == Some(*end))
    }

    /// Removes the complete segments that end at `sequence` or before.
    pub(super) fn release(&self, disk: &dyn Disk, sequence: u64) -> Result<(), Error> {
        let mut removed = Vec::new();
        {
            let mut held = self.segments.write();
            while let Some(segment) = held.front() {
                let extent = segment.extent.read();
                if !extent.closed || extent.last.sequence > sequence {
                    break;
                }
                drop(extent);
                removed.extend(held.pop_front());
            }
        }
        if removed.is_empty() {
            return Ok(());
        }
        for segment in removed {
            disk.remove_file(segment.file.path())?;
        }
        disk.sync_directory(&self.directory)
    }
}
