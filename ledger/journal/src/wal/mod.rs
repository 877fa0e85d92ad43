//! The write-ahead log: the ack path. Segments of a fixed size, filled with zeros ahead of need, so that an append is
//! one write and one fdatasync that changes no metadata.
//!
//! A segment file is named after its first sequence, and begins with a record: the position of the chain before it, and
//! its size. Frames follow, then zeros.

pub(super) mod scan;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use crate::{
    Batch, Durable, Error, MAX_PAYLOAD_BYTES,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File, temporary},
    frame::{self, Parsed},
    reader::Chunk,
};

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

// Appending: frames are gathered in a group; one write and one fdatasync make it durable.

/// Most bytes that one group may have.
const MAX_GROUP_BYTES: usize = 64 * 1024 * 1024;

/// A group's buffer that has grown above this many bytes is freed after use.
const KEPT_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The writing end of the log.
pub(crate) struct Writer {
    active: Option<Active>,
    /// Frames that are not written yet, and per frame its length and the chain behind it.
    group: Vec<u8>,
    frames: Vec<(u64, Durable)>,
    /// Whether a frame may begin within a payload of the group.
    holds_frames: bool,
    /// The chain behind the last frame of the group.
    position: Durable,
    /// The size at which a segment that was not prepared is full.
    segment_bytes: u64,
}

struct Active {
    segment: Arc<Segment>,
    /// The size that it was prepared with; 0 if it grows.
    size: u64,
    /// Whether its header is still to be written, together with its first group.
    fresh: bool,
}

impl Writer {
    /// Continues the log's last segment, whose size is given; without one it begins a new segment at `position`.
    pub(crate) fn new(
        last: Option<(Arc<Segment>, u64)>,
        position: Durable,
        segment_bytes: u64,
    ) -> Self {
        Self {
            active: last.map(|(segment, size)| Active { segment, size, fresh: false }),
            group: Vec::new(),
            frames: Vec::new(),
            holds_frames: false,
            position,
            segment_bytes,
        }
    }

    /// Adds a batch to the group. `is_synced`: whether all earlier writes are synced.
    pub(crate) fn append(&mut self, batch: &Batch, is_synced: bool) -> Result<(), Error> {
        self.check(batch)?;
        let start = self.group.len();
        let begins_group = self.frames.is_empty() && is_synced;
        let hash = frame::encode(batch, &self.position.hash, begins_group, &mut self.group);
        self.position = Durable { sequence: batch.last_sequence(), hash, time: batch.time };
        let bytes = self.group.len().saturating_sub(start) as u64;
        self.frames.push((bytes, self.position));
        self.holds_frames |= frame::may_begin_in(&batch.payload);
        Ok(())
    }

    fn check(&self, batch: &Batch) -> Result<(), Error> {
        let bytes = batch.payload.len();
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(Error::TooLarge { bytes, limit: MAX_PAYLOAD_BYTES });
        }
        let bytes = self.group.len().saturating_add(bytes);
        if bytes.saturating_add(frame::OVERHEAD_BYTES) > MAX_GROUP_BYTES {
            return Err(Error::TooLarge { bytes, limit: MAX_GROUP_BYTES });
        }
        let out_of_order = |why: String| Err(Error::OutOfOrder { why });
        let expected = self.position.sequence.saturating_add(1);
        if batch.first_sequence != expected {
            let found = batch.first_sequence;
            return out_of_order(format!("it begins at {found} where {expected} is next"));
        }
        if batch.count == 0 || expected.checked_add(u64::from(batch.count)).is_none() {
            return out_of_order(format!("it counts {} entries", batch.count));
        }
        if batch.time < self.position.time {
            let (time, last) = (batch.time, self.position.time);
            return out_of_order(format!("its time {time} is before {last}"));
        }
        Ok(())
    }

    /// Whether there is nothing to make durable.
    pub(crate) const fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the group.
    pub(crate) const fn group_bytes(&self) -> u64 {
        self.group.len() as u64
    }

    /// Whether a frame may begin within a payload of the group. Then the headers of the group have to be durable before
    /// its payloads are written.
    pub(crate) const fn holds_frames(&self) -> bool {
        self.holds_frames
    }

    /// The file of the active segment.
    pub(crate) fn file(&self) -> Option<Arc<dyn File>> {
        let active = self.active.as_ref()?;
        Some(Arc::clone(&active.segment.file))
    }

    /// Whether there is an active segment.
    pub(crate) const fn has_segment(&self) -> bool {
        self.active.is_some()
    }

    /// Whether the active segment holds any frame.
    pub(crate) fn has_frames(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.segment.extent.read().end > HEADER_BYTES)
    }

    /// Whether the group needs a new segment.
    pub(crate) fn needs_segment(&self) -> bool {
        let Some(active) = &self.active else {
            return true;
        };
        let end = active.segment.extent.read().end;
        let full = match active.size {
            0 => self.segment_bytes,
            size => size,
        };
        end > HEADER_BYTES && end.saturating_add(self.group.len() as u64) > full
    }

    /// Ends the segment and begins the next one, in the prepared file, or else in one that grows. Only when the log is
    /// durable up to here.
    pub(crate) fn rotate(
        &mut self,
        disk: &dyn Disk,
        log: &Wal,
        prepared: Option<Prepared>,
        durable: Durable,
    ) -> Result<(), Error> {
        let path = path_of(log.directory(), &durable);
        let (file, size) = match prepared {
            Some(prepared) => {
                disk.rename(prepared.file.path(), &path)?;
                (disk.open(&path)?, prepared.size)
            }
            None => (disk.create(&path)?, 0),
        };
        disk.sync_directory(log.directory())?;
        self.close_segment();
        let segment = Segment::new(durable, file, Extent::new(&durable));
        log.segments.write().push_back(Arc::clone(&segment));
        self.active = Some(Active { segment, size, fresh: true });
        Ok(())
    }

    fn close_segment(&mut self) {
        if let Some(active) = self.active.take() {
            active.segment.extent.write().closed = true;
        }
    }

    /// Makes the headers of the group's frames durable, with zeros in place of the rest, before the group is written. A
    /// torn payload is then always behind its header, so what it holds is not taken for frames.
    pub(crate) fn write_headers(&self) -> Result<(), Error> {
        let active = self.active.as_ref().ok_or_else(no_segment)?;
        let mut bytes = self.group.clone();
        let mut rest = bytes.as_mut_slice();
        for (length, _) in &self.frames {
            let length = usize::try_from(*length).unwrap_or(usize::MAX);
            let (frame, behind) = rest.split_at_mut(length.min(rest.len()));
            frame[frame::HEADER_BYTES..].fill(0);
            rest = behind;
        }
        active.write(&bytes)?;
        active.segment.file.sync()
    }

    /// Writes the group, and syncs all writes if `syncs`. Returns the new end. The caller publishes it before readers
    /// can reach the frames: they read published frames only.
    pub(crate) fn commit(
        &mut self,
        syncs: bool,
        publish: impl FnOnce(Durable),
    ) -> Result<Durable, Error> {
        let active = self.active.as_mut().ok_or_else(no_segment)?;
        active.write(&self.group)?;
        if syncs {
            active.segment.file.sync()?;
        }
        active.fresh = false;
        let mut extent = active.segment.extent.write();
        for (bytes, last) in self.frames.drain(..) {
            extent.extend(bytes, last);
        }
        publish(self.position);
        drop(extent);
        self.holds_frames = false;
        self.group.clear();
        self.group.shrink_to(KEPT_BUFFER_BYTES);
        Ok(self.position)
    }
}

impl Active {
    /// Writes frames behind the last one, in a new segment behind its header.
    fn write(&self, frames: &[u8]) -> Result<(), Error> {
        let file = &self.segment.file;
        if !self.fresh {
            return file.write_at(frames, self.segment.extent.read().end);
        }
        let mut bytes = header(&self.segment.before, self.size);
        bytes.extend_from_slice(frames);
        file.write_at(&bytes, 0)
    }
}

fn no_segment() -> Error {
    Error::OutOfOrder { why: "there is no segment to write to".to_owned() }
}

/// Bytes written and synced at a time, so that a sync on the ack path never waits for a whole segment.
const STEP_BYTES: u64 = 1024 * 1024;

/// A file full of durable zeros.
pub(crate) struct Prepared {
    file: Arc<dyn File>,
    size: u64,
}

/// Prepares a segment of `size` bytes under a temporary name.
pub(crate) fn prepare(disk: &dyn Disk, directory: &Path, size: u64) -> Result<Prepared, Error> {
    let path = temporary(&directory.join("next"));
    let file = disk.create(&path)?;
    match fill(file.as_ref(), size) {
        Ok(()) => Ok(Prepared { file, size }),
        Err(error) => {
            // Without enough space it should not take the rest.
            disk.remove_file(&path)?;
            Err(error)
        }
    }
}

fn fill(file: &dyn File, size: u64) -> Result<(), Error> {
    let mut offset = 0;
    while offset < size {
        let left = size.saturating_sub(offset).min(STEP_BYTES);
        let step = usize::try_from(left).unwrap_or(0);
        file.zero_at(step, offset)?;
        file.sync()?;
        offset = offset.saturating_add(left);
    }
    Ok(())
}
