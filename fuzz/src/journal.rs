//! Data directories with foreign changes: to the write-ahead log, the anchor, seals, snapshots.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use arbitrary::{Arbitrary as _, Unstructured};
use quota_journal::{
    Batch, FileJournal, FileReader, Journal as _, Offline, Options, Reader as _, StoredBatch,
    disk::Disk, simulation::SimDisk,
};
use quota_semantics::{Span, Timestamp};

const DIRECTORY: &str = "/data";

/// The file with the last acknowledged position.
const ANCHOR: &str = "anchor";

/// Changes files of an intact ledger as the input describes, and opens it. Opening fails, or the ledger holds the
/// appended entries; all of them, as long as the anchor is intact. The deep check finds no damage in a ledger that
/// opens without repairs.
pub fn run(data: &[u8]) {
    let whole = whole();
    let disk = whole.disk.copy();
    let mut input = Unstructured::new(data);
    let mut touched = Vec::new();
    while !input.is_empty() && touched.len() < 8 {
        let Ok(change) = Change::arbitrary(&mut input) else {
            break;
        };
        touched.extend(change.make(&disk, &whole.files));
    }
    let is_noted = !touched.iter().any(|path| path.ends_with(ANCHOR));
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let _ = quota_journal::verify(disk.clone(), Path::new(DIRECTORY), None, 1, &());
    if let Ok(Offline::Data(data)) = Offline::open(disk.clone(), Path::new(DIRECTORY), None) {
        holds(data.reader(), &whole.batches, is_noted);
    }
    if let Ok((journal, reader, _)) = FileJournal::open(disk, Path::new(DIRECTORY), options()) {
        holds(&reader, &whole.batches, is_noted);
        drop(journal);
    }
}

fn holds(reader: &FileReader, appended: &[StoredBatch], is_noted: bool) {
    let mut last = 0;
    for read in reader.read(0) {
        // Damage in a sealed epoch may be found as late as here; no batches follow it.
        let Ok(batch) = read else {
            return;
        };
        let meant =
            appended.iter().find(|meant| meant.batch.first_sequence == batch.batch.first_sequence);
        assert_eq!(Some(&batch), meant, "something else was read");
        assert!(batch.computed_hash() == batch.hash, "a broken chain was read");
        last = batch.batch.last_sequence();
    }
    assert_eq!(last, reader.durable().sequence);
    let end = appended.last().map_or(0, |last| last.batch.last_sequence());
    assert!(!is_noted || last == end, "it was opened with {last} of {end} entries");
}

/// A change of a file.
#[derive(Debug)]
enum Change {
    Flip {
        file: u8,
        offset: u16,
        mask: u8,
    },
    Write {
        file: u8,
        offset: u16,
        bytes: Vec<u8>,
    },
    Cut {
        file: u8,
        length: u16,
    },
    Remove {
        file: u8,
    },
    /// A part of one file is copied into another.
    Copy {
        file: u8,
        offset: u16,
        from: u8,
        begin: u16,
        length: u16,
    },
}

impl<'a> arbitrary::Arbitrary<'a> for Change {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let (kind, file) = (u8::arbitrary(input)?, u8::arbitrary(input)?);
        let offset = u16::arbitrary(input)?;
        Ok(match kind % 8 {
            0..=2 => Self::Flip { file, offset, mask: u8::arbitrary(input)? },
            3 => {
                let length = usize::from(u16::arbitrary(input)?).min(input.len());
                Self::Write { file, offset, bytes: input.bytes(length)?.to_vec() }
            }
            4 | 5 => Self::Cut { file, length: offset },
            6 => Self::Remove { file },
            _ => Self::Copy {
                file,
                offset,
                from: u8::arbitrary(input)?,
                begin: u16::arbitrary(input)?,
                length: u16::arbitrary(input)?,
            },
        })
    }
}

impl Change {
    /// Makes the change, and returns the changed file; none if nothing changes.
    fn make(&self, disk: &SimDisk, files: &[PathBuf]) -> Option<PathBuf> {
        let pick = |which: &u8| &files[usize::from(*which) % files.len()];
        let content = |path: &Path| disk.read(path, usize::MAX).unwrap().unwrap_or_default();
        let (Self::Flip { file, .. }
        | Self::Write { file, .. }
        | Self::Cut { file, .. }
        | Self::Remove { file }
        | Self::Copy { file, .. }) = self;
        let path = pick(file);
        let before = content(path);
        let mut after = before.clone();
        match self {
            Self::Remove { .. } => {
                let _ = disk.remove_file(path);
                return Some(path.clone());
            }
            Self::Flip { offset, mask, .. } => {
                *after.get_mut(usize::from(*offset))? ^= mask;
            }
            Self::Write { offset, bytes, .. } => put(&mut after, usize::from(*offset), bytes),
            Self::Cut { length, .. } => after.truncate(usize::from(*length)),
            Self::Copy { offset, from, begin, length, .. } => {
                let source = content(pick(from));
                let begin = usize::from(*begin).min(source.len());
                let end = source.len().min(begin + usize::from(*length));
                put(&mut after, usize::from(*offset), &source[begin..end]);
            }
        }
        if after == before {
            return None;
        }
        let file = disk.create(path).unwrap();
        file.write_at(&after, 0).unwrap();
        Some(path.clone())
    }
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    into.resize(into.len().max(end), 0);
    into[offset..end].copy_from_slice(bytes);
}

/// A ledger as it was appended.
struct Whole {
    disk: SimDisk,
    files: Vec<PathBuf>,
    batches: Vec<StoredBatch>,
}

fn options() -> Options {
    Options { segment_bytes: 4096, epoch_bytes: 8192, background: false, ..Options::default() }
}

fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let disk = SimDisk::new(1);
        let opened = FileJournal::open(Arc::new(disk.clone()), Path::new(DIRECTORY), options());
        let (mut journal, reader, _) = opened.unwrap();
        for number in 0_u32..60 {
            let first_sequence = reader.durable().sequence + 1;
            journal
                .append(Batch {
                    first_sequence,
                    count: 1 + number % 3,
                    time: Timestamp::EPOCH.plus(Span::from_seconds(i64::from(number))),
                    payload: vec![number as u8; 40 + usize::try_from(number).unwrap() * 5],
                })
                .unwrap();
            let durable = journal.sync().unwrap();
            while journal.work().unwrap() {}
            if number == 30 {
                let mut writer = reader.snapshots().create(durable).unwrap();
                std::io::Write::write_all(&mut writer, b"a snapshot of something").unwrap();
                writer.finish().unwrap();
            }
        }
        let batches = reader.read(0).map(Result::unwrap).collect();
        journal.close().unwrap();
        drop(reader);
        let mut files = Vec::new();
        collect(&disk, Path::new(DIRECTORY), &mut files);
        Whole { disk, files, batches }
    })
}

fn collect(disk: &SimDisk, directory: &Path, files: &mut Vec<PathBuf>) {
    for listed in disk.list(directory).unwrap() {
        let path = directory.join(&listed.name);
        match listed.is_directory {
            true => collect(disk, &path, files),
            false => files.push(path),
        }
    }
}
