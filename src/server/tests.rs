mod bounds;
mod http2;
mod peers;

use std::future::pending;

use axum::{
    body::{Body, Bytes},
    handler::Handler,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::*;
use crate::{
    auth::Access::Public,
    routes::{self, BodyLimit, ResponseFuture, Route, Rules},
};

/// Ends a test that would hang; not part of the assertions.
const HANG: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(50);

pub(super) fn options() -> Options {
    Options {
        listener: Listener::Api,
        connections: 100,
        header_timeout: LONG,
        body_timeout: LONG,
        request_timeout: LONG,
        keep_alive: LONG,
        grace: LONG,
        draining: CancellationToken::new(),
        body_bytes: 1000,
        events_body_bytes: 3000,
        hosts: None,
        budget: BodyBudget::new(1 << 20),
        retry_after: true,
    }
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    draining: CancellationToken,
    served: JoinHandle<()>,
}

impl Server {
    pub(super) fn start(router: Router, options: Options, tls: Option<Tls>) -> Self {
        let bound = Bound::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = bound.address();
        let stop = CancellationToken::new();
        let draining = options.draining.clone();
        let served = tokio::spawn(bound.serve(router, options, tls, stop.clone()));
        Self { address, stop, draining, served }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a text, and reads until the connection ends.
    async fn exchange(&self, sent: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn stopped(self) {
        within(self.served).await.unwrap();
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("the test hangs")
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    // A reset ends a connection as well.
    let _ = within(stream.read_to_end(&mut received)).await;
    String::from_utf8(received).unwrap()
}

/// Reads one response with a content-length.
async fn one_answer(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    loop {
        received.push(within(stream.read_u8()).await.unwrap());
        if received.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(received).unwrap().to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let mut body = vec![0; length.split("\r\n").next().unwrap().parse().unwrap()];
            within(stream.read_exact(&mut body)).await.unwrap();
            return head + &String::from_utf8(body).unwrap();
        }
    }
}

/// A public route.
fn get<T, H>(path: &'static str, handler: H) -> Route
where
    H: Handler<T, (), Future = ResponseFuture>,
{
    routes::get(path, Public, handler)
}

/// A router that is open to everybody.
pub(super) fn open(routes: impl IntoIterator<Item = Route>) -> Router {
    crate::routes::router(routes, Rules::default())
}

fn lengths() -> Vec<Route> {
    let length = |body: Body| async move {
        let body = axum::body::to_bytes(body, usize::MAX).await;
        body.map_or_else(|error| error.to_string(), |body| body.len().to_string())
    };
    vec![
        get("/", || async { "hello" }),
        routes::post("/body", Public, length),
        routes::post("/large", Public, length).body(BodyLimit::Events),
    ]
}

fn length_of() -> Router {
    open(lengths())
}

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const LAST_GET: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

fn assert_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

/// A router whose `/` answers on demand, and a channel that reports each request.
fn on_demand() -> (Router, mpsc::Receiver<oneshot::Sender<()>>) {
    let (requested, asks) = mpsc::channel(1);
    let answer = get("/", move || async move {
        let (go, gone) = oneshot::channel();
        requested.send(go).await.unwrap();
        let _ = gone.await;
        "done"
    });
    (open([answer]), asks)
}

#[tokio::test]
async fn a_drain_lets_requests_end() {
    let (router, mut asks) = on_demand();
    let server = Server::start(router, options(), None);
    let mut busy = server.connect().await;
    let mut idle = server.connect().await;
    busy.write_all(GET.as_bytes()).await.unwrap();
    let go = within(asks.recv()).await.unwrap();
    idle.write_all(GET.as_bytes()).await.unwrap();
    within(asks.recv()).await.unwrap().send(()).unwrap();
    one_answer(&mut idle).await;

    server.stop.cancel();
    assert_eq!(rest(&mut idle).await, "", "an idle connection ends at once");
    go.send(()).unwrap();
    let answer = rest(&mut busy).await;
    assert!(answer.ends_with("done"), "{answer}");
    let address = server.address;
    server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn before_it_stops_answers_end_their_connections() {
    let server = Server::start(length_of(), options(), None);
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut stream).await.ends_with("hello"));
    server.draining.cancel();
    stream.write_all(GET.as_bytes()).await.unwrap();
    let last = rest(&mut stream).await;
    assert!(last.contains("connection: close"), "{last}");
    // New connections are accepted.
    let answer = server.exchange(GET).await;
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn a_drain_ends_with_its_grace() {
    let (router, mut asks) = on_demand();
    let server = Server::start(router, Options { grace: SHORT, ..options() }, None);
    let mut busy = server.connect().await;
    busy.write_all(GET.as_bytes()).await.unwrap();
    let _go = within(asks.recv()).await.unwrap();
    server.stop.cancel();
    server.stopped().await;
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test]
async fn a_panic_is_answered() {
    let panics = get("/panic", || async {
        if true {
            panic!("as wanted")
        }
    });
    let router = open(lengths().into_iter().chain([panics]));
    let server = Server::start(router, options(), None);
    let answer = server.exchange("GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_status(&answer, 500);
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(!answer.contains("as wanted"), "{answer}");
    assert_status(&server.exchange(LAST_GET).await, 200);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered() {
    let router = || open([get("/", pending::<()>)]);
    let short = Options { request_timeout: SHORT, ..options() };
    let server = Server::start(router(), short.clone(), None);
    let answer = server.exchange(LAST_GET).await;
    assert_status(&answer, 503);
    assert!(answer.contains("retry-after: 1"), "{answer}");
    // Its body has not arrived, but nothing waits for it.
    let with_body = LAST_GET.replace("\r\n\r\n", "\r\ncontent-length: 9\r\n\r\n");
    assert_status(&server.exchange(&with_body).await, 503);

    let server = Server::start(router(), Options { retry_after: false, ..short }, None);
    let answer = server.exchange(LAST_GET).await;
    assert_status(&answer, 503);
    assert!(!answer.contains("retry-after"), "{answer}");
}

#[tokio::test]
async fn a_request_has_an_id() {
    let server = Server::start(length_of(), options(), None);
    let with =
        |id: &str| format!("GET / HTTP/1.1\r\nconnection: close\r\nx-request-id: {id}\r\n\r\n");
    assert!(server.exchange(&with("abc-1")).await.contains("x-request-id: abc-1\r\n"));
    for unusable in ["a b", &"x".repeat(129), ""] {
        let answer = server.exchange(&with(unusable)).await;
        let id = answer.split("x-request-id: ").nth(1).unwrap().split("\r\n").next().unwrap();
        assert_eq!(id.len(), 36, "{id}");
    }
}

fn limit(current: u64, maximum: u64) -> Rlimit {
    Rlimit { current: Some(current), maximum: Some(maximum) }
}

#[test]
fn the_limit_is_raised_as_far_as_needed_and_permitted_and_never_lowered() {
    assert_eq!(raised(&limit(1024, 4096), 2000).current, Some(2000));
    assert_eq!(raised(&limit(1024, 4096), 9000).current, Some(4096));
    assert_eq!(raised(&limit(8000, 9000), 2000).current, Some(8000));
    let unlimited = Rlimit { current: None, maximum: None };
    assert_eq!(raised(&unlimited, 2000).current, None);
    assert_eq!(fit(&unlimited, 3, 10), 10);
}

#[test]
fn the_ledger_keeps_its_descriptors() {
    assert_eq!(fit(&limit(100_000, 100_000), 3, 10_000), 10_000);
    assert_eq!(fit(&limit(4096, 4096), 2, 10_000), 1792);
    assert_eq!(fit(&limit(256, 256), 2, 10_000), 64);
    assert_eq!(fit(&limit(1, 1), 3, 10_000), 1);
}
