//! Ledgers of any size, made with the core alone.

use std::{path::Path, sync::Arc};

use quota_ledger::{
    Name, Timestamp, codec,
    event::{Actor, Entry, Event, Observed, QuotaRecord},
    journal::{Batch, FileJournal, Journal as _, Options, disk::RealDisk},
    object::{Footprint, Traits},
    quota::spec::Spec,
    replay,
    resource::ResourceList,
    state::State,
    uid::Uid,
};

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

const BEGIN: i64 = 1_770_000_000_000_000_000;

impl Shape {
    /// Its entries, in order.
    pub fn entries(self) -> impl Iterator<Item = Entry> {
        let actor = Actor::named("stream/OBJECTS");
        let events = self.quotas().chain(self.objects());
        events.enumerate().map(move |(index, event)| Entry {
            sequence: index as u64 + 1,
            time: Timestamp::from_nanoseconds(BEGIN + index as i64 * 1000),
            actor: actor.clone(),
            event,
        })
    }

    fn quotas(self) -> impl Iterator<Item = Event> {
        (0..self.namespaces).flat_map(move |number| {
            let quota = move |(index, (name, hard)): (usize, (&str, ResourceList))| {
                Event::QuotaSet(Arc::new(QuotaRecord {
                    namespace: namespace(number, self.namespaces),
                    name: Name::from(name),
                    uid: uid(1 << 48 | number << 3 | index as u64),
                    created: Timestamp::EPOCH,
                    spec: Spec {
                        hard,
                        ..Spec::default()
                    },
                    metadata: Box::default(),
                }))
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
            Event::ObjectObserved(Box::new(Observed {
                uid: uid(number),
                namespace: namespace(number, self.namespaces),
                resource: Name::from("pods"),
                name: format!("web-5d4f8c7b9-{number:08}").into(),
                version: change + 1,
                footprint: footprints[usize::try_from(number % 50).unwrap_or(0)].clone(),
                lapse: None,
                ends_reservation: false,
            }))
        })
    }

    /// Writes it into `data` of a directory, with a snapshot of its end.
    pub fn write(self, directory: &Path) {
        let (mut journal, reader, _) = FileJournal::open(
            Arc::new(RealDisk),
            &directory.join("data"),
            Options::default(),
        )
        .expect("an empty directory opens");
        let mut state = State::default();
        let mut entries = self.entries();
        let mut group = 0;
        loop {
            let batch: Vec<_> = entries.by_ref().take(BATCH).collect();
            let Some(first) = batch.first() else { break };
            let stored = Batch {
                first_sequence: first.sequence,
                count: u32::try_from(batch.len()).unwrap_or(u32::MAX),
                time: first.time,
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
}

/// Namespaces are called as `quotactl bench -n team` calls them.
fn namespace(number: u64, namespaces: u64) -> Name {
    Name::from(format!("team-{}", number % namespaces.max(1)))
}

fn uid(number: u64) -> Uid {
    let hash = blake3::hash(&number.to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    Uid::from_uuid(bytes)
}

fn list(items: &[(&str, &str)]) -> ResourceList {
    let pair = |(name, text): &(&str, &str)| (Name::from(*name), text.parse().unwrap_or_default());
    items.iter().map(pair).collect()
}

/// What the quotas of a namespace limit, as an operator would set them apart.
fn hards() -> [(&'static str, ResourceList); 4] {
    [
        (
            "compute",
            list(&[
                ("pods", "10M"),
                ("requests.cpu", "10M"),
                ("requests.memory", "10Pi"),
            ]),
        ),
        (
            "objects",
            list(&[("count/configmaps", "10M"), ("count/secrets", "10M")]),
        ),
        (
            "storage",
            list(&[
                ("requests.storage", "10Pi"),
                ("persistentvolumeclaims", "10M"),
            ]),
        ),
        (
            "limits",
            list(&[("limits.cpu", "10M"), ("limits.memory", "10Pi")]),
        ),
    ]
}

/// One of fifty sizes, as workloads have them.
fn footprint(number: u64) -> Footprint {
    let cpu = format!("{}m", 100 + number % 50);
    Footprint {
        resources: list(&[
            ("count/pods", "1"),
            ("pods", "1"),
            ("cpu", &cpu),
            ("requests.cpu", &cpu),
            ("memory", "256Mi"),
            ("requests.memory", "256Mi"),
        ]),
        traits: Traits::Plain,
    }
}
