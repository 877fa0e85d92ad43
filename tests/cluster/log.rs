//! The messages of the log, as the servers have stored them.

use std::pin::pin;

use futures::{StreamExt as _, stream};
use quota_core::{codec, state::State};
use quota_journal::Hash;
use quota_replication::protocol::Message;

use crate::support::{
    nodes::{LOG, Nodes},
    publisher,
};

/// How many messages are requested at a time.
const READ_AHEAD: usize = 32;

/// Every message directly follows the last message that its sender had applied, and every entry the entry before it.
/// Returns the digest of the state that the entries up to this one fold to; none if their begin was purged.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn is_in_order(cluster: &Nodes, end: u64) -> Option<Hash> {
    let context = publisher::connect(&cluster.servers.urls()).await;
    let log = context.get_stream(LOG).await.unwrap();
    let about = &log.cached_info().state;
    let (first, last) = (about.first_sequence, about.last_sequence);
    let messages = stream::iter(first..=last).map(|number| log.get_raw_message(number));
    let mut messages = pin!(messages.buffered(READ_AHEAD));
    let mut state = (first == 1).then(State::default);
    let (mut sequence, mut digest) = (None, None);
    for number in first..=last {
        let stored = messages.next().await.unwrap().unwrap();
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
