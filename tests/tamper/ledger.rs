//! The ledger that is tampered with, and earlier copies of it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::support::in_memory;
use quota_core::{
    codec::encode_entries,
    event::{Actor, DeadLetter, Entry, Event, Observed, QuotaRecord},
    state::State,
};
use quota_journal::{
    Batch, Durable, FileJournal, FileReader, Journal as _, Options, Reader as _, Retention,
    checkpoint::{self, Checkpoint, PrivateKey},
    disk::RealDisk,
};
use quota_semantics::{
    Span, Timestamp, object::Footprint, quota::Spec, resource::ResourceList, uid::Uid,
};
use tempfile::TempDir;

/// Entries that each stage adds.
const STAGE: u64 = 70;

/// Stages; after each the ledger is closed and copied.
const STAGES: u64 = 4;

/// Entries of a batch.
const BATCH: u64 = 3;

/// Data directory, archive, and file of checkpoints, below the directory of a ledger.
pub(crate) const DATA: &str = "data";
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const CHECKPOINTS: &str = "checkpoints";
pub(crate) const PUBLIC_KEY: &str = "key.pub";

/// A ledger, and what is true of it.
pub(crate) struct Ledger {
    _home: TempDir,
    /// As it is.
    pub(crate) directory: PathBuf,
    /// As it was, oldest first.
    pub(crate) earlier: Vec<PathBuf>,
    pub(crate) durable: Durable,
    pub(crate) digest: [u8; 32],
    /// Sequence and hash at the end of each batch.
    pub(crate) chain: Vec<(u64, quota_journal::Hash)>,
    pub(crate) checkpoint: Checkpoint,
}

pub(crate) fn options(directory: &Path) -> Options {
    Options {
        segment_bytes: 4096,
        epoch_bytes: 6000,
        archive: Some(directory.join(ARCHIVE)),
        background: false,
        ..Options::default()
    }
}

fn time(sequence: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(sequence.cast_signed()))
}

fn amounts(units: u64) -> ResourceList {
    [("requests.example.com/units".into(), units.to_string().parse().unwrap())]
        .into_iter()
        .collect()
}

fn event(sequence: u64) -> Event {
    let uid = |text: String| Uid::new(&text).unwrap();
    match sequence % 4 {
        1 if sequence < 20 => Event::QuotaSet(Arc::new(QuotaRecord {
            namespace: "team-a".into(),
            name: format!("q{sequence}").into(),
            uid: uid(format!("quota-{sequence}")),
            created: time(sequence),
            spec: Spec { hard: amounts(1000), ..Spec::default() },
            metadata: "".into(),
        })),
        1 => Event::ObjectDeleted {
            uid: uid(format!("w{}", sequence - 3)),
            namespace: "team-a".into(),
        },
        2 | 3 => Event::ObjectObserved(Box::new(Observed {
            uid: uid(format!("w{sequence}")),
            namespace: "team-a".into(),
            resource: "widgets.example.com".into(),
            name: format!("w{sequence}").into(),
            version: sequence,
            footprint: Footprint { resources: amounts(sequence), ..Footprint::default() },
            lapse: None,
            ends_reservation: false,
        })),
        // Something that does not compress, so that few entries fill an epoch.
        _ => Event::MessageRejected(Box::new(DeadLetter {
            source: "OBJECTS".into(),
            position: sequence,
            reason: "no".into(),
            payload: (0..40)
                .map(|part| blake3_text(sequence * 100 + part))
                .collect::<String>()
                .into(),
        })),
    }
}

fn blake3_text(number: u64) -> String {
    quota_journal::StoredBatch {
        batch: Batch {
            first_sequence: number + 1,
            count: 1,
            time: Timestamp::EPOCH,
            payload: Vec::new(),
        },
        hash: quota_journal::Hash::GENESIS,
        previous: quota_journal::Hash::GENESIS,
    }
    .computed_hash()
    .to_string()[..8]
        .to_owned()
}

/// What is built up, stage by stage.
struct Builder {
    directory: PathBuf,
    state: State,
    chain: Vec<(u64, quota_journal::Hash)>,
    key: PrivateKey,
}

impl Builder {
    fn open(&self) -> (FileJournal, FileReader) {
        let data = self.directory.join(DATA);
        let options = options(&self.directory);
        let (journal, reader, _) = FileJournal::open(Arc::new(RealDisk), &data, options).unwrap();
        (journal, reader)
    }

    fn fill(&mut self, journal: &mut FileJournal, to: u64) -> Durable {
        let mut durable = journal.sync().unwrap();
        while durable.sequence < to {
            let first = durable.sequence + 1;
            let entries: Vec<Entry> = (first..first + BATCH)
                .map(|sequence| Entry {
                    sequence,
                    time: time(sequence),
                    actor: Actor::named("test"),
                    event: event(sequence),
                })
                .collect();
            entries.iter().for_each(|entry| self.state.apply(entry));
            journal
                .append(Batch {
                    first_sequence: first,
                    count: u32::try_from(BATCH).unwrap(),
                    time: time(first + BATCH - 1),
                    payload: encode_entries(&entries),
                })
                .unwrap();
            durable = journal.sync().unwrap();
            self.chain.push((durable.sequence, durable.hash));
            while journal.work().unwrap() {}
        }
        durable
    }

    fn checkpoint(&self, durable: &Durable) -> Checkpoint {
        let checkpoint = Checkpoint::new(self.key.public().name(), durable);
        let file = self.directory.join(CHECKPOINTS);
        let mut text = fs::read_to_string(&file).unwrap_or_default();
        text.push_str(&checkpoint::sign(&checkpoint, &self.key));
        text.push('\n');
        fs::write(file, text).unwrap();
        checkpoint
    }

    /// One stage: entries, a snapshot, compaction, a few entries more.
    fn stage(&mut self, number: u64) -> Durable {
        let (mut journal, reader) = self.open();
        let durable = self.fill(&mut journal, number * STAGE - 20);
        let mut output = reader.snapshots().create(durable).unwrap();
        self.state.image().write(&mut output).unwrap();
        output.finish().unwrap();
        let retention = Retention { max_age: Some(Span::from_seconds(100)), max_bytes: None };
        reader.compact(time(durable.sequence), &retention).unwrap();
        self.fill(&mut journal, number * STAGE);
        let durable = journal.close().unwrap();
        self.checkpoint(&durable);
        durable
    }
}

impl Ledger {
    /// A ledger that was closed in order, or killed.
    pub(crate) fn new(clean: bool) -> Self {
        let home = in_memory();
        let mut builder = Builder {
            directory: home.path().join("now"),
            state: State::default(),
            chain: Vec::new(),
            key: PrivateKey::generate("ledger.example.com").unwrap(),
        };
        fs::create_dir(&builder.directory).unwrap();
        let public = builder.key.public().to_string();
        fs::write(builder.directory.join(PUBLIC_KEY), public).unwrap();
        let mut earlier = Vec::new();
        let mut durable = Durable::NOTHING;
        for number in 1..=STAGES {
            durable = builder.stage(number);
            if number < STAGES || !clean {
                let copy = home.path().join(format!("stage-{number}"));
                copy_directory(&builder.directory, &copy);
                earlier.push(copy);
            }
        }
        if !clean {
            let (mut journal, _reader) = builder.open();
            durable = builder.fill(&mut journal, STAGES * STAGE + 12);
            builder.checkpoint(&durable);
        }
        let made = Self {
            checkpoint: Checkpoint::new(builder.key.public().name(), &durable),
            digest: builder.state.digest(),
            directory: builder.directory,
            chain: builder.chain,
            _home: home,
            earlier,
            durable,
        };
        made.has_everything();
        made
    }

    fn has_everything(&self) {
        let count = |below: &str| fs::read_dir(self.directory.join(below)).unwrap().count();
        assert!(count("data/epochs") > 3, "several sealed epochs, and a live one");
        assert!(count("data/snapshots") > 1 && count(ARCHIVE) > 1);
        let copy = in_memory();
        let directory = copy.path().join("copy");
        copy_directory(&self.directory, &directory);
        let options = options(&directory);
        let (_journal, reader, _) =
            FileJournal::open(Arc::new(RealDisk), &directory.join(DATA), options).unwrap();
        assert!(reader.kept_from() > 1 && reader.first_sequence() == 1);
    }
}

/// The files below a directory, by their paths from there.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
