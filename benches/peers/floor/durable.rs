//! A group-committed log without logic: what any daemon pays that answers only for what is on disk.
//!
//! One thread writes what has come meanwhile with one write and one fdatasync, into a file of zeros as the
//! write-ahead log has them, and the answers leave behind it. It writes as many bytes as quotad does.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use quota_core::{
    codec::encode_entries,
    event::{Actor, Entry, Event, Reservation},
};
use quota_semantics::{
    Name, Timestamp,
    admission::Charging,
    object::{Footprint, GroupResource, NoContext},
    uid::Uid,
};
use quotad::admission;
use tokio::sync::oneshot;

use crate::reviews::REVIEW;

/// Bytes of the file, which is written anew from its start when it is full.
const FILE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes around the entries of a group: the header of a frame, and the hash behind it.
const FRAME_BYTES: usize = 36 + 32;

/// What an operation writes.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Reserve,
    Release,
    Admit,
}

struct Append {
    operation: Operation,
    /// Operations of this kind.
    count: usize,
    durable: oneshot::Sender<()>,
}

/// The log.
#[derive(Clone)]
pub struct Log(mpsc::Sender<Append>);

impl Log {
    /// Makes a file of zeros in a directory, and the thread that writes to it until the log is dropped.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let mut file = File::create_new(directory.join("floor"))?;
        file.write_all(&vec![0; FILE_BYTES])?;
        file.sync_all()?;
        let (sender, appends) = mpsc::channel();
        thread::spawn(move || write(&file, &appends));
        Ok(Self(sender))
    }

    /// Ends when so many operations are durable.
    pub async fn append(&self, operation: Operation, count: usize) {
        let (durable, is_durable) = oneshot::channel();
        let append = Append { operation, count, durable };
        self.0.send(append).expect("the writer runs");
        is_durable.await.expect("the writer answers");
    }
}

fn write(file: &File, appends: &mpsc::Receiver<Append>) {
    let [reserve, release, admit] =
        [vec![granted()], vec![released()], admitted()].map(|events| bytes_of(&events));
    let mut group = Vec::new();
    let mut waiting = Vec::new();
    let mut offset = 0;
    while let Ok(first) = appends.recv() {
        group.clear();
        group.extend_from_slice(&[0; FRAME_BYTES]);
        for append in std::iter::once(first).chain(appends.try_iter()) {
            let bytes = match append.operation {
                Operation::Reserve => &reserve,
                Operation::Release => &release,
                Operation::Admit => &admit,
            };
            for _ in 0..append.count {
                group.extend_from_slice(bytes);
            }
            waiting.push(append.durable);
        }
        if offset + group.len() > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&group, offset as u64).expect("the group fits into the file");
        file.sync_data().expect("the disk works");
        offset += group.len();
        for durable in waiting.drain(..) {
            // Who has gone away needs no answer.
            let _ = durable.send(());
        }
    }
}

/// The entries of an operation as the write-ahead log holds them.
fn bytes_of(events: &[Event]) -> Vec<u8> {
    let entry = |event: &Event| Entry {
        sequence: 1,
        time: TIME,
        actor: Arc::new(Actor { principal: Name::from("anonymous"), ..Actor::default() }),
        event: event.clone(),
    };
    encode_entries(&events.iter().map(entry).collect::<Vec<_>>())
}

const TIME: Timestamp = Timestamp::from_nanoseconds(1_770_000_000_000_000_000);

const NAMESPACE: &str = "quotactl-bench-0";

fn uid() -> Uid {
    Uid::new("0190a2b4-7c1e-4000-8000-000000000000").expect("it is a uid")
}

/// What the load generator reserves.
fn granted() -> Event {
    let amounts = [("pods", "1"), ("requests.cpu", "100m"), ("requests.memory", "128Mi")];
    let resources = amounts
        .into_iter()
        .map(|(name, amount)| (Name::from(name), amount.parse().expect("it is a quantity")))
        .collect();
    granted_of(Footprint { resources, ..Footprint::default() })
}

fn granted_of(footprint: Footprint) -> Event {
    Event::ReservationGranted(Arc::new(Reservation {
        uid: uid(),
        namespace: Name::from(NAMESPACE),
        resource: Name::from("pods"),
        name: "c12-0".into(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        footprint: footprint.into(),
        created: TIME,
        expiration: TIME,
        after_version: 0,
        requested: None,
    }))
}

/// What the review reserves, in the place of the reservation before it.
fn admitted() -> Vec<Event> {
    let charging = Charging::default();
    let object = admission::read_review(REVIEW.as_bytes(), &charging).expect("it is a review");
    let pods = GroupResource::new("", "pods");
    let superseded =
        Event::ReservationSuperseded { uid: uid(), namespace: Name::from(NAMESPACE), by: uid() };
    let footprint = charging.footprint(&pods, &object, TIME, &NoContext);
    vec![superseded, granted_of(footprint)]
}

fn released() -> Event {
    Event::ReservationReleased { uid: uid(), namespace: Name::from(NAMESPACE) }
}
