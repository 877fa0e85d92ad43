//! Backups: a ledger as one stream of bytes, and its restore to a data directory.
//!
//! ```text
//! record QLK   position of the chain before the first batch, position behind the last one, first
//!              archived sequence (0: none)
//! frames       the batches between the two, as in the write-ahead log
//! snapshots    as in their files: record QLN, content
//! record QLO   position behind the last batch, number of snapshots
//! ```
//!
//! A backup holds the content of the data directory at its beginning; appends go on meanwhile, and compaction waits. A
//! restore checks everything against the chain before it is installed. A truncated stream is detected, since it has no
//! final record.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Archive, Batch, Damage, Durable, Error, FileJournal, FileReader, Hash, Journal as _, Operation,
    Options, Reader as _,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::Disk,
    frame::{self, Parsed},
    positions::{self, Base},
    snapshot::{self, SnapshotInfo, SnapshotReader, Snapshots},
};

const HEAD: [u8; 3] = *b"QLK";
const FOOT: [u8; 3] = *b"QLO";
const HEAD_BYTES: usize = record_bytes(2 * POSITION_BYTES + 8);
const FOOT_BYTES: usize = record_bytes(POSITION_BYTES + 8);

/// Bytes of batches that are made durable together.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a snapshot's content that are copied at a time.
const STEP_BYTES: usize = 256 * 1024;

/// The content of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedUp {
    /// Sequence of its first entry; in a backup without entries, of the next one.
    pub first_sequence: u64,
    /// Its last entry.
    pub last: Durable,
    /// The number of snapshots in it.
    pub snapshots: u64,
}

/// Writes a backup of the data directory of an open journal: its batches, each checked against the chain, and its
/// snapshots, except damaged ones. Nothing is compacted before the backup has ended.
///
/// # Errors
/// [`Error::Damaged`] if the ledger is damaged; [`Error::Io`] if the ledger cannot be read, or the output not written.
pub fn write_backup(reader: &FileReader, output: &mut dyn Write) -> Result<BackedUp, Error> {
    let _held = reader.hold_compaction();
    let (begin, end) = (reader.base(), reader.durable());
    let base = begin.position;
    let opened = open_snapshots(&reader.snapshots(), &base, &end)?;
    let mut put = |bytes: &[u8]| {
        let written = output.write_all(bytes);
        written.map_err(|source| Error::io("the backup", Operation::Write, source))
    };
    let head = Record::new(HEAD).position(&base).position(&end);
    put(&head.u64(begin.archived_from.unwrap_or(0)).finish())?;
    let mut batches = reader.batches(base.sequence.saturating_add(1));
    let mut position = base;
    let mut frame = Vec::new();
    while position.sequence < end.sequence {
        let Some(batch) = batches.next_batch() else {
            break;
        };
        let stored = batch?.to_stored();
        frame.clear();
        position = Durable {
            sequence: stored.batch.last_sequence(),
            hash: frame::encode(&stored.batch, &position.hash, false, &mut frame),
            time: stored.batch.time,
        };
        put(&frame)?;
    }
    if position != end {
        let why = format!("the chain does not lead to sequence {}", end.sequence);
        return Err(damage(reader.directory(), position.sequence, why));
    }
    let mut snapshots = 0;
    for (info, mut content) in opened {
        if content.verify(&info)?.is_some() {
            continue;
        }
        put(&snapshot::header(&info))?;
        let mut buffer = vec![0; STEP_BYTES];
        loop {
            let read = content.read(&mut buffer);
            let read = read.map_err(|source| Error::io(&info.path, Operation::Read, source))?;
            if read == 0 {
                break;
            }
            put(&buffer[..read])?;
        }
        snapshots += 1;
    }
    if snapshots == 0 && base.sequence > 0 {
        let why = "there is no snapshot that the entries can be folded upon".to_owned();
        let directory = reader.snapshots().directory().to_path_buf();
        return Err(damage(&directory, base.sequence, why));
    }
    put(&Record::new(FOOT).position(&end).u64(snapshots).finish())?;
    output.flush().map_err(|source| Error::io("the backup", Operation::Write, source))?;
    Ok(BackedUp { first_sequence: base.sequence.saturating_add(1), last: end, snapshots })
}

/// The snapshots between the beginning and the end. They are opened first, so that thinning cannot remove them from the
/// backup.
fn open_snapshots(
    from: &Snapshots,
    base: &Durable,
    end: &Durable,
) -> Result<Vec<(SnapshotInfo, SnapshotReader)>, Error> {
    let (mut found, _) = from.list()?;
    found.retain(|info| (base.sequence..=end.sequence).contains(&info.position.sequence));
    let mut opened = Vec::new();
    for info in found {
        match from.open(&info) {
            Ok(content) => opened.push((info, content)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(opened)
}

/// Restores a data directory from a backup. `name` is the place of the backup in errors. The directory must not exist,
/// or be empty. After an error the partial directory is left.
///
/// # Errors
/// [`Error::Damaged`] with the offset in the backup, if it is incomplete or damaged; [`Error::Io`].
pub fn read_backup(
    input: &mut dyn Read,
    name: &Path,
    disk: Arc<dyn Disk>,
    directory: &Path,
) -> Result<BackedUp, Error> {
    let mut input = Input { input, offset: 0, name: name.to_path_buf() };
    let head = input.record(HEAD, HEAD_BYTES)?;
    let mut fields = open_record(HEAD, &head).map_err(|why| input.wrong(why))?;
    let (Some(base), Some(end), Some(archived_from)) =
        (fields.position(), fields.position(), fields.u64())
    else {
        return Err(input.wrong("a head that is too short".to_owned()));
    };
    let begin =
        Base { position: base, archived_from: Some(archived_from).filter(|first| *first > 0) };
    let (mut journal, reader, _) = FileJournal::begin(disk, directory, &begin, Options::default())?;
    let mut position = base;
    let mut group = 0_usize;
    while position.sequence < end.sequence {
        let bytes = input.frame()?;
        let batch = match frame::parse(&bytes) {
            Parsed::Complete(frame) => {
                position = frame.follow(&position).map_err(|why| input.wrong(why))?;
                Batch {
                    first_sequence: frame.first_sequence,
                    count: frame.count,
                    time: frame.time,
                    payload: frame.payload.to_vec(),
                }
            }
            Parsed::Corrupt(why) => return Err(input.wrong(why.to_owned())),
            _ => return Err(input.wrong("no frame begins here".to_owned())),
        };
        journal.append(batch)?;
        group = group.saturating_add(bytes.len());
        input.passed(bytes.len());
        if group >= GROUP_BYTES {
            journal.sync()?;
            group = 0;
        }
    }
    let durable = journal.sync()?;
    if (durable, position) != (end, end) {
        let why = format!("the chain does not end as its head says, at {}", end.hash);
        return Err(input.wrong(why));
    }
    let snapshots = input.snapshots(&reader.snapshots(), &base, &end)?;
    journal.close()?;
    Ok(BackedUp { first_sequence: base.sequence.saturating_add(1), last: end, snapshots })
}

/// Makes a restored ledger at rest refer to the archive that it will use, instead of the archive of the ledger that was
/// backed up: to what `archive` holds directly before the first entry, if it holds anything there.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Io`].
pub fn refer_to_archive(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    archive: Option<&Path>,
) -> Result<(), Error> {
    let Some(base) = positions::read_base(disk.as_ref(), directory)? else {
        return Ok(());
    };
    let archived_from = match archive {
        Some(archive) => {
            Archive::open(Arc::clone(disk), archive)?.reaches_back_to(base.position.sequence)
        }
        None => None,
    };
    let referring = Base { archived_from, ..base };
    positions::write_base(disk.as_ref(), directory, &referring)
}

/// A backup being read, and the offset.
struct Input<'a> {
    input: &'a mut dyn Read,
    offset: u64,
    name: PathBuf,
}

impl Input<'_> {
    fn wrong(&self, why: String) -> Error {
        Error::Damaged(Damage::new(&self.name, why).at_offset(self.offset))
    }

    fn passed(&mut self, bytes: usize) {
        self.offset = self.offset.saturating_add(bytes as u64);
    }

    /// Reads into `bytes` until it has this length.
    fn fill(&mut self, bytes: &mut Vec<u8>, length: usize) -> Result<(), Error> {
        let missing = length.saturating_sub(bytes.len()) as u64;
        let read = (&mut *self.input).take(missing).read_to_end(bytes);
        read.map_err(|source| Error::io(&self.name, Operation::Read, source))?;
        if bytes.len() < length {
            return Err(self.wrong("cut off".to_owned()));
        }
        Ok(())
    }

    fn record(&mut self, magic: [u8; 3], length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, length)?;
        open_record(magic, &bytes).map_err(|why| self.wrong(why))?;
        self.passed(length);
        Ok(bytes)
    }

    /// Reads a frame, whose header gives its length.
    fn frame(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, frame::HEADER_BYTES)?;
        if let Parsed::NeedMore(whole) = frame::parse(&bytes) {
            self.fill(&mut bytes, whole)?;
        }
        Ok(bytes)
    }

    /// Restores the snapshots, up to the end of the backup.
    fn snapshots(&mut self, to: &Snapshots, base: &Durable, end: &Durable) -> Result<u64, Error> {
        let mut copied = 0;
        loop {
            let mut bytes = Vec::new();
            self.fill(&mut bytes, FOOT_BYTES)?;
            if bytes.starts_with(&FOOT) {
                let mut fields = open_record(FOOT, &bytes).map_err(|why| self.wrong(why))?;
                if (fields.position(), fields.u64()) != (Some(*end), Some(copied)) {
                    return Err(self.wrong("the end does not say what was before it".to_owned()));
                }
                self.passed(FOOT_BYTES);
                return self.nothing_more().map(|()| copied);
            }
            self.fill(&mut bytes, snapshot::HEADER_BYTES)?;
            let info = snapshot::parse(&bytes, &self.name).map_err(|why| self.wrong(why))?;
            let sequence = info.position.sequence;
            if sequence < base.sequence || sequence > end.sequence {
                return Err(self.wrong(format!("a snapshot of sequence {sequence}")));
            }
            self.passed(bytes.len());
            let content = self.content(to, info.position, info.bytes)?;
            if content != info.content {
                let why = format!("the snapshot of sequence {sequence} does not have its hash");
                return Err(self.wrong(why));
            }
            copied += 1;
        }
    }

    fn content(&mut self, to: &Snapshots, at: Durable, length: u64) -> Result<Hash, Error> {
        let mut output = to.create(at)?;
        let mut left = length;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(STEP_BYTES).min(STEP_BYTES);
            let mut bytes = Vec::new();
            self.fill(&mut bytes, step)?;
            let written = output.write_all(&bytes);
            written.map_err(|source| Error::io(&self.name, Operation::CopySnapshot, source))?;
            self.passed(step);
            left = left.saturating_sub(step as u64);
        }
        Ok(output.finish()?.content)
    }

    fn nothing_more(&mut self) -> Result<(), Error> {
        let read = self.input.read(&mut [0]);
        match read.map_err(|source| Error::io(&self.name, Operation::Read, source))? {
            0 => Ok(()),
            _ => Err(self.wrong("there are bytes after the end".to_owned())),
        }
    }
}

fn damage(file: &Path, sequence: u64, why: String) -> Error {
    Error::Damaged(Damage::new(file, why).at_sequence(sequence))
}
