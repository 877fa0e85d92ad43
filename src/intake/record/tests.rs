use bytes::Bytes;

use quota_core::{
    decide::Sighting,
    event::{Cursor, Entry, Observed},
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{Timestamp, object::Footprint, uid::Uid};

use super::*;
use crate::metrics::Rejection;

fn sighting(uid: &str, version: u64) -> Incoming {
    let object = Observed {
        uid: Uid::new(uid).unwrap(),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: uid.into(),
        version,
        footprint: Footprint::default(),
        lapse: None,
        ends_reservation: false,
    };
    let sighting = Sighting::Alive { object: Box::new(object), quota: None };
    Incoming { observation: Some(Observation::Sighting(sighting)), size: 100 }
}

fn consumed(position: u64) -> Consumed {
    let cursor = Cursor { incarnation: "first".into(), position, ..Cursor::default() };
    Consumed { source: "OBJECTS".into(), cursor }
}

fn decided(
    state: &mut State,
    chunk: &Chunk,
    consumed: Option<&Consumed>,
) -> (Recorded, Vec<Entry>) {
    let mut open = OpenBatch::default();
    let mut transaction = WriteTransaction::new(state, &mut open, Timestamp::EPOCH);
    let (recorded, _) = source::record(
        &mut transaction,
        &Actor::named("test"),
        chunk.observations.clone(),
        chunk.ignored,
        consumed,
    );
    (recorded, open.take())
}

fn rejected(text: impl Into<Bytes>) -> Rejected {
    let rejection = Rejection::Malformed;
    Rejected { line: 1, rejection, reason: "bad".to_owned(), resource: None, text: text.into() }
}

#[test]
fn a_chunk_its_gaps_and_its_cursor_are_recorded_together() {
    let mut chunk = Chunk::default();
    let source = Name::from("OBJECTS");
    chunk.add_gap(&source, 2..=3);
    chunk.add(sighting("a", 1));
    chunk.add_gap(&source, 5..=5);
    chunk.add(sighting("a", 1));
    chunk.add(Incoming { observation: None, size: 10 });
    chunk.add_rejected(&"OBJECTS".into(), 6, rejected("x"));
    let mut state = State::default();
    let (recorded, entries) = decided(&mut state, &chunk, Some(&consumed(7)));
    assert_eq!(recorded, Recorded { accepted: 1, ignored: 2, rejected: 1 });
    let kinds = entries.iter().map(|entry| match &entry.event {
        Event::SourceGapped { first, last, .. } => format!("gap {first} {last}"),
        Event::ObjectObserved(object) => format!("observed {}", object.uid),
        Event::MessageRejected(letter) => format!("rejected {}", letter.position),
        Event::SourceAdvanced { cursor, .. } => format!("advanced {}", cursor.position),
        other => panic!("unexpected {other:?}"),
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds, ["gap 2 3", "observed a", "gap 5 5", "rejected 6", "advanced 7"]);
}

#[test]
fn what_the_cursor_has_passed_is_not_recorded_again() {
    let mut chunk = Chunk::default();
    chunk.add_rejected(&"OBJECTS".into(), 7, rejected("x"));
    let mut state = State::default();
    let cursor = consumed(7);
    assert_eq!(decided(&mut state, &chunk, Some(&cursor)).0.rejected, 1);
    for position in [7, 6] {
        let again = decided(&mut state, &chunk, Some(&consumed(position)));
        assert_eq!(again, (Recorded::default(), Vec::new()));
    }
    let mut renewed = consumed(1);
    renewed.cursor.incarnation = "second".into();
    assert_eq!(decided(&mut state, &chunk, Some(&renewed)).0.rejected, 1);
}

#[test]
fn a_dead_letter_is_cut_and_always_text() {
    let mut chunk = Chunk::default();
    chunk.add_rejected(&"http".into(), 1, rejected(vec![0xff; DEAD_LETTER_MAX_BYTES + 1]));
    let long = "ü".repeat(DEAD_LETTER_MAX_BYTES);
    chunk.add_rejected(&"http".into(), 2, rejected(long.into_bytes()));
    let (_, entries) = decided(&mut State::default(), &chunk, None);
    for entry in entries {
        let Event::MessageRejected(letter) = entry.event else { panic!("{:?}", entry.event) };
        let length = letter.payload.len();
        assert!(length <= DEAD_LETTER_MAX_BYTES && length > DEAD_LETTER_MAX_BYTES - 4);
    }
}

#[test]
fn a_chunk_is_full_by_entries_or_by_size() {
    let mut chunk = Chunk::default();
    assert!(chunk.is_empty());
    chunk.add(sighting("a", 1));
    assert!(chunk.is_full(1) && !chunk.is_full(2));
    chunk.add(Incoming { observation: None, size: CHUNK_BYTES });
    assert!(chunk.is_full(usize::MAX));
}

#[test]
fn a_cursor_does_not_go_back_before_a_gap() {
    let mut chunk = Chunk::default();
    chunk.add(sighting("a", 1));
    chunk.add_gap(&"OBJECTS".into(), 4..=6);
    // A part of the message after the gap is left for the next chunk.
    chunk.add(sighting("b", 1));
    let mut state = State::default();
    let (_, entries) = decided(&mut state, &chunk, Some(&consumed(3)));
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    let order = ["ObjectObserved", "SourceAdvanced", "SourceGapped", "ObjectObserved"];
    assert_eq!(kinds, order);
    assert_eq!(state.sources()["OBJECTS"].position, 6);
}

fn relist(event: &str) -> Incoming {
    let reader = Arc::new(crate::intake::payload::Reader::default());
    let mut events = reader.read(Bytes::copy_from_slice(event.as_bytes()), Timestamp::EPOCH);
    events.next().unwrap().unwrap()
}

#[test]
fn what_was_listed_is_told_before_the_list_ends_and_with_the_batch() {
    let mut state = State::default();
    let mut existing = Chunk::default();
    for uid in ["a", "b", "c"] {
        existing.add(sighting(uid, 1));
    }
    decided(&mut state, &existing, None);
    let mut first = Chunk::default();
    first.add(relist(r#"{"type":"RELIST_BEGIN","resource":"pods"}"#));
    first.add(sighting("a", 1));
    first.add(sighting("a", 1));
    let (recorded, entries) = decided(&mut state, &first, None);
    assert_eq!((recorded.accepted, recorded.ignored), (1, 2));
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(kinds, ["RelistBegan", "ObjectsListed"]);
    let mut second = Chunk::default();
    second.add(sighting("b", 1));
    second.add(relist(r#"{"type":"RELIST_END","resource":"pods"}"#));
    second.add(sighting("c", 1));
    let (_, entries) = decided(&mut state, &second, None);
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(kinds, ["ObjectsListed", "RelistClosed", "ResourceListed"]);
    let relist = state.closed_relist().unwrap();
    let (gone, next) = state.unlisted(&relist.scope, 0, 100);
    assert_eq!((gone, next), (vec![("team-a".into(), Uid::new("c").unwrap())], None));
}

#[test]
fn a_relist_that_was_consumed_before_its_stream_was_reset_is_no_news() {
    let at = |seconds| Timestamp::EPOCH.plus(quota_semantics::Span::from_seconds(seconds));
    let source: Name = "OBJECTS".into();
    let mut state = State::default();
    let mut existing = Chunk::default();
    existing.add(sighting("a", 1));
    let first = Consumed { cursor: Cursor { time: at(50), ..consumed(9).cursor }, ..consumed(9) };
    decided(&mut state, &existing, Some(&first));
    let resets = quota_core::decide::reset(&state, &source, &"again".into());
    let mut open = quota_core::transaction::OpenBatch::default();
    quota_core::transaction::WriteTransaction::new(&mut state, &mut open, at(60))
        .record(&Actor::named("test"), resets);
    let begin = || relist(r#"{"type":"RELIST_BEGIN","resource":"pods","allowEmpty":true}"#);
    let kinds = |state: &mut State, incoming, time| {
        let mut chunk = Chunk::default();
        chunk.add_received(incoming, &source, at(time));
        let (recorded, entries) = decided(state, &chunk, None);
        assert_eq!(recorded.accepted + recorded.ignored, 1);
        let kinds = entries.iter().map(|entry| entry.event.name());
        kinds.collect::<Vec<_>>()
    };
    assert!(kinds(&mut state, begin(), 50).is_empty());
    assert_eq!(kinds(&mut state, begin(), 51), ["RelistBegan"]);
    let end = relist(r#"{"type":"RELIST_END","resource":"pods"}"#);
    assert_eq!(kinds(&mut state, end, 52), ["RelistClosed", "ResourceListed"]);
    // Events over HTTP have no position, so they always count as new.
    let mut chunk = Chunk::default();
    chunk.add(begin());
    assert_eq!(decided(&mut state, &chunk, None).0.accepted, 1);
}

#[test]
fn a_gap_behind_the_begin_of_a_relist_makes_it_incomplete_though_they_are_recorded_together() {
    let mut state = State::default();
    let mut chunk = Chunk::default();
    chunk.add(sighting("a", 1));
    chunk.add(relist(r#"{"type":"RELIST_BEGIN","resource":"pods","allowEmpty":true}"#));
    chunk.add_gap(&"OBJECTS".into(), 3..=3);
    chunk.add(relist(r#"{"type":"RELIST_END","resource":"pods"}"#));
    let (_, entries) = decided(&mut state, &chunk, Some(&consumed(4)));
    let outcome = entries.iter().find_map(|entry| match &entry.event {
        Event::RelistEnded(end) => Some(end.outcome),
        _ => None,
    });
    assert_eq!(outcome, Some(quota_core::event::RelistOutcome::Incomplete));
}

#[test]
fn what_is_not_understood_spoils_the_relists_of_its_kind_alone() {
    let mut state = State::default();
    let mut chunk = Chunk::default();
    for kind in ["pods", "widgets.example.com"] {
        let begin = format!(r#"{{"type":"RELIST_BEGIN","resource":"{kind}","allowEmpty":true}}"#);
        chunk.add(relist(&begin));
    }
    let reader = Arc::new(crate::intake::payload::Reader::default());
    let mut reject = |text: &'static str| {
        let mut events = reader.read(Bytes::from(text), Timestamp::EPOCH);
        let rejected = events.next().unwrap().unwrap_err();
        chunk.add_rejected(&"OBJECTS".into(), 1, rejected);
    };
    reject(
        r#"{"type":"ADDED","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"team-a","name":"w"}}}"#,
    );
    reject(r#"{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"w"}"#);
    for kind in ["pods", "widgets.example.com"] {
        chunk.add(relist(&format!(r#"{{"type":"RELIST_END","resource":"{kind}"}}"#)));
    }
    let (_, entries) = decided(&mut state, &chunk, None);
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    let began = ["RelistBegan"; 2];
    let letters = ["EventRejected"; 2];
    let ended = ["RelistClosed", "ResourceListed", "RelistEnded"];
    assert_eq!(kinds, [&began[..], &letters, &ended].concat());
    assert_eq!(state.closed_relist().unwrap().scope.resource, "pods");
    assert_eq!(state.dead_letters().count(), 2);

    // The kind of an event that is not JSON is unknown.
    let mut chunk = Chunk::default();
    chunk.add(relist(r#"{"type":"RELIST_BEGIN","resource":"services","allowEmpty":true}"#));
    chunk.add_rejected(&"OBJECTS".into(), 2, rejected("x"));
    chunk.add(relist(r#"{"type":"RELIST_END","resource":"services"}"#));
    let (_, entries) = decided(&mut state, &chunk, None);
    let kinds: Vec<_> = entries.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(kinds, ["RelistBegan", "MessageRejected", "RelistEnded"]);
}

#[test]
fn versions_that_went_back_are_replaced_by_what_is_listed() {
    let mut state = State::default();
    let mut before = Chunk::default();
    for uid in ["kept", "gone", "deleted"] {
        before.add(sighting(uid, 900));
    }
    let deleted = Sighting::Deleted {
        uid: Uid::new("deleted").unwrap(),
        namespace: "team-a".into(),
        quota: None,
    };
    before.add(Incoming { observation: Some(Observation::Sighting(deleted)), size: 100 });
    decided(&mut state, &before, None);
    let alive = |state: &State, uid: &str| {
        let object = state.object("team-a", &Uid::new(uid).unwrap());
        object.map(|object| object.version)
    };

    // The listing is cut off, and begun again by a publisher that does not know of the version reset.
    let mut first = Chunk::default();
    let begin = r#"{"type":"RELIST_BEGIN","resource":"pods","versions":"reset"}"#;
    first.add(relist(begin));
    first.add(sighting("kept", 100));
    decided(&mut state, &first, None);
    let mut second = Chunk::default();
    second.add(relist(r#"{"type":"RELIST_BEGIN","resource":"pods"}"#));
    second.add(sighting("kept", 110));
    // After the listing, versions order the events again.
    second.add(sighting("kept", 105));
    second.add(sighting("deleted", 90));
    second.add(relist(r#"{"type":"RELIST_END","resource":"pods","resourceVersion":"120"}"#));
    let (recorded, _) = decided(&mut state, &second, None);
    assert_eq!(recorded.ignored, 1);
    assert_eq!(alive(&state, "kept"), Some(110));
    assert_eq!(alive(&state, "deleted"), Some(90));
    let closed = state.closed_relist().unwrap();
    let (unlisted, _) = state.unlisted(&closed.scope, 0, 100);
    assert_eq!(unlisted, [("team-a".into(), Uid::new("gone").unwrap())]);

    // A restored object changes and is deleted as usual.
    let mut after = Chunk::default();
    after.add(sighting("deleted", 130));
    after.add(sighting("deleted", 129));
    let (recorded, _) = decided(&mut state, &after, None);
    assert_eq!((recorded.accepted, recorded.ignored), (1, 1));
    let mut image = Vec::new();
    state.image().write(&mut image).unwrap();
    let again = State::read(&mut &image[..]).unwrap();
    assert_eq!(again.digest(), state.digest());
}
