//! The bytes of entries in format version 1. They are on disks: this file never changes, a new version gets its own.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod events;

use std::sync::Arc;

use quota_core::{
    codec,
    event::{Actor, Entry, Event, Observed},
};
use quota_semantics::{
    Name,
    object::{Footprint, PodTraits, Traits},
    uid::Uid,
};

use events::*;

const GOLDEN: &str = include_str!("../golden/entries-v1.hex");

/// Kinds of events that were added later, in a batch of their own.
const CORRECTIONS: &str = include_str!("../golden/corrections-v1.hex");

/// Events of publishers that report watermarks, in a batch of their own.
const PUBLISHED: &str = include_str!("../golden/published-v1.hex");

/// Events of charged workloads, in a batch of their own.
const CHARGED: &str = include_str!("../golden/charged-v1.hex");

/// Events of replicas of charged workloads, in a batch of their own.
const REPLICAS: &str = include_str!("../golden/replicas-v1.hex");

/// Events of labels of objects, in a batch of their own.
const LABELLED: &str = include_str!("../golden/object-labels-v1.hex");

/// The event of the bound on ended reservations.
const BOUNDED: &str = include_str!("../golden/bounded-v1.hex");

/// Events of commits, in a batch of their own.
const COMMITTED: &str = include_str!("../golden/committed-v1.hex");

/// Events of names that reservations wait for, in a batch of their own.
const AWAITED: &str = include_str!("../golden/awaited-v1.hex");

/// The event of versions that reservations wait for.
const VERSIONS: &str = include_str!("../golden/versions-v1.hex");

/// The event of a cluster's leader.
const LED: &str = include_str!("../golden/led-v1.hex");

/// Events of namespaces, in a batch of their own.
const NAMESPACES: &str = include_str!("../golden/namespaces-v1.hex");

/// Events of groups, in a batch of their own.
const GROUPS: &str = include_str!("../golden/groups-v1.hex");

fn entries() -> Vec<Entry> {
    numbered(events())
}

fn numbered(events: Vec<Event>) -> Vec<Entry> {
    let named = Actor::named("stream/OBJECTS");
    let full = Arc::new(Actor {
        principal: Name::from("hook"),
        user: Some(Name::from("jane")),
        request_id: Some(Name::from("r-1")),
        traceparent: Some(Name::from(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )),
        reason: Some(Name::from("more room")),
    });
    let entry = |(index, event)| Entry {
        sequence: 100 + index as u64,
        time: time(index as i64 / 3),
        actor: if index % 4 == 3 {
            full.clone()
        } else {
            named.clone()
        },
        event,
    };
    events.into_iter().enumerate().map(entry).collect()
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    });
    lines.map(|line| line + "\n").collect()
}

#[test]
fn entries_are_written_as_ever() {
    assert_eq!(hex(&codec::encode_entries(&entries())), GOLDEN);
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(digit).collect()
}

#[test]
fn corrections_are_written_and_read_as_ever() {
    let expected = numbered(corrections());
    assert_eq!(hex(&codec::encode_entries(&expected)), CORRECTIONS);
    let count = u32::try_from(expected.len()).unwrap();
    let read = codec::decode_entries(100, count, &bytes(CORRECTIONS)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn what_publishers_say_is_written_and_read_as_ever() {
    let expected = numbered(published());
    assert_eq!(hex(&codec::encode_entries(&expected)), PUBLISHED);
    let count = u32::try_from(expected.len()).unwrap();
    let read = codec::decode_entries(100, count, &bytes(PUBLISHED)).unwrap();
    assert_eq!(read, expected);
    let shown = serde_json::to_value(&expected[0].event).unwrap();
    let told = serde_json::json!({
        "resource": "pods", "watermark": time(5), "resourceVersion": 4711, "absent": false, "failing": "403",
    });
    assert_eq!(shown["resources"][0], told);
}

#[test]
fn what_is_committed_is_written_and_read_as_ever() {
    let expected = numbered(committed());
    assert_eq!(hex(&codec::encode_entries(&expected)), COMMITTED);
    let read = codec::decode_entries(100, 2, &bytes(COMMITTED)).unwrap();
    assert_eq!(read, expected);
    // Both tags of this event have one name.
    let shown = serde_json::to_value(&expected[0].event).unwrap();
    assert_eq!(shown["type"], "ReservationCommitted");
}

#[test]
fn names_that_are_waited_for_are_written_and_read_as_ever() {
    let expected = numbered(awaited());
    assert_eq!(hex(&codec::encode_entries(&expected)), AWAITED);
    let read = codec::decode_entries(100, 1, &bytes(AWAITED)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn versions_that_are_waited_for_are_written_and_read_as_ever() {
    let awaited = Event::VersionAwaited {
        uid: uuid(),
        namespace: Name::from("team-a"),
        after_version: 4711,
    };
    let expected = numbered(vec![awaited]);
    assert_eq!(hex(&codec::encode_entries(&expected)), VERSIONS);
    let read = codec::decode_entries(100, 1, &bytes(VERSIONS)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn namespaces_are_written_and_read_as_ever() {
    let expected = numbered(namespaces());
    assert_eq!(hex(&codec::encode_entries(&expected)), NAMESPACES);
    let read = codec::decode_entries(100, 3, &bytes(NAMESPACES)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn groups_are_written_and_read_as_ever() {
    let expected = numbered(groups());
    assert_eq!(hex(&codec::encode_entries(&expected)), GROUPS);
    let read = codec::decode_entries(100, 5, &bytes(GROUPS)).unwrap();
    assert_eq!(read, expected);
    let shown = serde_json::to_value(&expected[0].event).unwrap();
    assert_eq!(
        shown["spec"]["override"]["until"],
        serde_json::json!(time(60))
    );
    assert_eq!(shown["spec"]["quota"]["hard"]["pods"], "10");
}

#[test]
fn workloads_that_are_charged_are_written_and_read_as_ever() {
    let kinds = ["deployments.apps", "jobs.batch"].map(Name::from);
    let charged = [kinds.to_vec(), Vec::new()];
    let expected = numbered(
        charged
            .map(|kinds| Event::ChargingChanged { kinds })
            .to_vec(),
    );
    assert_eq!(hex(&codec::encode_entries(&expected)), CHARGED);
    let read = codec::decode_entries(100, 2, &bytes(CHARGED)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn replicas_of_charged_workloads_are_written_and_read_as_ever() {
    let pod = Observed {
        uid: Uid::from_uuid([7; 16]),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: "web-5d4f8-abcde".into(),
        version: 12,
        footprint: Footprint {
            payer: None,
            resources: [("count/pods", 1), ("pods", 1), ("requests.cpu", 2)]
                .map(|(name, amount)| {
                    (
                        Name::from(name),
                        quota_semantics::quantity::Quantity::from_units(amount),
                    )
                })
                .into_iter()
                .collect(),
            traits: Traits::Replica(PodTraits {
                priority_class: "high".into(),
                ..PodTraits::default()
            }),
            ..Footprint::default()
        },
        lapse: None,
        ends_reservation: true,
    };
    let kinds = vec!["deployments.apps".into(), "jobs.batch".into()];
    let expected = numbered(vec![
        Event::WorkloadsCharged { kinds },
        Event::ObjectObserved(Box::new(pod)),
    ]);
    assert_eq!(hex(&codec::encode_entries(&expected)), REPLICAS);
    let read = codec::decode_entries(100, 2, &bytes(REPLICAS)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn leaders_are_written_and_read_as_ever() {
    let led = Event::LeaderChanged {
        epoch: 7,
        node: "node-1".into(),
        instance: 0x0102_0304_0506_0708,
    };
    let expected = numbered(vec![led]);
    assert_eq!(hex(&codec::encode_entries(&expected)), LED);
    let read = codec::decode_entries(100, 1, &bytes(LED)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn labels_of_objects_are_written_and_read_as_ever() {
    let labelled = Footprint {
        labels: [("app".into(), "web".into()), ("tier".into(), "".into())].into(),
        ..pod()
    };
    let expected = numbered(vec![
        Event::ObjectLabelsChanged {
            keys: vec!["app".into(), "tier".into()],
        },
        Event::ObjectLapsed {
            uid: text(),
            namespace: "team-a".into(),
            footprint: labelled,
        },
    ]);
    assert_eq!(hex(&codec::encode_entries(&expected)), LABELLED);
    let read = codec::decode_entries(100, 2, &bytes(LABELLED)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn the_bound_of_what_ended_is_written_and_read_as_ever() {
    let expected = numbered(vec![Event::EndedBounded { bytes: 256 << 20 }]);
    assert_eq!(hex(&codec::encode_entries(&expected)), BOUNDED);
    let read = codec::decode_entries(100, 1, &bytes(BOUNDED)).unwrap();
    assert_eq!(read, expected);
}

#[test]
fn corrections_are_shown_flat() {
    let shown = |event: &Event| serde_json::to_value(event).unwrap();
    let events = corrections();
    let began = serde_json::json!({
        "type": "RelistBegan", "resource": "pods", "source": "stream/OBJECTS", "id": "r-17", "allowEmpty": false,
    });
    assert_eq!(shown(&events[0]), began);
    assert_eq!(shown(&events[3])["namespace"], "team-a");
    let corrected = shown(&events[4]);
    assert_eq!(
        (&corrected["type"], &corrected["name"]),
        (&"ObjectCorrected".into(), &"web-1".into())
    );
    assert_eq!(corrected["was"]["resources"], serde_json::json!({}));
    let ended = shown(&events[7]);
    assert_eq!(
        ended["cause"],
        serde_json::json!({"by": "Relist", "began": 100})
    );
    assert_eq!(shown(&events[9])["outcome"], "Empty");
}

#[test]
fn entries_are_read_as_ever() {
    let bytes = bytes(GOLDEN);
    let expected = entries();
    let count = u32::try_from(expected.len()).unwrap();
    let read = codec::decode_entries(100, count, &bytes).unwrap();
    assert_eq!(read, expected);
    // Numbers are compared by value, but are printed in their family.
    let Event::QuotaSet(quota) = &read[0].event else {
        panic!("not a quota")
    };
    assert_eq!(
        quota.spec.hard.get("requests.cpu").unwrap().to_string(),
        "10"
    );
}
