//! Each route of the table answers, and is documented.

mod documented;

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use futures::StreamExt as _;
use http::{Method, Request, StatusCode};
use quota_core::decide::Policy;
use quota_journal::{FileJournal, Throttle};
use quota_semantics::admission::Charging;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::{
    admission::Rules,
    api::{NoSources, Parts},
    config::Config,
    recovery::recover,
    routes::{self, BodyLimit, Spec, router},
    writer::{self, Ledger, Threads, Watermark},
};

/// The API of a daemon whose ledger is empty.
struct World {
    router: axum::Router,
    ledger: Ledger,
    threads: Threads<FileJournal>,
    _directory: TempDir,
}

impl World {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let config = Config { data_dir: directory.path().to_owned(), ..Config::default() };
        let recovered = recover(&config, Throttle::default()).unwrap();
        let options =
            writer::Options { policy: Policy::default(), queue: 16, max_batch_entries: 16 };
        let (ledger, threads) = writer::start(
            recovered.state,
            recovered.journal,
            recovered.durable,
            Arc::new(Watermark::without_sources()),
            options,
            |error| panic!("{error}"),
        )
        .unwrap();
        let app = App::new(Parts::new(
            &config,
            ledger.clone(),
            recovered.reader,
            Arc::new(NoSources),
            Arc::default(),
            CancellationToken::new(),
        ));
        let rules = Rules {
            charging: Charging::default(),
            warn_ratio: 1.0,
            allow_when_behind: false,
            request_timeout: Duration::from_secs(1),
        };
        let hook = Hook::new(ledger.clone(), Arc::new(NoSources), rules);
        let kube = Kube::start(ledger.clone(), (&config).into(), CancellationToken::new());
        Self {
            router: router(
                of_api(app, hook, kube, Readiness::default()),
                routes::Rules::default().with_refusals(kube::refused),
            ),
            ledger,
            threads,
            _directory: directory,
        }
    }

    async fn call(&self, method: &Method, path: &str, body: &'static str) -> Response {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body)).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    fn close(self) {
        self.ledger.close();
        self.threads.join().unwrap().close().unwrap();
    }
}

/// The beginning of a response body.
async fn begin(response: Response) -> String {
    let first = response.into_body().into_data_stream().next().await;
    String::from_utf8_lossy(&first.unwrap().unwrap()).into_owned()
}

#[tokio::test]
async fn every_route_of_the_api_answers() {
    let world = World::new();
    let routes = specs().into_iter();
    for Spec { method, path, .. } in routes {
        let uri = path
            .replace("{namespace}", "team-a")
            .replace("{name}", "q")
            .replace("{uid}", "u")
            .replace("{*path}", "app.js");
        let response = world.call(&method, &uri, "{}").await;
        let status = response.status();
        assert!(
            status != StatusCode::METHOD_NOT_ALLOWED && !status.is_server_error(),
            "{method} {uri}: {status}"
        );
        // The ledger is empty, but each handler reports that with its own message.
        if status == StatusCode::NOT_FOUND {
            let text = begin(response).await;
            assert!(!text.contains("there is nothing at"), "{method} {uri}: {text}");
        }
    }
    world.close();
}

#[tokio::test]
async fn what_is_not_in_the_table_is_refused_in_the_words_of_those_who_ask() {
    let world = World::new();
    let delete = Method::DELETE;
    let response = world.call(&delete, "/v1/quotas", "").await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()["allow"], "GET,HEAD");
    let text = begin(response).await;
    assert!(text.contains(r#""reason":"MethodNotAllowed""#), "{text}");
    for path in ["/api/v1/resourcequotas", "/version"] {
        let text = begin(world.call(&delete, path, "").await).await;
        assert!(text.contains(r#""kind":"Status""#), "{text}");
    }
    for path in [
        "/v1",
        "/v1/",
        "/v1/quotas/",
        "/V1/quotas",
        "/%761/quotas",
        "//v1/quotas",
        "/v1/namespaces//quotas",
    ] {
        let response = world.call(&Method::GET, path, "").await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    // A namespace that was forgotten is not all of them.
    for method in [Method::GET, Method::DELETE] {
        let response = world.call(&method, "/api/v1/namespaces//resourcequotas", "");
        assert_eq!(response.await.status(), StatusCode::NOT_FOUND, "{method}");
    }
    world.close();
}

#[test]
fn bodies_are_bounded_by_what_they_bring() {
    for Spec { method, path, body, retry_after, .. } in specs() {
        let expected = match path {
            "/v1/events" | "/v1/drift" | "/v1/corrections" => BodyLimit::Events,
            "/admit" | "/audit" => continue,
            _ => BodyLimit::Request,
        };
        assert_eq!(body, expected, "{method} {path}");
        assert!(retry_after, "{method} {path}");
    }
    let admit = specs().into_iter().find(|spec| spec.path == "/admit").unwrap();
    assert!(!admit.retry_after, "an API server repeats what bears Retry-After");
}
