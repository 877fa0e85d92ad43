//! A message that a newer version wrote.

use async_nats::HeaderMap;

use crate::{
    scratch,
    support::{
        cluster::NODES,
        nodes::{LOG, Nodes, Setup},
        publisher,
    },
};

#[test]
fn a_node_stops_at_a_message_of_a_newer_version_and_says_what_mends_it() {
    let directory = scratch();
    let mut cluster = Nodes::start(directory.path(), Setup::default());
    append(&cluster.servers.urls(), b"QLM\x02of a newer version");
    for node in 0..NODES {
        let status = cluster.take(node).wait();
        let log = std::fs::read_to_string(cluster.home(node).join("quotad.log")).unwrap();
        assert_eq!(status.code(), Some(4), "{log}");
        let why = "a newer version wrote it, in the unknown format 2: upgrade this node";
        assert!(log.contains(why), "{log}");
    }
}

/// Puts a message behind the last one of the log, as a leader would.
#[tokio::main(flavor = "current_thread")]
async fn append(urls: &str, message: &'static [u8]) {
    let context = publisher::connect(urls).await;
    loop {
        let mut stream = context.get_stream(LOG).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Sequence", last.to_string().as_str());
        let sent = context.publish_with_headers("ql.main.0.log", headers, message.into());
        if sent.await.unwrap().await.is_ok() {
            return;
        }
    }
}
