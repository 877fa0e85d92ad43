//! Health and metrics, on a separate listener: probes must not depend on certificates, nor on the load of the API.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use parking_lot::RwLock;

/// Renders all metrics in the Prometheus text format. It may block.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// The checks that must pass before requests are answered. Clones share them.
#[derive(Clone, Default)]
pub struct Readiness(Arc<RwLock<BTreeMap<&'static str, Compute>>>);

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The check passes.
    Passed,
    /// Requests are answered, but an operator should investigate, for this reason.
    Lagging(String),
    /// The check fails, for this reason.
    Failed(String),
}

/// Computes the result of a check.
type Compute = Box<dyn Fn() -> Health + Send + Sync>;

/// A readiness check. It fails until it is set to pass.
#[derive(Clone)]
pub struct Check(Arc<RwLock<Health>>);

impl Readiness {
    /// Adds a check that fails at first, for this reason.
    pub fn register(&self, name: &'static str, reason: &str) -> Check {
        let health = Arc::new(RwLock::new(Health::Failed(reason.to_owned())));
        let check = Check(Arc::clone(&health));
        self.register_computed(name, move || health.read().clone());
        check
    }

    /// Adds a check whose result is computed for each request.
    pub fn register_computed(
        &self,
        name: &'static str,
        compute: impl Fn() -> Health + Send + Sync + 'static,
    ) {
        self.0.write().insert(name, Box::new(compute));
    }

    fn checks(&self) -> Checks {
        let all = self.0.read();
        all.iter().map(|(name, compute)| (*name, compute())).collect()
    }
}

type Checks = BTreeMap<&'static str, Health>;

impl Check {
    /// Sets the check to pass.
    pub fn pass(&self) {
        self.set(Health::Passed);
    }

    /// Sets the check to fail, for this reason.
    pub fn fail(&self, reason: &str) {
        self.set(Health::Failed(reason.to_owned()));
    }

    /// Sets its result.
    pub fn set(&self, health: Health) {
        *self.0.write() = health;
    }
}

/// `/metrics`, `/livez`, `/readyz` and `/healthz`. Responses are not compressed: listeners may do that.
pub fn router(metrics: Render, readiness: Readiness) -> Router {
    probes(readiness).route("/metrics", get(show_metrics).with_state(metrics))
}

/// The paths of probes, with their descriptions.
pub const PROBES: [(&str, &str); 6] = [
    ("/livez", "whether the process answers"),
    ("/livez/{check}", "one check of it"),
    ("/readyz", "whether requests are answered; `verbose`, `exclude`"),
    ("/readyz/{check}", "one check of it"),
    ("/healthz", "the same as `/livez`"),
    ("/healthz/{check}", "one check of it"),
];

/// The readiness probe; the others are liveness probes.
const READYZ: &str = "readyz";

/// The routes of [`PROBES`].
pub fn probes(readiness: Readiness) -> Router {
    let live = |name| {
        move |path: Option<Path<String>>, RawQuery(query): RawQuery| async move {
            // The answer itself is the check.
            let checks = BTreeMap::from([("ping", Health::Passed)]);
            report(name, &checks, path.as_deref().map(String::as_str), query.as_deref())
        }
    };
    let ready = |State(readiness): State<Readiness>,
                 path: Option<Path<String>>,
                 RawQuery(query): RawQuery| async move {
        let path = path.as_deref().map(String::as_str);
        report(READYZ, &readiness.checks(), path, query.as_deref())
    };
    let mut router = Router::new();
    for (path, _) in PROBES {
        let name = path.split('/').nth(1).unwrap_or_default();
        router = match name {
            READYZ => router.route(path, get(ready)),
            name => router.route(path, get(live(name))),
        };
    }
    router.with_state(readiness)
}

/// The metrics in the text format of Prometheus.
async fn show_metrics(State(metrics): State<Render>) -> Response {
    const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
    match tokio::task::spawn_blocking(move || metrics()).await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The report in the format of Kubernetes' own health endpoints, but with 503 on failure, as load balancers expect.
/// Lagging checks are always listed.
fn report(endpoint: &str, checks: &Checks, only: Option<&str>, query: Option<&str>) -> Response {
    let parameters = query
        .unwrap_or_default()
        .split('&')
        .map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    let mut verbose = false;
    let mut excluded = Vec::new();
    for (key, value) in parameters {
        match key {
            "verbose" => verbose = true,
            "exclude" => excluded.push(value),
            _ => {}
        }
    }
    let chosen: Vec<_> =
        checks.iter().filter(|(name, _)| only.is_none_or(|only| only == **name)).collect();
    if chosen.is_empty() && only.is_some() {
        return (StatusCode::NOT_FOUND, "no such check\n").into_response();
    }
    let mut text = String::new();
    let mut passed = true;
    for (name, health) in chosen {
        let _ = match health {
            _ if excluded.contains(name) => writeln!(text, "[+]{name} excluded: ok"),
            Health::Passed => writeln!(text, "[+]{name} ok"),
            Health::Lagging(reason) => {
                verbose = true;
                writeln!(text, "[+]{name} ok, lagging: {reason}")
            }
            Health::Failed(reason) => {
                passed = false;
                writeln!(text, "[-]{name} failed: {reason}")
            }
        };
    }
    for name in excluded.iter().filter(|name| !checks.contains_key(**name)) {
        let _ = writeln!(text, "warn: no check to exclude is called {name:?}");
    }
    if passed && !verbose {
        return "ok".into_response();
    }
    let (status, word) = if passed {
        (StatusCode::OK, "passed")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    };
    let _ = writeln!(text, "{endpoint} check {word}");
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(readiness: &Readiness, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let router =
            router(Arc::new(|| "process_start_time_seconds 1\n".to_owned()), readiness.clone());
        let response = router.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_needs_every_check() {
        let readiness = Readiness::default();
        let ledger = readiness.register("ledger", "not recovered yet");
        let stream = readiness.register("stream", "not caught up yet");
        ledger.pass();
        let failed = "[+]ledger ok\n[-]stream failed: not caught up yet\nreadyz check failed\n";
        assert_eq!(ask(&readiness, "/readyz").await, (503, failed.to_owned()));
        assert_eq!(ask(&readiness, "/readyz?exclude=stream").await, (200, "ok".to_owned()));
        assert_eq!(ask(&readiness, "/readyz/ledger").await, (200, "ok".to_owned()));
        assert_eq!(ask(&readiness, "/readyz/stream").await.0, 503);
        assert_eq!(ask(&readiness, "/readyz/nothing").await.0, 404);
        stream.pass();
        assert_eq!(ask(&readiness, "/readyz").await, (200, "ok".to_owned()));
        let passed = "[+]ledger excluded: ok\n[+]stream ok\n\
                      warn: no check to exclude is called \"x\"\nreadyz check passed\n";
        let query = "/readyz?verbose&exclude=ledger&exclude=x";
        assert_eq!(ask(&readiness, query).await, (200, passed.to_owned()));
        stream.fail("draining");
        assert_eq!(ask(&readiness, "/readyz").await.0, 503);
    }

    #[tokio::test]
    async fn what_lags_is_ready_and_says_so() {
        let readiness = Readiness::default();
        readiness.register_computed("stream", || Health::Lagging("no server".to_owned()));
        let lagging = "[+]stream ok, lagging: no server\nreadyz check passed\n";
        assert_eq!(ask(&readiness, "/readyz").await, (200, lagging.to_owned()));
        let check = readiness.register("stream", "not caught up yet");
        check.set(Health::Lagging("no server".to_owned()));
        assert_eq!(ask(&readiness, "/readyz").await.0, 200);
        readiness.register_computed("stream", || Health::Passed);
        assert_eq!(ask(&readiness, "/readyz").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn liveness_needs_nothing() {
        let readiness = Readiness::default();
        let _ = readiness.register("ledger", "not recovered yet");
        assert_eq!(ask(&readiness, "/livez").await, (200, "ok".to_owned()));
        assert_eq!(ask(&readiness, "/healthz/ping").await, (200, "ok".to_owned()));
        let verbose = "[+]ping ok\nhealthz check passed\n".to_owned();
        assert_eq!(ask(&readiness, "/healthz?verbose=1").await, (200, verbose));
    }

    #[tokio::test]
    async fn metrics_are_text() {
        let (status, text) = ask(&Readiness::default(), "/metrics").await;
        assert_eq!(status, 200);
        assert!(text.contains("process_start_time_seconds "), "{text}");
    }
}
