//! What the messages of the log were like while grants were measured.

use async_nats::jetstream;
use bytes::Bytes;
use quota_replication::jetstream::{Names, stream};
use quota_replication::protocol::Message;

use super::testing::cluster::Cluster;

/// So many messages are looked at.
const LOOKED_AT: u64 = 200;

/// Messages that came while so many connections were granted something.
#[derive(Clone, Debug)]
pub struct Batches {
    /// How many grants there are in the one in the middle.
    pub median: usize,
    /// How many there are in the fullest.
    pub most: usize,
    /// The fullest.
    pub fullest: Bytes,
}

/// The log of the nodes, read beside them.
pub struct Log {
    runtime: tokio::runtime::Runtime,
    client: async_nats::Client,
    names: Names,
}

impl Log {
    pub fn of(servers: &Cluster) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let url = format!("nats://{}", servers.address(0));
        let client = runtime.block_on(async_nats::connect(url));
        Self {
            client: client.expect("a server listens"),
            names: Names::new(&"main".parse().expect("a name"), 0),
            runtime,
        }
    }

    /// The sequence of the last message.
    pub fn last(&self) -> u64 {
        let found = self.runtime.block_on(stream::look(&self.client, &self.names));
        found.expect("the stream is there").last
    }

    /// The messages behind `from`, up to `to`, but for those of more than `most` grants: what is released in the end comes
    /// together.
    pub fn batches(&self, from: u64, to: u64, most: usize) -> Batches {
        let mut found = self.runtime.block_on(async {
            let context = jetstream::new(self.client.clone());
            let stream = context.get_stream(&self.names.stream).await;
            let stream = stream.expect("the stream is there");
            let mut found = Vec::new();
            for part in 1..=LOOKED_AT {
                let sequence = from + (to - from) * part / LOOKED_AT;
                let message = stream.get_raw_message(sequence).await;
                let message = message.expect("it is there").payload;
                let decoded = Message::decode(&message).expect("a node wrote it");
                let batch = decoded.kind.into_batch();
                let grants = batch.map_or(0, |batch| batch.batch.count as usize);
                if (1..=most).contains(&grants) {
                    found.push((grants, message));
                }
            }
            found
        });
        found.sort_by_key(|(grants, _)| *grants);
        let median = found[found.len() / 2].0;
        let (most, fullest) = found.pop().expect("something was granted");
        Batches { median, most, fullest }
    }
}
