//! The messages of the log, as the servers have stored them.

use quota_core::{codec, state::State};
use quota_journal::Hash;
use quota_replication::Message;

use crate::support::{
    nodes::{LOG, Nodes},
    publisher,
};

/// Every message directly follows the last message that its sender had applied, and every entry the entry before it.
/// Returns the digest of the state that the entries up to this one fold to; none if their begin was purged.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn is_in_order(cluster: &Nodes, end: u64) -> Option<Hash> {
    let context = publisher::connect(&cluster.servers.urls()).await;
    let stream = context.get_stream(LOG).await.unwrap();
    let (first, last) = {
        let state = &stream.cached_info().state;
        (state.first_sequence, state.last_sequence)
    };
    let mut state = (first == 1).then(State::default);
    let (mut sequence, mut digest) = (None, None);
    for number in first..=last {
        let stored = stream.get_raw_message(number).await.unwrap();
        let message = Message::decode(&stored.payload)
            .unwrap_or_else(|error| panic!("message {number}: {error}"));
        assert_eq!(message.expected, number - 1, "message {number}");
        let Some(stored) = message.kind.batch() else {
            continue;
        };
        let batch = &stored.batch;
        let before = batch.first_sequence - 1;
        assert_eq!(sequence.unwrap_or(before), before, "message {number}");
        sequence = Some(batch.last_sequence());
        let Some(state) = &mut state else { continue };
        let entries = codec::decode_entries(batch.first_sequence, batch.count, &batch.payload);
        for entry in entries.unwrap() {
            state.apply(&entry);
            if entry.sequence == end {
                digest = Some(Hash::from_bytes(state.digest()));
            }
        }
    }
    assert!(sequence >= Some(end), "the log ends at entry {sequence:?}");
    assert_eq!(digest.is_some(), state.is_some());
    println!("{} messages are in order", last + 1 - first);
    digest
}
