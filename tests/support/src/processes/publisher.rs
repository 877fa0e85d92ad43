//! A client of NATS that publishes until it is acknowledged.

use std::time::{Duration, Instant};

use async_nats::{ConnectOptions, HeaderMap, jetstream};
use futures::future::join_all;

use super::PATIENCE;

/// How long an acknowledgement is waited for before a message is published again.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to one of these servers, which are separated by commas.
pub async fn connect(urls: &str) -> jetstream::Context {
    let again = |_| Duration::from_millis(50);
    let options = ConnectOptions::new().retry_on_initial_connect().reconnect_delay_callback(again);
    let servers: Vec<_> = urls.split(',').collect();
    jetstream::new(options.connect(servers).await.unwrap())
}

/// Publishes messages, of which the first has this number, until each is acknowledged. The stream drops what it has by
/// the same number already.
pub async fn publish(
    urls: &str,
    context: &mut jetstream::Context,
    first: u64,
    messages: Vec<String>,
) {
    let mut waiting: Vec<_> = (first..).zip(messages).collect();
    let deadline = Instant::now() + PATIENCE;
    while !waiting.is_empty() {
        assert!(Instant::now() < deadline, "messages are acknowledged");
        waiting = send(context, waiting).await;
        if !waiting.is_empty() {
            // Its server may be cut off from the others.
            *context = connect(urls).await;
        }
    }
}

/// Publishes messages, and answers those that were not acknowledged.
async fn send(context: &jetstream::Context, messages: Vec<(u64, String)>) -> Vec<(u64, String)> {
    let sent = messages.into_iter().map(async |(number, text)| {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("m-{number}"));
        let payload = text.clone().into();
        let publish = context.publish_with_headers("quota.objects.made", headers, payload);
        let acknowledged = async { publish.await.ok()?.await.ok() };
        match tokio::time::timeout(TIMEOUT, acknowledged).await {
            Ok(Some(_)) => None,
            _ => Some((number, text)),
        }
    });
    let unacknowledged = join_all(sent).await;
    unacknowledged.into_iter().flatten().collect()
}
