//! Ledgers of any size, made with the core alone.

use std::{path::Path, sync::Arc};

use quota_core::{
    codec,
    event::{Entry, Event},
    state::State,
};
use quota_journal::{Batch, FileJournal, FileReader, Journal as _, Options, disk::RealDisk};
use quota_ledger::replay;
use quota_semantics::resource::ResourceList;

use crate::support::world::{self, compute, footprint, list, namespace, uid};

/// What a ledger holds.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub namespaces: u64,
    pub quotas_per_namespace: usize,
    /// Objects that are there at the end.
    pub live: u64,
    /// Entries about objects: those beyond `live` delete the oldest object and bring a new one in turn.
    pub changes: u64,
}

/// Entries of a batch, as of a busy daemon.
const BATCH: usize = 1024;

/// Batches that are made durable at a time.
const GROUP: usize = 16;

impl Shape {
    /// Its entries, in order.
    pub fn entries(self) -> impl Iterator<Item = Entry> {
        world::entries(self.events())
    }

    fn events(self) -> impl Iterator<Item = Event> {
        self.quotas().chain(self.objects())
    }

    fn quotas(self) -> impl Iterator<Item = Event> {
        (0..self.namespaces).flat_map(move |number| {
            let quota = move |(index, (name, hard)): (usize, (&str, ResourceList))| {
                let uid = uid(1 << 48 | number << 3 | index as u64);
                world::quota(namespace(number, self.namespaces), name, uid, hard)
            };
            let quotas = hards().into_iter().enumerate();
            quotas.take(self.quotas_per_namespace).map(quota)
        })
    }

    fn objects(self) -> impl Iterator<Item = Event> {
        let footprints: Vec<_> = (0..50).map(footprint).collect();
        (0..self.changes).map(move |change| {
            let beyond = change.saturating_sub(self.live);
            if change >= self.live && beyond % 2 == 0 {
                let oldest = beyond / 2;
                return Event::ObjectDeleted {
                    uid: uid(oldest),
                    namespace: namespace(oldest, self.namespaces),
                };
            }
            let number = change.min(self.live + beyond / 2);
            let namespace = namespace(number, self.namespaces);
            let name = format!("web-5d4f8c7b9-{number:08}");
            let footprint = footprints[usize::try_from(number % 50).unwrap_or(0)].clone();
            world::pod(uid(number), namespace, name, change + 1, footprint)
        })
    }

    /// Writes it into `data` of a directory, with a snapshot of its end.
    pub fn write(self, directory: &Path) {
        self.write_with(directory, std::iter::empty());
    }

    /// The same with other events before.
    pub fn write_with(self, directory: &Path, before: impl Iterator<Item = Event>) {
        write(directory, world::entries(before.chain(self.events())));
    }
}

/// Writes a ledger of these entries into `data` of a directory, with a snapshot of its end.
pub fn write(directory: &Path, mut entries: impl Iterator<Item = Entry>) {
    let (mut journal, reader) = open(directory);
    let mut state = State::default();
    let mut group = 0;
    loop {
        let batch: Vec<_> = entries.by_ref().take(BATCH).collect();
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            break;
        };
        let stored = Batch {
            first_sequence: first.sequence,
            count: u32::try_from(batch.len()).unwrap_or(u32::MAX),
            time: last.time,
            payload: codec::encode_entries(&batch),
        };
        journal.append(stored).expect("in order");
        group += 1;
        if group % GROUP == 0 {
            journal.sync().expect("the disk works");
        }
        for entry in &batch {
            state.apply(entry);
        }
    }
    let durable = journal.sync().expect("the disk works");
    let stored = replay::store(&reader.snapshots(), &state.image(), durable, 1);
    stored.expect("there is room");
    journal.close().expect("the disk works");
}

/// The ledger in `data` of a directory.
pub fn open(directory: &Path) -> (FileJournal, FileReader) {
    let options = Options::default();
    let opened = FileJournal::open(Arc::new(RealDisk), &directory.join("data"), options);
    let (journal, reader, _) = opened.expect("it can be written to");
    (journal, reader)
}

/// What the quotas of a namespace limit, as an operator would set them apart.
fn hards() -> [(&'static str, ResourceList); 4] {
    [
        ("compute", compute()),
        ("objects", list(&[("count/configmaps", "10M"), ("count/secrets", "10M")])),
        ("storage", list(&[("requests.storage", "10Pi"), ("persistentvolumeclaims", "10M")])),
        ("limits", list(&[("limits.cpu", "10M"), ("limits.memory", "10Pi")])),
    ]
}
