//! A ledger with every kind of entry in it, of which the beginning is in the archive.

mod values;

use std::{path::Path, sync::Arc};

use quota_core::{
    codec::encode_entries,
    event::{
        Actor, Cause, Correction, Cursor, Ending, Entry, Event, GroupRecord, NamespaceRecord,
        QuotaRecord, RelistBegin, RelistClose, RelistEnd, RelistOutcome, Reservation, Watermark,
        Watermarks,
    },
    state::State,
};
use quota_journal::{Batch, FileJournal, Journal as _, Options, Retention, disk::RealDisk};
use quota_semantics::{Name, Span, Timestamp};

use super::support::random::Random;

/// Where everything happens.
pub(super) const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];

/// A child comes before its parent.
pub(super) const GROUPS: [&str; 4] = ["g1", "g2", "g3", "g4"];

const ENTRIES: u64 = 900;
const BATCH: usize = 3;

/// Tags of events are the numbers up to this one.
const TAGS: u64 = 40;

struct Writer {
    random: Random,
    sequence: u64,
    state: State,
}

/// Writes it into `data` and `archive` in a directory; gives its last sequence.
pub(super) fn write(home: &Path) -> u64 {
    let options = Options {
        segment_bytes: 4096,
        epoch_bytes: 6000,
        background: false,
        archive: Some(home.join("archive")),
        ..Options::default()
    };
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(RealDisk), &home.join("data"), options).unwrap();
    let mut writer =
        Writer { random: Random::new(13, "auditor"), sequence: 0, state: State::default() };
    let mut last_time = Timestamp::EPOCH;
    while writer.sequence < ENTRIES {
        let entries: Vec<Entry> = (0..BATCH).map(|_| writer.entry()).collect();
        last_time = entries[BATCH - 1].time;
        let batch = Batch {
            first_sequence: entries[0].sequence,
            count: u32::try_from(BATCH).unwrap(),
            time: last_time,
            payload: encode_entries(&entries),
        };
        journal.append(batch).unwrap();
        let durable = journal.sync().unwrap();
        while journal.work().unwrap() {}
        if [ENTRIES / 2, ENTRIES * 2 / 3].contains(&writer.sequence) {
            let mut output = reader.snapshots().create(durable).unwrap();
            writer.state.image().write(&mut output).unwrap();
            output.finish().unwrap();
        }
    }
    let retention = Retention { max_age: Some(Span::from_seconds(1)), max_bytes: None };
    let compacted = reader.compact(last_time, &retention).unwrap();
    assert!(compacted.archived > 1, "{compacted:?}");
    journal.close().unwrap();
    writer.sequence
}

impl Writer {
    fn entry(&mut self) -> Entry {
        self.sequence += 1;
        let seconds = 1_770_000_000 + i64::try_from(self.sequence).unwrap();
        let actor = match self.random.below(3) {
            0 => Arc::new(Actor {
                principal: "admin".into(),
                user: Some("alice".into()),
                request_id: Some(format!("r-{}", self.sequence).into()),
                traceparent: None,
                reason: Some("because".into()),
            }),
            _ => Actor::named("stream/OBJECTS"),
        };
        let entry = Entry {
            sequence: self.sequence,
            time: Timestamp::EPOCH.plus(Span::from_seconds(seconds)),
            actor,
            // Each kind in turn.
            event: self.event(1 + self.sequence % TAGS),
        };
        self.state.apply(&entry);
        entry
    }

    fn event(&mut self, tag: u64) -> Event {
        let (uid, namespace) = (self.uid(), self.namespace());
        let quota = Name::from(self.pick(&["q1", "q2", "q3", "q4"]));
        match tag {
            1 => Event::QuotaSet(Arc::new(QuotaRecord {
                namespace,
                name: quota,
                uid,
                created: Timestamp::EPOCH,
                spec: self.spec(),
                metadata: r#"{"labels":{"a":"b"}}"#.into(),
            })),
            2 => Event::QuotaDeleted { namespace, name: quota },
            4 => Event::ObjectRefreshed {
                uid,
                namespace,
                version: self.sequence * 1000,
                ends_reservation: self.random.below(2) == 0,
            },
            5 => Event::ObjectLapsed { uid, namespace, footprint: self.footprint().into() },
            6 => Event::ObjectDeleted { uid, namespace },
            7 => Event::ReservationGranted(Arc::new(Reservation {
                uid: self.free_uid(),
                namespace,
                resource: "pods".into(),
                name: format!("r-{}", self.sequence).into(),
                api_version: "v1".into(),
                kind: "Pod".into(),
                footprint: self.footprint().into(),
                created: Timestamp::EPOCH,
                expiration: self.far(),
                after_version: 0,
                requested: None,
            })),
            8 => Event::ReservationGrown {
                uid,
                namespace,
                footprint: self.footprint().into(),
                expiration: self.far(),
            },
            9 => Event::ReservationExtended { uid, namespace, expiration: self.far() },
            10 => Event::ReservationCommitted {
                uid: self.pending_in(&namespace).unwrap_or(uid),
                namespace,
                resources: self.resources(),
            },
            11 => Event::ReservationReturned { uid, namespace },
            12 => Event::ReservationReleased { uid, namespace },
            13 => Event::ReservationExpired { uid, namespace },
            14 => Event::ReservationSuperseded { uid, namespace, by: self.uid() },
            15 => Event::NameAwaited {
                uid: self.pending_in(&namespace).unwrap_or(uid),
                namespace,
                bearer: self.uid(),
            },
            16 => Event::VersionAwaited {
                uid: self.pending_in(&namespace).unwrap_or(uid),
                namespace,
                // Some commits outlast observations.
                after_version: self.sequence * 2000,
            },
            17 => Event::EndedBounded { bytes: self.random.below(1 << 30) },
            18 => Event::SourceAdvanced {
                source: "OBJECTS".into(),
                cursor: Cursor {
                    incarnation: "one".into(),
                    position: self.sequence,
                    time: Timestamp::EPOCH,
                    checksum: 7,
                },
            },
            19 => Event::SourceReset { source: "OBJECTS".into(), incarnation: "two".into() },
            20 => Event::SourceGapped { source: "OBJECTS".into(), first: 3, last: 300 },
            21 => Event::MessageRejected(Box::new(self.dead_letter())),
            22 => Event::EventRejected {
                resource: "pods".into(),
                letter: Box::new(self.dead_letter()),
            },
            23 => {
                Event::ObjectCorrected(Box::new(Correction { object: self.observed(), was: None }))
            }
            24 => Event::ObjectEnded(Box::new(Ending {
                uid,
                namespace,
                resource: "pods".into(),
                name: "web".into(),
                footprint: self.footprint(),
                cause: match self.random.below(2) {
                    0 => Cause::Drift,
                    _ => Cause::Relist { began: 20 },
                },
            })),
            25 => Event::RelistBegan(Box::new(RelistBegin {
                scope: self.scope(),
                id: None,
                allow_empty: true,
            })),
            26 => Event::ObjectsListed {
                source: "stream/OBJECTS".into(),
                uids: vec![uid, self.uid()],
            },
            27 => Event::RelistClosed(Box::new(RelistClose { scope: self.scope(), version: 5 })),
            28 => Event::RelistEnded(Box::new(RelistEnd {
                scope: self.scope(),
                began: 20,
                outcome: RelistOutcome::Complete,
                listed: 2,
                ended: 1,
            })),
            29 => Event::WatermarksAdvanced(Box::new(Watermarks {
                source: "stream/OBJECTS".into(),
                cluster_uid: self.pick(&["c1", "c1", "c2"]).into(),
                instance: "i".into(),
                resources: vec![Watermark {
                    resource: "pods".into(),
                    watermark: self.far(),
                    version: self.sequence,
                    is_absent: self.random.below(4) == 0,
                    failing: self.pick(&["", "", "403"]).into(),
                }],
            })),
            30 => {
                Event::ResourceListed { source: "stream/OBJECTS".into(), resource: "pods".into() }
            }
            31 => Event::VersionsReset(Box::new(self.scope())),
            32 => Event::ObjectReplaced(Box::new(self.observed())),
            33 => Event::WorkloadsCharged { kinds: self.charged() },
            34 => Event::ObjectLabelsChanged { keys: vec!["app".into()] },
            35 => Event::NamespaceObserved(Arc::new(NamespaceRecord {
                name: namespace,
                uid,
                version: self.sequence,
                labels: [("team".into(), self.pick(&["a", "b"]).into())].into(),
                annotations: [("owner".into(), "somebody".into())].into(),
            })),
            36 => Event::NamespaceDeleted {
                name: namespace,
                uid,
                relist: (self.random.below(2) == 0).then_some(20),
            },
            37 => {
                let place = self.random.index(GROUPS.len());
                Event::GroupSet(Arc::new(GroupRecord {
                    name: GROUPS[place].into(),
                    uid,
                    created: Timestamp::EPOCH,
                    spec: self.group(place),
                    metadata: r#"{"labels":{"a":"b"}}"#.into(),
                }))
            }
            38 => Event::GroupDeleted {
                // Not any: there would be few at a time.
                name: self.pick(&["g1", "g5", "g5"]).into(),
            },
            39 => Event::OverrideEnded {
                namespace: (self.random.below(2) == 0).then_some(namespace),
                quota: self.pick(&["g1", "g3", "q1"]).into(),
            },
            40 => Event::LeaderChanged {
                term: self.sequence,
                node: "node-1".into(),
                instance: u64::MAX,
            },
            _ => Event::ObjectObserved(Box::new(self.observed())),
        }
    }
}
