//! Snapshots: a stored state, so that replay need not start at the beginning. Files of their own,
//! `snapshots/SEQUENCE.snapshot`: a record with position, length and BLAKE3 hash of the content, then the content,
//! which the journal does not interpret. The content is `quota_core::state::Image`.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Damage, Durable, Error, Hash, Operation,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Disk, File, temporary},
    journal::Throttle,
};

/// Compaction keeps the entries needed for a replay from the oldest of this many newest snapshots, so that one damaged
/// snapshot does no harm.
pub(super) const SNAPSHOTS_NEEDED: usize = 2;

/// Directory of the snapshots, in the data directory.
pub(super) const DIRECTORY: &str = "snapshots";

const MAGIC: [u8; 3] = *b"QLN";
const ENDING: &str = ".snapshot";
pub(super) const HEADER_BYTES: usize = record_bytes(POSITION_BYTES + 8 + 32);

/// Buffer for writing and reading a snapshot, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes written between two syncs: a large snapshot must not delay the syncs of the write-ahead log.
const STEP_BYTES: u64 = 1024 * 1024;

/// The header of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last entry that it holds, the chain hash there, and the ledger time.
    pub position: Durable,
    /// Length of the content in bytes.
    pub bytes: u64,
    /// BLAKE3 of the content.
    pub content: Hash,
    /// Its file.
    pub path: PathBuf,
}

/// The snapshots of a data directory. Cheap to clone; usable from any thread while the journal is
/// written to.
#[derive(Clone)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    throttle: Throttle,
}

impl Snapshots {
    pub(super) fn new(disk: Arc<dyn Disk>, data: &Path, throttle: Throttle) -> Self {
        Self { disk, directory: data.join(DIRECTORY), throttle }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins a snapshot of the state at `position`, which has to be durable and the end of a batch. The content is
    /// written to the result; the snapshot is installed by [`SnapshotWriter::finish`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(&self, position: Durable) -> Result<SnapshotWriter, Error> {
        let name = format!("{:020}{ENDING}", position.sequence);
        let path = self.directory.join(name);
        let file = self.disk.create(&temporary(&path))?;
        Ok(SnapshotWriter {
            disk: Arc::clone(&self.disk),
            file,
            is_installed: false,
            hasher: blake3::Hasher::new(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            throttle: self.throttle.clone(),
            info: SnapshotInfo { position, bytes: 0, content: Hash::GENESIS, path },
        })
    }

    /// The snapshots with readable headers, oldest first, and the damage to the others.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn list(&self) -> Result<(Vec<SnapshotInfo>, Vec<Damage>), Error> {
        let mut found = Vec::new();
        let mut damaged = Vec::new();
        for listed in self.disk.list(&self.directory)? {
            let Some(digits) = listed.name.strip_suffix(ENDING) else {
                continue;
            };
            let path = self.directory.join(&listed.name);
            match self.header(&path, listed.length) {
                Ok(info) if digits.parse() == Ok(info.position.sequence) => found.push(info),
                Ok(info) => damaged.push(Damage::new(
                    &path,
                    format!("it holds sequence {}", info.position.sequence),
                )),
                Err(Error::Damaged(damage)) => damaged.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok((found, damaged))
    }

    fn header(&self, path: &Path, length: u64) -> Result<SnapshotInfo, Error> {
        let bytes = self.disk.read(path, HEADER_BYTES)?.unwrap_or_default();
        let header = parse(&bytes, path).and_then(|info| {
            let expected = info.bytes.saturating_add(HEADER_BYTES as u64);
            if expected == length {
                Ok(info)
            } else {
                Err(format!("{length} bytes long instead of {expected}"))
            }
        });
        header.map_err(|why| Damage::new(path, why).into())
    }

    /// Reads the whole content and compares its hash. Returns nothing if the hash is right, otherwise the damage.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn verify(&self, info: &SnapshotInfo) -> Result<Option<Damage>, Error> {
        self.verify_with(info, &Throttle::default())
    }

    /// As [`Snapshots::verify`], throttled: for background work.
    pub(super) fn verify_at_leisure(&self, info: &SnapshotInfo) -> Result<Option<Damage>, Error> {
        self.verify_with(info, &self.throttle)
    }

    fn verify_with(
        &self,
        info: &SnapshotInfo,
        throttle: &Throttle,
    ) -> Result<Option<Damage>, Error> {
        let file = self.disk.open(&info.path)?;
        match content_is_right(file.as_ref(), info, throttle) {
            Err(Error::Damaged(unreadable)) => Ok(Some(unreadable)),
            right => right,
        }
    }

    /// Opens the content for reading. It should have been verified before.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(&self, info: &SnapshotInfo) -> Result<SnapshotReader, Error> {
        Ok(SnapshotReader {
            file: self.disk.open(&info.path)?,
            offset: HEADER_BYTES as u64,
            left: info.bytes,
            buffer: Vec::new(),
            taken: 0,
        })
    }

    /// Makes the snapshots durable as they were read: after a kill they may never have reached the disk.
    pub(super) fn sync(&self, info: &SnapshotInfo) -> Result<(), Error> {
        self.disk.open(&info.path)?.sync()
    }

    /// Removes surplus snapshots: the newest `keep` stay (at least the two that compaction needs), and of the older
    /// ones one in each span of distances from the newest that is four times as long as the span before it. Returns the
    /// number of removed snapshots.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn thin(&self, keep: usize) -> Result<usize, Error> {
        let (found, _) = self.list()?;
        let sequences: Vec<u64> = found.iter().map(|info| info.position.sequence).collect();
        let surplus = surplus(&sequences, keep.max(SNAPSHOTS_NEEDED));
        for info in &found {
            if surplus.contains(&info.position.sequence) {
                self.disk.remove_file(&info.path)?;
            }
        }
        if !surplus.is_empty() {
            self.disk.sync_directory(&self.directory)?;
        }
        Ok(surplus.len())
    }

    pub(super) fn remove(&self, info: &SnapshotInfo) -> Result<(), Error> {
        self.disk.remove_file(&info.path)?;
        self.disk.sync_directory(&self.directory)
    }
}

/// The surplus ones of the snapshots at these sequences (ascending). The newest `keep` stay. Of the older ones one
/// stays, the oldest, in each span of distances from the newest that is four times as long as the one before it: recent
/// times can be reached by a short replay, earlier ones by a longer one, and there are never more than about thirty
/// snapshots.
pub(super) fn surplus(sequences: &[u64], keep: usize) -> Vec<u64> {
    let Some(newest) = sequences.last() else {
        return Vec::new();
    };
    let older = &sequences[..sequences.len().saturating_sub(keep)];
    let mut last_span = None;
    let mut surplus = Vec::new();
    for sequence in older {
        let span = newest.saturating_sub(*sequence).max(1).ilog2() / 2;
        if last_span == Some(span) {
            surplus.push(*sequence);
        }
        last_span = Some(span);
    }
    surplus
}

pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<SnapshotInfo, String> {
    let mut fields = open_record(MAGIC, bytes)?;
    match (fields.position(), fields.u64(), fields.hash()) {
        (Some(position), Some(bytes), Some(content)) => {
            Ok(SnapshotInfo { position, bytes, content, path: path.to_path_buf() })
        }
        _ => Err("a snapshot header that is too short".to_owned()),
    }
}

fn content_is_right(
    file: &dyn File,
    info: &SnapshotInfo,
    throttle: &Throttle,
) -> Result<Option<Damage>, Error> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut offset = HEADER_BYTES as u64;
    loop {
        let read = file.read_at(&mut buffer, offset)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        offset = offset.saturating_add(read as u64);
        throttle.pause();
    }
    let wrong = Hash::from(hasher.finalize()) != info.content;
    Ok(wrong.then(|| Damage::new(&info.path, "the content does not have its hash")))
}

/// Writes the content of a snapshot to a temporary file, which is removed unless [`SnapshotWriter::finish`] installs it.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    is_installed: bool,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    throttle: Throttle,
    info: SnapshotInfo,
}

impl SnapshotWriter {
    /// The final path of the snapshot.
    pub fn path(&self) -> &Path {
        &self.info.path
    }

    /// Installs the snapshot, durably.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<SnapshotInfo, Error> {
        self.drain()?;
        self.info.content = self.hasher.finalize().into();
        self.file.write_at(&header(&self.info), 0)?;
        self.file.sync()?;
        let path = &self.info.path;
        self.disk.rename(&temporary(path), path)?;
        self.is_installed = true;
        self.disk.sync_directory(super::disk::parent(path))?;
        Ok(self.info.clone())
    }

    fn drain(&mut self) -> Result<(), Error> {
        let offset = self.info.bytes.saturating_add(HEADER_BYTES as u64);
        self.file.write_at(&self.buffer, offset)?;
        self.hasher.update(&self.buffer);
        let steps = self.info.bytes / STEP_BYTES;
        self.info.bytes = self.info.bytes.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        if self.info.bytes / STEP_BYTES > steps {
            self.file.sync()?;
            self.leaves_room()?;
        }
        Ok(())
    }

    /// The snapshot must not take the room that the write-ahead log needs meanwhile: at most as much as it leaves.
    fn leaves_room(&self) -> Result<(), Error> {
        let directory = super::disk::parent(&self.info.path);
        match self.disk.free_space(directory)? < self.info.bytes {
            true => {
                let source = io::ErrorKind::StorageFull.into();
                Err(Error::io(&self.info.path, Operation::Write, source))
            }
            false => Ok(()),
        }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.is_installed {
            // The next open removes a file that cannot be removed now.
            let _ = self.disk.remove_file(&temporary(&self.info.path));
        }
    }
}

/// The error for a caller that writes the content, of the same kind.
fn to_io(error: Error) -> io::Error {
    let kind = match &error {
        Error::Io { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(super) fn header(info: &SnapshotInfo) -> Vec<u8> {
    Record::new(MAGIC).position(&info.position).u64(info.bytes).hash(&info.content).finish()
}

impl Write for SnapshotWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BUFFER_BYTES.saturating_sub(self.buffer.len());
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() >= BUFFER_BYTES {
            self.drain().map_err(to_io)?;
        }
        // The piece has been encoded, or hashed and written.
        self.throttle.pause();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain().map_err(to_io)
    }
}

/// The content of a snapshot.
pub struct SnapshotReader {
    file: Arc<dyn File>,
    offset: u64,
    left: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl SnapshotReader {
    /// As [`Snapshots::verify`], also if the file was removed since.
    pub(super) fn verify(&self, info: &SnapshotInfo) -> Result<Option<Damage>, Error> {
        content_is_right(self.file.as_ref(), info, &Throttle::default())
    }
}

impl Read for SnapshotReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.buffer.len() {
            let length = self.left.min(BUFFER_BYTES as u64);
            self.buffer.resize(usize::try_from(length).unwrap_or(0), 0);
            self.taken = 0;
            let read =
                self.file.read_at(&mut self.buffer, self.offset).map_err(io::Error::other)?;
            self.buffer.truncate(read);
            self.offset = self.offset.saturating_add(read as u64);
            self.left = self.left.saturating_sub(read as u64);
        }
        let available = &self.buffer[self.taken..];
        let taken = available.len().min(bytes.len());
        bytes[..taken].copy_from_slice(&available[..taken]);
        self.taken += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
