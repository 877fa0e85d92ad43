//! One message after the other into a stream like that of the ledger, and nothing else: what the servers leave to a node
//! that has one append on its way at a time.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use async_nats::jetstream::{self, message::PublishMessage};
use bytes::Bytes;
use quota_replication::jetstream::{Names, stream};

use super::{
    support::measured::Measured,
    testing::cluster::{Cluster, NODES},
};

/// Each of these messages again and again, in turn: how often it is stored in a second, and what that takes.
///
/// The servers are set, and the stream is made, as for a ledger: each syncs a message before it says that it has it. The
/// client is connected to the server that leads the stream, and expects what it has sent before to be the last message.
pub fn measure(
    directory: &Path,
    messages: impl IntoIterator<Item = Bytes>,
    (warmup, seconds): (Duration, f64),
) -> Vec<Measured> {
    let servers = Cluster::start_durable(directory.join("servers"), "", true);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let names = Names::new(&"alone".parse().expect("a name"), 0);
        let any = context(&servers, 0).await;
        let created = any.create_stream(stream::config(&names, NODES)).await;
        created.expect("the servers make a stream");
        let leader = servers.leader_of(&names.stream).expect("the stream has a leader");
        let context = context(&servers, leader).await;
        let (mut sequence, mut measured) = (0, Vec::new());
        for message in messages {
            let mut append = async || {
                let publish = PublishMessage::build()
                    .expected_stream(&names.stream)
                    .expected_last_sequence(sequence)
                    .payload(message.clone());
                let sent = context.send_publish(names.log.clone(), publish).await;
                let stored = sent.expect("it is sent").await.expect("it is stored");
                sequence = stored.sequence;
            };
            let began = Instant::now();
            while began.elapsed() < warmup {
                append().await;
            }
            let mut took = Vec::new();
            let began = Instant::now();
            while began.elapsed().as_secs_f64() < seconds {
                let sent = Instant::now();
                append().await;
                took.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            took.sort_by(f64::total_cmp);
            let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or(0.0);
            measured.push(Measured { rate: took.len() as f64 / seconds, p50: at(50), p99: at(99) });
        }
        measured
    })
}

async fn context(servers: &Cluster, node: usize) -> jetstream::Context {
    let address = format!("nats://{}", servers.address(node));
    let client = async_nats::connect(address).await.expect("a server listens");
    jetstream::new(client)
}
