//! The bytes of entries in format version 1. They are on disks: once there is a release, this file never changes, and a
//! new version gets its own.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod events;

use std::sync::Arc;

use quota_core::{
    codec,
    event::{Actor, Entry, Event},
};
use quota_semantics::Name;

use events::*;

/// One batch with every kind of event.
const GOLDEN: &str = include_str!("../golden/entries-v1.hex");

fn entries() -> Vec<Entry> {
    let all = [
        events(),
        corrections(),
        published(),
        committed(),
        awaited(),
        charged(),
        namespaces(),
        groups(),
    ];
    numbered(all.concat())
}

fn numbered(events: Vec<Event>) -> Vec<Entry> {
    let named = Actor::named("stream/OBJECTS");
    let full = Arc::new(Actor {
        principal: Name::from("hook"),
        user: Some(Name::from("jane")),
        request_id: Some(Name::from("r-1")),
        traceparent: Some(Name::from("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        reason: Some(Name::from("more room")),
    });
    let entry = |(index, event)| Entry {
        sequence: 100 + index as u64,
        time: time(index as i64 / 3),
        actor: if index % 4 == 3 { full.clone() } else { named.clone() },
        event,
    };
    events.into_iter().enumerate().map(entry).collect()
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
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
fn what_publishers_report_is_shown_as_the_api_says() {
    let shown = serde_json::to_value(&published()[0]).unwrap();
    let expected = serde_json::json!({
        "resource": "pods", "watermark": time(5), "resourceVersion": 4711, "absent": false, "failing": "403",
    });
    assert_eq!(shown["resources"][0], expected);
}

#[test]
fn groups_are_shown_as_the_api_says() {
    let shown = serde_json::to_value(&groups()[0]).unwrap();
    assert_eq!(shown["spec"]["override"]["until"], serde_json::json!(time(60)));
    assert_eq!(shown["spec"]["quota"]["hard"]["pods"], "10");
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
    assert_eq!(ended["cause"], serde_json::json!({"by": "Relist", "began": 100}));
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
    let Event::QuotaSet(quota) = &read[0].event else { panic!("not a quota") };
    assert_eq!(quota.spec.hard.get("requests.cpu").unwrap().to_string(), "10");
}
