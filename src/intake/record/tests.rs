use bytes::Bytes;
use std::ops::RangeInclusive;

use quota_ledger::{
    Timestamp,
    decide::Sighting,
    desk::{Desk, Open},
    event::{Cursor, Entry, Observed},
    object::Footprint,
    state::State,
    uid::Uid,
};

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
    let sighting = Some(Sighting::Alive {
        object: Box::new(object),
        quota: None,
    });
    Incoming {
        sighting,
        size: 100,
    }
}

fn consumed(position: u64, gaps: &[RangeInclusive<u64>]) -> Consumed {
    let cursor = Cursor {
        incarnation: "first".into(),
        position,
        ..Cursor::default()
    };
    Consumed {
        source: "OBJECTS".into(),
        gaps: gaps.to_vec(),
        cursor,
    }
}

fn decided(
    state: &mut State,
    chunk: &Chunk,
    consumed: Option<&Consumed>,
) -> (Recorded, Vec<Entry>) {
    let mut open = Open::default();
    let mut desk = Desk::new(state, &mut open, Timestamp::EPOCH);
    let recorded = source::record(
        &mut desk,
        &Actor::named("test"),
        &chunk.items,
        chunk.ignored,
        consumed,
    );
    (recorded, open.take())
}

fn rejected(text: impl Into<Bytes>) -> Rejected {
    let rejection = Rejection::Malformed;
    Rejected {
        line: 1,
        rejection,
        reason: "bad".to_owned(),
        text: text.into(),
    }
}

#[test]
fn a_chunk_its_gaps_and_its_cursor_are_recorded_together() {
    let mut chunk = Chunk::default();
    chunk.add(sighting("a", 1));
    chunk.add(sighting("a", 1));
    chunk.add(Incoming {
        sighting: None,
        size: 10,
    });
    chunk.add_rejected(&"OBJECTS".into(), 6, rejected("x"));
    let mut state = State::default();
    let (recorded, entries) = decided(&mut state, &chunk, Some(&consumed(7, &[2..=3, 5..=5])));
    assert_eq!(
        recorded,
        Recorded {
            accepted: 1,
            ignored: 2,
            rejected: 1
        }
    );
    let kinds = entries.iter().map(|entry| match &entry.event {
        Event::SourceGapped { first, last, .. } => format!("gap {first} {last}"),
        Event::ObjectObserved(object) => format!("observed {}", object.uid),
        Event::MessageRejected(letter) => format!("rejected {}", letter.position),
        Event::SourceAdvanced { cursor, .. } => format!("advanced {}", cursor.position),
        other => panic!("unexpected {other:?}"),
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(
        kinds,
        [
            "gap 2 3",
            "gap 5 5",
            "observed a",
            "rejected 6",
            "advanced 7"
        ]
    );
}

#[test]
fn what_the_cursor_has_passed_is_not_recorded_again() {
    let mut chunk = Chunk::default();
    chunk.add_rejected(&"OBJECTS".into(), 7, rejected("x"));
    let mut state = State::default();
    let cursor = consumed(7, &[]);
    assert_eq!(decided(&mut state, &chunk, Some(&cursor)).0.rejected, 1);
    for position in [7, 6] {
        let again = decided(&mut state, &chunk, Some(&consumed(position, &[1..=2])));
        assert_eq!(again, (Recorded::default(), Vec::new()));
    }
    let mut renewed = consumed(1, &[]);
    renewed.cursor.incarnation = "second".into();
    assert_eq!(decided(&mut state, &chunk, Some(&renewed)).0.rejected, 1);
}

#[test]
fn a_dead_letter_is_cut_and_always_text() {
    let mut chunk = Chunk::default();
    chunk.add_rejected(
        &"http".into(),
        1,
        rejected(vec![0xff; DEAD_LETTER_MAX_BYTES + 1]),
    );
    let long = "ü".repeat(DEAD_LETTER_MAX_BYTES);
    chunk.add_rejected(&"http".into(), 2, rejected(long.into_bytes()));
    let (_, entries) = decided(&mut State::default(), &chunk, None);
    for entry in entries {
        let Event::MessageRejected(letter) = entry.event else {
            panic!("{:?}", entry.event)
        };
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
    chunk.add(Incoming {
        sighting: None,
        size: CHUNK_BYTES,
    });
    assert!(chunk.is_full(usize::MAX));
}
