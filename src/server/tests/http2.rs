//! HTTP/2, over a stream in memory.

use std::net::Ipv4Addr;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{io::DuplexStream, sync::Notify};

use super::*;
use crate::server::http2;

/// The address that connections come in at.
const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);

struct Connection {
    requests: SendRequest<Empty<Bytes>>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
    invalid: Arc<Notify>,
    served: JoinHandle<()>,
}

impl Connection {
    async fn new(router: Router, options: Options) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (slots, stop, invalid, served) = serve(theirs, router, options);
        let (requests, driven) = handshake(TokioExecutor::new(), TokioIo::new(ours))
            .await
            .unwrap();
        tokio::spawn(driven);
        Self {
            requests,
            slots,
            stop,
            invalid,
            served,
        }
    }

    /// Sends a request, and gives what waits for its answer.
    fn send(&self, path: &str) -> JoinHandle<(StatusCode, String)> {
        self.send_to("x", path)
    }

    fn send_to(&self, host: &str, path: &str) -> JoinHandle<(StatusCode, String)> {
        let mut requests = self.requests.clone();
        let uri = format!("https://{host}{path}");
        tokio::spawn(async move {
            let request = Request::get(uri).body(Empty::new()).unwrap();
            let (head, body) = requests.send_request(request).await.unwrap().into_parts();
            assert!(!head.headers.contains_key("connection"));
            let bytes = body.collect().await.unwrap().to_bytes();
            (head.status, String::from_utf8(bytes.to_vec()).unwrap())
        })
    }

    async fn ended(self) {
        within(self.served).await.unwrap();
    }
}

type Serving = (
    Arc<Semaphore>,
    CancellationToken,
    Arc<Notify>,
    JoinHandle<()>,
);

fn serve(stream: DuplexStream, router: Router, options: Options) -> Serving {
    let slots = Arc::new(Semaphore::new(options.connections));
    let (stop, invalid) = (CancellationToken::new(), Arc::new(Notify::new()));
    let peer = Peer {
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        names: Arc::new([]),
    };
    let requests = RequestContext {
        peer,
        local: Some(LOCAL.into()),
        router,
        options: Arc::new(options),
    };
    let (held, ends) = (slots.clone(), stop.clone());
    let gone = invalid.clone();
    let served = tokio::spawn(async move {
        let ends = Ends {
            stop: ends,
            invalid: gone.notified(),
        };
        http2::serve(stream, requests, held, ends).await;
    });
    (slots, stop, invalid, served)
}

/// `/wait` is answered once as many have been let go.
fn waiting() -> (Router, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let let_go = gate.clone();
    let wait = get("/wait", || async move {
        let_go.acquire().await.unwrap().forget();
        "hello"
    });
    (Router::new([get("/", || async { "hello" }), wait]), gate)
}

fn hello() -> (StatusCode, String) {
    (StatusCode::OK, "hello".to_owned())
}

/// Waits until so many slots are left.
async fn left(slots: &Semaphore, count: usize) {
    within(async {
        while slots.available_permits() != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn requests_of_a_connection_do_not_wait_for_each_other() {
    let (router, gate) = waiting();
    let connection = Connection::new(router, options()).await;
    let first = connection.send("/wait");
    assert_eq!(within(connection.send("/")).await.unwrap(), hello());
    gate.add_permits(1);
    assert_eq!(within(first).await.unwrap(), hello());
}

#[tokio::test]
async fn requests_for_the_address_of_the_connection_are_answered() {
    let (router, _gate) = waiting();
    let connection = Connection::new(router, options().with_hosts(Hosts::default())).await;
    let of_this_host = connection.send_to(&LOCAL.to_string(), "/");
    assert_eq!(within(of_this_host).await.unwrap(), hello());
    let (status, _) = within(connection.send("/")).await.unwrap();
    assert_eq!(status, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn each_request_after_the_first_takes_a_slot() {
    let (router, gate) = waiting();
    let connection = Connection::new(
        router,
        Options {
            connections: 1,
            ..options()
        },
    )
    .await;
    let first = connection.send("/wait");
    let second = connection.send("/wait");
    left(&connection.slots, 0).await;
    let (status, body) = within(connection.send("/")).await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("\"reason\":\"Overloaded\""), "{body}");
    gate.add_permits(2);
    for request in [first, second] {
        assert_eq!(within(request).await.unwrap(), hello());
    }
    left(&connection.slots, 1).await;
}

#[tokio::test]
async fn a_stop_and_a_certificate_that_does_not_count_any_more_let_requests_end() {
    let stop = |connection: &Connection| connection.stop.cancel();
    let invalid = |connection: &Connection| connection.invalid.notify_one();
    let ways: [&dyn Fn(&Connection); 2] = [&stop, &invalid];
    for end in ways {
        let (router, gate) = waiting();
        let connection = Connection::new(router, options()).await;
        let requests = [connection.send("/wait"), connection.send("/wait")];
        left(&connection.slots, options().connections - 1).await;
        end(&connection);
        // Nothing more is taken, once the peer has heard of it.
        let mut client = connection.requests.clone();
        let another = || Request::get("https://x/").body(Empty::new()).unwrap();
        within(async {
            while client.send_request(another()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(!connection.served.is_finished());
        gate.add_permits(2);
        for request in requests {
            assert_eq!(within(request).await.unwrap(), hello());
        }
        connection.ended().await;
    }
}

#[tokio::test]
async fn a_connection_that_idles_or_never_begins_is_given_up() {
    let short = || Options {
        keep_alive: SHORT,
        ..options()
    };
    let connection = Connection::new(length_of(), short()).await;
    assert_eq!(within(connection.send("/")).await.unwrap(), hello());
    connection.ended().await;

    let (silent, theirs) = tokio::io::duplex(1 << 16);
    let (_, _, _, served) = serve(theirs, length_of(), short());
    within(served).await.unwrap();
    drop(silent);
}

#[tokio::test]
async fn an_answer_that_is_not_taken_is_given_up() {
    const HUGE: usize = 8 << 20;
    let router = Router::new([get("/", || async { vec![b'x'; HUGE] })]);
    let bounds = Options {
        keep_alive: SHORT,
        request_timeout: 4 * SHORT,
        budget: BodyBudget::new(HUGE as u64),
        ..options()
    };
    let budget = bounds.budget.clone();
    let mut connection = Connection::new(router, bounds).await;
    let request = Request::get("https://x/").body(Empty::new()).unwrap();
    let answer = connection.requests.send_request(request).await.unwrap();
    // Its window is full, and pings are answered.
    connection.ended().await;
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(
        format!("{budget:?}"),
        format!("{:?}", BodyBudget::new(HUGE as u64))
    );
}
