//! Up to when everything has been seen, as its publisher says it.

use std::path::Path;

use super::STREAM;
use crate::support::{nats::Server, quotad::Quotad, until};
use async_nats::jetstream;
use quotad::now;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a reservation lasts, and how old a watermark may be, here.
const TTL: &str = "1s";
const MAX_AGE: &str = "2s";

fn start(directory: &Path, server: &Server) -> Quotad {
    start_with(directory, server, &["--nats.watermark=bridge"])
}

fn start_with(directory: &Path, server: &Server, more: &[&str]) -> Quotad {
    let nats = format!("--nats.url={}", server.url());
    let age = format!("--nats.max_watermark_age={MAX_AGE}");
    let others = [
        "--nats.poll_interval=50ms",
        "--nats.max_backoff=200ms",
        "--nats.watermark_resources=pods",
        &nats,
        &age,
    ];
    Quotad::start(directory, &[&others, more].concat())
}

fn limit(quotad: &Quotad, pods: u64) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": {"pods": pods.to_string()}},
    });
    let (status, answer) = quotad.put("/v1/namespaces/team-a/quotas/q", &quota);
    assert!(status == 200 || status == 201, "{answer}");
}

/// Asks for room for one pod; gives the status and the reason.
fn reserve(quotad: &Quotad, uid: &str) -> (u16, String) {
    let body = json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
                      "reserved": {"pods": "1"}, "ttl": TTL});
    let (status, answer) = quotad.post("/v1/namespaces/team-a/reservations", &body);
    (status, answer["reason"].as_str().unwrap_or_default().into())
}

fn granted() -> (u16, String) {
    (201, String::new())
}

fn exceeds() -> (u16, String) {
    (403, "ExceedsHard".into())
}

fn not_ready() -> (u16, String) {
    (503, "NotReady".into())
}

fn metric(quotad: &Quotad, name: &str) -> f64 {
    let (_, text) = quotad.ask_admin("/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
}

/// What a publisher sends.
struct Publisher(jetstream::Context);

impl Publisher {
    async fn of(server: &Server) -> Self {
        Self(server.jetstream().await)
    }

    async fn send(&self, events: &[Value]) {
        let lines: Vec<_> = events.iter().map(Value::to_string).collect();
        let sent = self.0.publish("quota.objects.prod", lines.join("\n").into());
        sent.await.unwrap().await.unwrap();
    }

    async fn relist(&self, pods: &[&str]) {
        let mut events = vec![json!({"type": "RELIST_BEGIN", "resource": "pods"})];
        events.extend(pods.iter().map(|uid| pod(uid)));
        events.push(json!({"type": "RELIST_END", "resource": "pods", "allowEmpty": true}));
        self.send(&events).await;
    }

    /// Everything up to now has been sent.
    async fn bookmark(&self) {
        let resources = json!({"pods": {"watermark": now().to_string(), "resourceVersion": "7"}});
        let bookmark = json!({"type": "BOOKMARK", "clusterUid": "c-1", "instance": "i-1", "resources": resources});
        self.send(&[bookmark]).await;
    }
}

fn pod(uid: &str) -> Value {
    json!({"type": "ADDED", "namespace": "team-a", "resource": "pods", "name": uid, "uid": uid, "resourceVersion": "5", "usage": {"pods": "1"}})
}

/// A daemon that has consumed everything and says why it is not ready.
async fn waits(quotad: &Quotad, why: &str) {
    until(why, || {
        let (status, text) = quotad.ask_admin("/readyz");
        (status == 503 && text.contains("[+]stream ok") && text.contains(why)).then_some(())
    })
    .await;
}

async fn ready(quotad: &Quotad) {
    until("it is ready", || quotad.is_ready().then_some(())).await;
}

async fn not_listed(quotad: &Quotad) {
    waits(quotad, "pods not listed").await;
}

/// A daemon with a limit of so many pods, of which nothing was listed yet, and a publisher.
async fn unlisted(directory: &TempDir, server: &Server, pods: u64) -> (Quotad, Publisher) {
    let quotad = start(directory.path(), server);
    limit(&quotad, pods);
    not_listed(&quotad).await;
    (quotad, Publisher::of(server).await)
}

/// The same once it was listed that there are no pods.
async fn without_pods(directory: &TempDir, server: &Server, pods: u64) -> (Quotad, Publisher) {
    let (quotad, publisher) = unlisted(directory, server, pods).await;
    publisher.relist(&[]).await;
    publisher.bookmark().await;
    ready(&quotad).await;
    (quotad, publisher)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_before_everything_was_listed() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let (quotad, publisher) = unlisted(&directory, &server, 5).await;
    assert_eq!(reserve(&quotad, "p-1"), not_ready());
    // A watermark without a list says nothing of what was there before.
    publisher.bookmark().await;
    until("the bookmark is read", || {
        let (_, text) = quotad.ask_admin("/metrics");
        text.contains("quota_ledger_events_consumed_total{source=\"nats\"} 1").then_some(())
    })
    .await;
    assert_eq!(reserve(&quotad, "p-1"), not_ready());
    publisher.relist(&["a", "b", "c", "d"]).await;
    ready(&quotad).await;
    assert_eq!(reserve(&quotad, "p-1"), granted());
    assert_eq!(reserve(&quotad, "p-2"), exceeds());

    // A ledger that was lost is not ready with what the stream still holds, but with the next bookmark.
    drop(quotad);
    let other = TempDir::new().unwrap();
    let quotad = start(other.path(), &server);
    limit(&quotad, 5);
    waits(&quotad, "no watermark of each kind since the start").await;
    assert_eq!(reserve(&quotad, "p-3"), not_ready());
    publisher.bookmark().await;
    ready(&quotad).await;
    assert_eq!(reserve(&quotad, "p-3"), granted());
    assert_eq!(reserve(&quotad, "p-4"), exceeds());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_each_source_once() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let (quotad, _publisher) = without_pods(&directory, &server, 5).await;
    let resources = json!({"pods": {"watermark": now().to_string(), "resourceVersion": "7"}});
    let bookmark = json!([{"type": "BOOKMARK", "clusterUid": "c-2", "instance": "i-2", "resources": resources}]);
    assert_eq!(quotad.call("POST", "/v1/events", &[], &bookmark).0, 200);
    let status = quotad.get("/v1/status");
    let sources = status["sources"].as_array().unwrap().iter();
    let shown = sources.map(|it| {
        (it["name"].as_str().unwrap(), it["position"].is_u64(), it["watermarks"].is_array())
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [("OBJECTS", true, true), ("anonymous", false, true)],
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_while_the_publisher_is_away() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let (quotad, publisher) = without_pods(&directory, &server, 2).await;
    for uid in ["p-1", "p-2"] {
        assert_eq!(reserve(&quotad, uid), granted());
    }
    // The stream is idle and the time of both is over: nobody knows whether they were created.
    let lags = |quotad: &Quotad| {
        let answer = quotad.get("/v1/namespaces/team-a/usage");
        answer["lagging"] == json!(true)
    };
    until("answers say that it lags", || lags(&quotad).then_some(())).await;
    assert!(metric(&quotad, "quota_ledger_watermark_age_seconds{resource=\"pods\"}") > 2.0);
    let (status, text) = quotad.ask_admin("/readyz");
    assert!(
        status == 200 && text.contains("[+]watermarks ok, lagging: old watermarks: pods"),
        "{text}"
    );
    assert_eq!(reserve(&quotad, "p-3"), exceeds());

    // A daemon that is killed knows as much afterwards, and grants nothing before it knows more.
    quotad.kill();
    let quotad = start(directory.path(), &server);
    waits(&quotad, "no watermark of each kind since the start: pods").await;
    assert_eq!(reserve(&quotad, "p-3"), not_ready());

    // The publisher is back. One of the two was created.
    publisher.send(&[pod("p-1")]).await;
    publisher.bookmark().await;
    ready(&quotad).await;
    until("the other one's place is free", || (reserve(&quotad, "p-3") == granted()).then_some(()))
        .await;
    assert_eq!(reserve(&quotad, "p-4"), exceeds());
    assert!(!lags(&quotad));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_a_watermark_counts_when_everything_was_listed_again() {
    let (server, directory) = (Server::start(), TempDir::new().unwrap());
    let (quotad, publisher) = without_pods(&directory, &server, 2).await;
    quotad.kill();
    // What is published while it is away is lost.
    publisher.send(&[pod("lost")]).await;
    let stream = publisher.0.get_stream(STREAM).await.unwrap();
    stream.purge().await.unwrap();
    publisher.bookmark().await;
    let quotad = start(directory.path(), &server);
    not_listed(&quotad).await;
    publisher.bookmark().await;
    assert_eq!(reserve(&quotad, "p-1"), not_ready());
    publisher.relist(&["lost"]).await;
    publisher.bookmark().await;
    ready(&quotad).await;
    assert_eq!(reserve(&quotad, "p-1"), granted());
    assert_eq!(reserve(&quotad, "p-2"), exceeds());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_shows_in_lag_and_readiness() {
    let (mut server, directory) = (Server::start(), TempDir::new().unwrap());
    let quotad = start_with(directory.path(), &server, &[]);
    ready(&quotad).await;
    let lag = "quota_ledger_stream_lag_seconds";
    server.kill();
    until("the lag grows", || (metric(&quotad, lag) > 1.0).then_some(())).await;
    let before = metric(&quotad, lag);
    until("it grows on", || (metric(&quotad, lag) > before + 0.5).then_some(())).await;
    let (status, text) = quotad.ask_admin("/readyz");
    let expected = "[+]stream ok, lagging: the NATS server is not connected";
    assert!(status == 200 && text.contains(expected), "{text}");
    assert_eq!(quotad.get("/v1/quotas")["lagging"], json!(true));
    server.restart();
    until("it has caught up", || {
        let (_, text) = quotad.ask_admin("/readyz");
        (text == "ok" && metric(&quotad, lag) < 1.0).then_some(())
    })
    .await;
}
