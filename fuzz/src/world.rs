//! A ledger on a disk in memory, behind the daemon's routes.

use std::{cell::RefCell, collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use quota_core::{decide::Policy, state::State};
use quota_journal::{FileJournal, Options, simulation::SimDisk};
use quota_semantics::{Span, admission::Charging};
use quotad::{
    admission::{self, Hook, Rules},
    api::{self, App, NoSources, Parts},
    config::Config,
    intake::payload,
    kube::{self, Kube},
    routes::{self, router, with_state},
    writer::{self, Ledger, Threads, Watermark},
};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// A ledger with more entries than this is discarded, so that memory stays bounded and inputs are nearly independent.
const ENTRIES_MAX: u64 = 256;

/// The longest time of a call: answers take milliseconds.
const HANG: Duration = Duration::from_secs(4);

/// Longer answers are not read to the end.
const ANSWER_BYTES_MAX: usize = 4 << 20;

pub struct World {
    pub runtime: Runtime,
    pub router: Router,
    pub ledger: Ledger,
    stop: CancellationToken,
    threads: Option<Threads<FileJournal>>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Calls `act` with a ledger that has few entries.
pub fn with(act: impl FnOnce(&World)) {
    WORLD.with_borrow_mut(|world| {
        if world.as_ref().is_some_and(|world| world.ledger.durable().sequence > ENTRIES_MAX) {
            *world = None;
        }
        act(world.get_or_insert_with(World::new));
    });
}

/// A quota with room, one without, and an object that counts.
const QUOTAS: [(&str, &str); 2] = [
    ("a", r#"{"pods":"10","requests.cpu":"4","count/deployments.apps":"3"}"#),
    ("full", r#"{"pods":"0"}"#),
];

const EVENT: &str = r#"{"type":"ADDED","namespace":"a","resource":"widgets.example.com","name":"w","uid":"w-1","resourceVersion":"4","usage":{"requests.cpu":"1"}}"#;

impl World {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (ledger, stop, threads, router) = {
            let _inside = runtime.enter();
            start()
        };
        let world = Self { runtime, router, ledger, stop, threads: Some(threads) };
        for (namespace, hard) in QUOTAS {
            let path = format!("/v1/namespaces/{namespace}/quotas/q");
            let body = format!(r#"{{"spec":{{"hard":{hard}}}}}"#);
            assert_eq!(world.call("PUT", &path, "application/json", body.into_bytes()).0, 201);
        }
        let events =
            world.call("POST", "/v1/events", "application/json", EVENT.as_bytes().to_vec());
        assert_eq!(events.0, 200);
        world
    }

    /// The number of entries, durable or not.
    pub fn head(&self) -> u64 {
        self.ledger.peek(|state| state.head().sequence)
    }

    /// Sends a request, and reads the answer.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> (u16, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Body::from(body))
            .unwrap();
        self.within(async {
            let answer = self.router.clone().oneshot(request).await;
            let response: Response<Body> = answer.unwrap();
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            (status, body.unwrap().to_bytes().to_vec())
        })
    }

    /// Waits for a future that must not hang.
    pub fn within<T>(&self, what: impl Future<Output = T>) -> T {
        let answer = self.runtime.block_on(async { tokio::time::timeout(HANG, what).await });
        answer.expect("it hangs")
    }
}

fn start() -> (Ledger, CancellationToken, Threads<FileJournal>, Router) {
    let options = Options { segment_bytes: 256 << 10, ..Options::default() };
    let disk = Arc::new(SimDisk::new(1));
    let (journal, reader, recovery) = FileJournal::open(disk, Path::new("/data"), options).unwrap();
    // No reservation expires during an input.
    let policy = Policy {
        default_ttl: Span::from_seconds(86_400),
        max_ttl: Span::from_seconds(86_400),
        ..Policy::default()
    };
    let config = Config::default();
    let (ledger, threads) = writer::start(
        State::default(),
        journal,
        recovery.durable,
        Arc::new(Watermark::without_sources()),
        writer::Options { policy, queue: 64, max_batch_entries: 4096 },
        |error| panic!("{error}"),
    )
    .unwrap();
    let stop = CancellationToken::new();
    let charging = Charging::new(["deployments.apps"]).unwrap();
    let events = payload::Reader::new(&BTreeMap::new(), true).with_charging(charging.clone());
    let app = App::new(Parts::new(
        &config,
        ledger.clone(),
        reader,
        Arc::new(NoSources),
        Arc::new(events),
        stop.clone(),
    ));
    let rules = Rules {
        charging,
        warn_ratio: 0.9,
        allow_when_behind: false,
        request_timeout: Duration::from_secs(2),
    };
    let kube = Kube::start(ledger.clone(), (&config).into(), stop.clone());
    let mut routes = with_state(api::routes(), &app);
    routes.extend(with_state(
        admission::routes(),
        &Hook::new(ledger.clone(), Arc::new(NoSources), rules),
    ));
    routes.extend(with_state(kube::routes(), &kube));
    let router = router(routes, routes::Rules::default());
    (ledger, stop, threads, router)
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
