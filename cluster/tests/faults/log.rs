//! The invariants of the log, of the answers and of the replicas.

use std::collections::{BTreeMap, BTreeSet};

use quota_core::{codec, event::Event, state::State};
use quota_replication::Message;

use super::clients::{Answers, HARD};

pub(crate) fn check(log: &[Vec<u8>], answers: &Answers, digests: &[String]) {
    let mut state = State::default();
    let (mut granted, mut held) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    for (at, bytes) in log.iter().enumerate() {
        let message =
            Message::decode(bytes).unwrap_or_else(|error| panic!("message {}: {error}", at + 1));
        assert_eq!(
            message.expected, at as u64,
            "a message does not stand behind what its sender had applied"
        );
        let Some(stored) = message.kind.batch() else {
            continue;
        };
        let batch = &stored.batch;
        for entry in
            codec::decode_entries(batch.first_sequence, batch.count, &batch.payload).unwrap()
        {
            assert_eq!(entry.sequence, state.head().sequence + 1);
            state.apply(&entry);
            if let Event::ReservationGranted(reservation) = &entry.event {
                let uid = reservation.uid.to_string();
                assert!(granted.insert(uid.clone()), "{uid} was granted twice");
                let held = held.entry(reservation.namespace.to_string()).or_default();
                *held += 1;
                assert!(
                    *held <= HARD,
                    "{held} of {HARD} are held in {}",
                    reservation.namespace
                );
            }
        }
    }
    let mut acknowledged = 0;
    for (uid, said) in answers {
        acknowledged += u64::from(said == "granted");
        assert_eq!(
            said == "granted",
            granted.contains(uid),
            "{uid} was answered {said}"
        );
    }
    let digest: String = state
        .digest()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let expected = format!("{} {digest}", state.head().sequence);
    for (node, found) in digests.iter().enumerate() {
        assert_eq!(
            *found, expected,
            "the state of n{node} is not that of the log"
        );
    }
    assert!(acknowledged < answers.len() as u64, "nothing was denied");
    println!(
        "{} messages, {} entries, {acknowledged} grants acknowledged of {} in the log, {} answers: all in order",
        log.len(),
        state.head().sequence,
        granted.len(),
        answers.len()
    );
}
