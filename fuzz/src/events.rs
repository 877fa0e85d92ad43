//! Events, as in messages and request bodies.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use async_nats::HeaderMap;
use bytes::Bytes;
use quota_core::{
    audit::Naive,
    codec,
    decide::{self, ComparedRecord, Comparison, Repair, Repaired, Verdict},
    event::Actor,
    source::Observation,
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{Span, Timestamp, admission::Charging};
use quotad::intake::{
    nats,
    payload::{Listed, Reader},
};

/// Reads the input as a message. Its first line holds the headers, `NAME: VALUE`, separated by tabs; an HTTP body is a
/// message without headers. Every event gets a position, valid events become entries, and the naive fold of these
/// entries gives the same state.
pub fn run(data: &[u8]) {
    let (head, body) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[][..]),
    };
    let headers = headers(&String::from_utf8_lossy(head));
    let now = Timestamp::EPOCH.plus(Span::from_seconds(1_800_000_000));
    let body = Bytes::copy_from_slice(body);
    let length = body.len();
    let actor = Actor::named("fuzz");
    let (mut state, mut open, mut naive) =
        (State::default(), OpenBatch::default(), Naive::default());
    let mut line = 0;
    let listed = reader().read_listed(&body, now);
    for event in nats::events(reader(), Some(&headers), body, now) {
        match event {
            Err(rejected) => {
                assert!(rejected.line > line && rejected.text.len() <= length);
                assert!((1..=600).contains(&rejected.reason.len()), "{}", rejected.reason);
                line = rejected.line;
            }
            Ok(incoming) => {
                let Some(Observation::Sighting(sighting)) = incoming.observation else {
                    continue;
                };
                if let Verdict::Accepted(events) = decide::observe(&state, sighting.clone()) {
                    WriteTransaction::new(&mut state, &mut open, now).record(&actor, events);
                }
                // The same event again is not new.
                assert!(
                    matches!(decide::observe(&state, sighting.clone()), Verdict::Ignored(_)),
                    "{sighting:?}"
                );
            }
        }
    }
    if let Ok(Some(listed)) = listed {
        correct(&mut state, &mut open, listed, now);
    }
    let estimated = open.bytes();
    let entries = open.take();
    let encoded = codec::encode_entries(&entries);
    assert!(encoded.len() <= 2 * estimated + 64, "{} bytes, not about {estimated}", encoded.len());
    let count = u32::try_from(entries.len()).unwrap();
    assert_eq!(codec::decode_entries(1, count, &encoded).unwrap(), entries);
    for entry in &entries {
        naive.apply(entry);
    }
    assert_eq!(naive.differences(&state), Vec::<String>::new());
}

/// The body is also an object of a listing: once the difference is repaired, there is no drift.
fn correct(state: &mut State, open: &mut OpenBatch, listed: Listed, now: Timestamp) {
    let compared = |state: &State| {
        let quota = listed.quota.as_deref();
        let standing = decide::compare(state, &listed.object, quota, now);
        matches!(standing, Comparison::Same | Comparison::Newer)
    };
    if compared(state) {
        return;
    }
    let recorded = state.object(&listed.object.namespace, &listed.object.uid);
    let current = state.quota_record(&listed.object.namespace, &listed.object.name);
    let repair = Repair::Set {
        object: listed.object.clone(),
        quota: listed.quota.clone(),
        seen: recorded.as_ref().map(ComparedRecord::from),
        quota_seen: current.map(|(_, entry)| entry),
    };
    let Repaired::Done(events) = decide::repair(state, &repair, now) else {
        panic!("nothing has changed since");
    };
    WriteTransaction::new(state, open, now).record(&Actor::named("fuzz"), events);
    assert!(compared(state));
}

fn reader() -> &'static Arc<Reader> {
    static READER: OnceLock<Arc<Reader>> = OnceLock::new();
    READER.get_or_init(|| {
        let kinds = BTreeMap::from([("Widget.example.com".to_owned(), "widgetry".to_owned())]);
        let charging = Charging::new(["deployments.apps", "jobs.batch"]).unwrap();
        Arc::new(Reader::new(&kinds, true).with_charging(charging))
    })
}

fn headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in text.split('\t').filter_map(|field| field.split_once(": ")) {
        let (Ok(name), Ok(value)) =
            (name.parse::<async_nats::HeaderName>(), value.parse::<async_nats::HeaderValue>())
        else {
            continue;
        };
        headers.append(name, value);
    }
    headers
}
