//! A ledger behind its API, and a caller.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::described;
use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use quota_core::{decide::Policy, state::State};
use quota_journal::{FileJournal, Options, disk::RealDisk};
use quotad::{
    api::{self, App, Parts, Sources},
    auth::Principal,
    config::Config,
    intake::payload,
    routes::{Rules, router, with_state},
    writer::{self, Ledger, Threads, Watermark},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Sources with a state that tests set.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) caught_up: AtomicBool,
    pub(crate) lag: AtomicBool,
}

impl Sources for Told {
    fn are_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::SeqCst)
    }
    fn lag(&self) -> bool {
        self.lag.load(Ordering::SeqCst)
    }
}

/// A ledger and its API.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) ledger: Ledger,
    pub(crate) sources: Arc<Told>,
    pub(crate) stop: CancellationToken,
    threads: Option<Threads<FileJournal>>,
    _directory: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null if there is none, or if it is not JSON.
    pub(crate) body: Value,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world with other limits.
    pub(crate) fn with(change: impl FnOnce(&mut Parts)) -> Self {
        Self::made(|_| {}, change)
    }

    /// A world with other rules.
    pub(crate) fn with_policy(change: impl FnOnce(&mut Policy)) -> Self {
        Self::made(change, |_| {})
    }

    /// A world in which quotas that are adopted stay those of their source, or do not.
    pub(crate) fn adopting(adopts_quotas: bool) -> Self {
        Self::with_policy(|policy| policy.adopts_quotas = adopts_quotas)
    }

    fn made(rule: impl FnOnce(&mut Policy), change: impl FnOnce(&mut Parts)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1 << 20, ..Options::default() };
        let (journal, reader, recovery) =
            FileJournal::open(Arc::new(RealDisk), directory.path(), options).unwrap();
        let mut policy =
            Policy { max_pending_per_namespace: 400, adopts_quotas: true, ..Policy::default() };
        rule(&mut policy);
        let options = writer::Options { policy, queue: 1024, max_batch_entries: 4096 };
        let (ledger, threads) = writer::start(
            State::default(),
            journal,
            recovery.durable,
            Arc::new(Watermark::without_sources()),
            options,
            |error| panic!("{error}"),
        )
        .unwrap();
        let sources =
            Arc::new(Told { caught_up: AtomicBool::new(true), lag: AtomicBool::new(false) });
        let stop = CancellationToken::new();
        let mut parts = Parts::new(
            &Config::default(),
            ledger.clone(),
            reader,
            sources.clone(),
            Arc::new(payload::Reader::new(&BTreeMap::new(), true)),
            stop.clone(),
        );
        change(&mut parts);
        let app = App::new(parts);
        Self {
            router: router(with_state(api::routes(), &app), Rules::default()),
            ledger,
            sources,
            stop,
            threads: Some(threads),
            _directory: directory,
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> http::Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Calls with headers and a body of any kind.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.answer(request.body(body.into()).unwrap()).await
    }

    /// Reads as a principal.
    pub(crate) async fn get_as(&self, principal: &Principal, path: &str) -> Reply {
        let mut request = Request::get(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(principal.clone());
        self.answer(request).await
    }

    async fn answer(&self, request: Request<Body>) -> Reply {
        let verb = request.method().clone();
        let method = verb.as_str();
        let route = described::route(request.uri().path());
        let (head, body) = self.send(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let content_type = head.headers.get("content-type");
        let content_type = content_type.map_or("", |value| value.to_str().unwrap());
        if let Some(route) = route {
            described::check(method, &route, head.status.as_u16(), content_type, &body);
        }
        let reply = Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        reply.is_well_formed(&body);
        reply
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &[], Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        let json = [("content-type", "application/json")];
        self.call("POST", path, &json, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        let json = [("content-type", "application/json")];
        self.call("PUT", path, &json, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.call("DELETE", path, &[], Body::empty()).await
    }

    /// Sets the quota `q` of the namespace `a`.
    pub(crate) async fn quota(&self, hard: Value) {
        let reply =
            self.put("/v1/namespaces/a/quotas/q", &json!({ "spec": { "hard": hard } })).await;
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
    }

    /// Records events, all of which must be news.
    pub(crate) async fn events(&self, events: &[Value]) {
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        let reply = self.call("POST", "/v1/events", &[], lines.join("\n")).await;
        assert_eq!(reply.body["accepted"], events.len(), "{reply:?}");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        self.ledger.close();
        if let Some(threads) = self.threads.take()
            && !std::thread::panicking()
        {
            threads.join().unwrap().close().unwrap();
        }
    }
}

impl Reply {
    /// What holds for every answer.
    fn is_well_formed(&self, body: &[u8]) {
        let content_type = self.headers.get("content-type").map(|value| value.to_str().unwrap());
        if self.status >= 400 && !body.is_empty() {
            assert_eq!(content_type, Some("application/problem+json"), "{self:?}");
            assert_eq!(self.body["status"], self.status, "{self:?}");
            let reason = self.body["reason"].as_str().unwrap();
            assert_eq!(self.body["type"], format!("urn:quota-ledger:problem:{reason}"));
            for field in ["title", "detail"] {
                assert!(!self.body[field].as_str().unwrap().is_empty(), "{self:?}");
            }
        }
        if matches!(self.status, 429 | 503) {
            assert_eq!(self.header("retry-after"), "1", "{self:?}");
        }
        let is_empty = matches!(self.status, 204 | 304);
        assert!(!is_empty || body.is_empty(), "{self:?}");
        let status = StatusCode::from_u16(self.status).unwrap();
        if status.is_success() && !body.is_empty() {
            assert_eq!(content_type, Some("application/json"), "{self:?}");
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.unwrap_or_else(|| panic!("no {name}: {self:?}")).to_str().unwrap()
    }

    /// Asserts the status and the reason of a refusal.
    pub(crate) fn is_refused(&self, status: u16, reason: &str) {
        assert_eq!((self.status, self.reason()), (status, reason), "{self:?}");
    }

    pub(crate) fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or_default()
    }

    /// Asserts the status.
    pub(crate) fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    pub(crate) fn items(&self) -> &[Value] {
        self.body["items"].as_array().unwrap()
    }
}

/// A body that reserves pods for a uid.
pub(crate) fn pods(uid: &str, pods: u64) -> Value {
    json!({ "reservedBy": { "uid": uid }, "reserved": { "pods": pods.to_string() } })
}

/// A plain event: a widget that counts for some units.
pub(crate) fn widget(name: &str, version: u64, units: &str) -> Value {
    json!({
        "type": "ADDED", "namespace": "a", "resource": "widgets.example.com", "name": name, "uid": name,
        "resourceVersion": version.to_string(), "usage": { "requests.example.com/units": units },
    })
}
