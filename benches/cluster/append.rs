//! One message after the other into a stream like that of the ledger, and nothing else.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use async_nats::jetstream::{self, message::PublishMessage, stream::Config};

use super::{
    support::measured::Measured,
    testing::cluster::{Cluster, NODES},
};

const STREAM: &str = "ALONE";

/// About what the message of a lone grant takes.
const BYTES: usize = 400;

/// The servers are set as for a ledger: each syncs a message before it says that it has it. The client is connected to the
/// one that leads the stream.
pub fn measure(directory: &Path, warmup: Duration, seconds: f64) -> Measured {
    let servers = Cluster::start_durable(directory.join("servers"), "", true);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let any = context(&servers, 0).await;
        let config = Config {
            name: STREAM.to_owned(),
            subjects: vec!["alone".to_owned()],
            num_replicas: NODES,
            ..Config::default()
        };
        any.create_stream(config)
            .await
            .expect("the servers make a stream");
        let leader = servers.leader_of(STREAM).expect("the stream has a leader");
        let context = context(&servers, leader).await;
        let mut sequence = 0;
        let mut append = async || {
            let message = PublishMessage::build()
                .expected_last_sequence(sequence)
                .payload(vec![b'x'; BYTES].into());
            let sent = context.send_publish("alone", message).await;
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
        Measured {
            rate: took.len() as f64 / seconds,
            p50: at(50),
            p99: at(99),
        }
    })
}

async fn context(servers: &Cluster, node: usize) -> jetstream::Context {
    let address = format!("nats://{}", servers.address(node));
    let client = async_nats::connect(address)
        .await
        .expect("a server listens");
    jetstream::new(client)
}
