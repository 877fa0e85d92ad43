//! The events that intake is measured with, and what they are parsed into by who does nothing else.

use std::fs;

use bytes::Bytes;
use quota_semantics::{Name, object::Pod, resource::ResourceList, uid::Uid};
use serde::{Deserialize, de::IgnoredAny};

/// Watch events of pods as a real API server wrote them.
const RECORDING: &str = "tests/vectors/history-a.events.jsonl";

/// A watch event of a pod: the fields that count, and none else.
#[derive(Deserialize)]
pub struct WatchedPod {
    /// Passed over.
    #[serde(rename = "type")]
    pub _event_type: IgnoredAny,
    /// The pod.
    pub object: Pod,
}

/// The smallest that holds a plain event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlainEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The namespace of the object.
    pub namespace: Name,
    /// Its resource, with its group.
    pub resource: Name,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Uid,
    /// Its version.
    pub resource_version: String,
    /// What it counts for.
    pub usage: ResourceList,
}

/// About 250 bytes.
pub fn plain(number: u64) -> String {
    format!(
        r#"{{"type":"ADDED","namespace":"team-{}","resource":"widgets.example.com","name":"widget-{number:08}","uid":"0190a2b4-7c1e-7000-8000-{number:012x}","resourceVersion":"{number}","usage":{{"requests.example.com/units":"3","requests.cpu":"250m"}}}}"#,
        number % 50
    )
}

/// Several plain events in one message.
pub fn lines(numbers: std::ops::Range<u64>) -> Bytes {
    let lines: Vec<_> = numbers.map(plain).collect();
    Bytes::from(lines.join("\n"))
}

/// The recorded events of pods, again and again, each time of other pods.
pub fn pods(repeats: u64) -> Vec<Bytes> {
    let recording = fs::read_to_string(RECORDING).expect("the vectors are there");
    let is_pod = |line: &&str| line.contains(r#""object":{"kind":"Pod","#);
    let recorded: Vec<&str> = recording.lines().filter(is_pod).collect();
    let again = |repeat: u64| {
        recorded.iter().map(move |line| {
            let uid = line.split_once(r#""uid":""#).and_then(|(_, rest)| rest.get(..36));
            let uid = uid.expect("a pod has a uid");
            Bytes::from(line.replace(uid, &format!("{repeat:08x}{}", &uid[8..])))
        })
    };
    (0..repeats).flat_map(again).collect()
}
