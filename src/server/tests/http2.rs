//! HTTP/2, over a stream in memory.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::DuplexStream,
    sync::{Notify, RwLock},
};

use super::*;
use crate::server::connection;

/// The local address of connections.
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
        let (requests, driven) = handshake(TokioExecutor::new(), TokioIo::new(ours)).await.unwrap();
        tokio::spawn(driven);
        Self { requests, slots, stop, invalid, served }
    }

    /// Sends a request, and returns the task that waits for its response.
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

type Serving = (Arc<Semaphore>, CancellationToken, Arc<Notify>, JoinHandle<()>);

fn serve(stream: DuplexStream, router: Router, options: Options) -> Serving {
    let slots = Arc::new(Semaphore::new(options.connections));
    let (stop, invalid) = (CancellationToken::new(), Arc::new(Notify::new()));
    let peer = Peer { address: SocketAddr::from(([127, 0, 0, 1], 1)), names: Arc::new([]) };
    let requests = RequestContext {
        peer,
        local: Some(LOCAL.into()),
        router,
        options: Arc::new(options),
        slots: slots.clone(),
    };
    let ends = stop.clone();
    let gone = invalid.clone();
    let served = tokio::spawn(async move {
        let ends = Ends { stop: ends, invalid: gone.notified() };
        let connection = connection::Connection {
            stream,
            is_gone: |_| false,
            is_http2: true,
            began: Instant::now(),
        };
        connection::serve(connection, requests, ends).await;
    });
    (slots, stop, invalid, served)
}

/// `/wait` is answered once the semaphore has a permit for it; a 503 of `/never` has no `Retry-After`.
fn waiting() -> (Router, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let let_go = gate.clone();
    let wait = get("/wait", || async move {
        let_go.acquire().await.unwrap().forget();
        "hello"
    });
    let never = get("/never", || async { "hello" }).without_retry_after();
    (open([get("/", || async { "hello" }), never, wait]), gate)
}

fn hello() -> (StatusCode, String) {
    (StatusCode::OK, "hello".to_owned())
}

/// Waits until this many slots are left.
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
    let connection = Connection::new(router, Options { connections: 1, ..options() }).await;
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
async fn a_request_without_a_slot_is_to_be_repeated_where_that_may_be_said() {
    for (retry_after, path, expected) in
        [(true, "/", true), (true, "/never", false), (false, "/", false)]
    {
        let (router, gate) = waiting();
        let few = Options { connections: 1, retry_after, ..options() };
        let connection = Connection::new(router, few).await;
        let others = [connection.send("/wait"), connection.send("/wait")];
        left(&connection.slots, 0).await;
        let request = Request::get(format!("https://x{path}")).body(Empty::new());
        let mut client = connection.requests.clone();
        let answer = within(client.send_request(request.unwrap())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let has_it = answer.headers().contains_key("retry-after");
        assert_eq!(has_it, expected, "{path} {retry_after}");
        gate.add_permits(2);
        for other in others {
            assert_eq!(within(other).await.unwrap(), hello());
        }
    }
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
        // No further requests are accepted once the peer has been notified.
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

/// A peer that does not answer pings may begin requests after GOAWAY.
#[tokio::test]
async fn requests_that_begin_after_the_certificate_has_ended_are_refused() {
    let (ours, near) = tokio::io::duplex(1 << 16);
    let (far, theirs) = tokio::io::duplex(1 << 16);
    let (_, _, invalid, _served) = serve(theirs, length_of(), options());
    let (sent, received) = (Arc::new(Progress::default()), Arc::new(Progress::default()));
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    tokio::spawn(sent.clone().pass_on(near_read, far_write));
    tokio::spawn(received.clone().pass_on(far_read, near_write));
    let (mut requests, driven) = handshake(TokioExecutor::new(), TokioIo::new(ours)).await.unwrap();
    tokio::spawn(driven);
    let hello = || Request::get("https://x/").body(Empty::<Bytes>::new()).unwrap();
    let first = within(requests.send_request(hello())).await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    first.into_body().collect().await.unwrap();

    // From here on the peer receives nothing, so that its request begins before it has answered the ping.
    let held_back = received.gate.write().await;
    let before = received.bytes();
    invalid.notify_one();
    within(received.beyond(before)).await;
    let before = sent.bytes();
    let late = tokio::spawn(requests.send_request(hello()));
    within(sent.beyond(before)).await;
    drop(held_back);
    let late = within(late).await.unwrap().unwrap();
    assert_eq!(late.status(), StatusCode::UNAUTHORIZED);
}

/// The bytes that one side of a connection has sent. They are passed on while nobody holds the gate.
#[derive(Default)]
struct Progress {
    bytes: AtomicUsize,
    gate: RwLock<()>,
}

impl Progress {
    async fn pass_on(
        self: Arc<Self>,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.bytes.fetch_add(length, Ordering::Relaxed);
            let _open = self.gate.read().await;
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits for further bytes.
    async fn beyond(&self, before: usize) {
        while self.bytes() == before {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_idles_or_never_begins_is_given_up() {
    let short = || Options { keep_alive: SHORT, ..options() };
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
    let router = open([get("/", || async { vec![b'x'; HUGE] })]);
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
    let slots = connection.slots.clone();
    // Its window is full, and pings are answered. Only its stream ends, and then the connection idles.
    connection.ended().await;
    assert_eq!(slots.available_permits(), options().connections);
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!(format!("{budget:?}"), format!("{:?}", BodyBudget::new(HUGE as u64)));
}

/// `/watch` sends the messages of the channel, without end.
fn lasting() -> (Route, mpsc::UnboundedSender<Vec<u8>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Arc::new(parking_lot::Mutex::new(Some(receiver)));
    let watch = get("/watch", move || {
        let receiver = receiver.lock().take().unwrap();
        async move {
            let said = futures::stream::unfold(receiver, |mut receiver| async move {
                let said: Vec<u8> = receiver.recv().await?;
                Some((Ok::<_, io::Error>(said), receiver))
            });
            Body::from_stream(said)
        }
    });
    (watch, sender)
}

#[tokio::test]
async fn an_answer_that_lasts_outlasts_the_time_of_others_as_long_as_it_is_taken() {
    let (watch, sender) = lasting();
    let bounds = Options { keep_alive: SHORT, request_timeout: SHORT, ..options() };
    let mut connection = Connection::new(open([watch]), bounds).await;
    let request = Request::get("https://x/watch").body(Empty::new()).unwrap();
    let answer = within(connection.requests.send_request(request)).await.unwrap();
    let mut body = answer.into_body();
    for said in ["one", "two"] {
        // Longer than the timeout of other responses.
        tokio::time::sleep(6 * SHORT).await;
        sender.send(said.into()).unwrap();
        let frame = within(body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), said);
    }
    // More than the peer's window holds.
    for _ in 0..64 {
        sender.send(vec![b'x'; 1 << 16]).unwrap();
    }
    connection.ended().await;
}

#[tokio::test]
async fn an_answer_that_is_not_taken_ends_alone() {
    const LARGE: usize = 8 << 20;
    let (watch, sender) = lasting();
    let large = get("/", || async { vec![b'x'; LARGE] });
    let bounds = Options {
        keep_alive: SHORT,
        request_timeout: SHORT,
        budget: BodyBudget::new(LARGE as u64),
        ..options()
    };
    let budget = bounds.budget.clone();
    let full = format!("{budget:?}");
    let connection = Connection::new(open([watch, large]), bounds).await;
    let mut client = connection.requests.clone();
    let mut ask = async |path: &str| {
        let request = Request::get(format!("https://x{path}")).body(Empty::new());
        within(client.send_request(request.unwrap())).await.unwrap()
    };
    let mut watched = ask("/watch").await.into_body();
    let unread = ask("/").await;
    assert_ne!(format!("{budget:?}"), full);
    let is_free = async {
        while format!("{budget:?}") != full {
            tokio::task::yield_now().await;
        }
    };
    within(is_free).await;
    assert!(unread.into_body().collect().await.is_err());
    // The other stream goes on, and keeps its connection in use.
    sender.send("afterwards".into()).unwrap();
    let frame = within(watched.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "afterwards");
    assert!(!connection.served.is_finished());
}

/// A connection without TLS that begins with HTTP/2.
async fn begun(server: &Server) -> SendRequest<Empty<Bytes>> {
    let stream = server.connect().await;
    let (requests, driven) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driven);
    requests
}

async fn status_of(
    requests: &mut SendRequest<Empty<Bytes>>,
    request: http::request::Builder,
) -> u16 {
    let request = request.body(Empty::new()).unwrap();
    let answer = within(requests.send_request(request)).await.unwrap();
    answer.status().as_u16()
}

#[tokio::test]
async fn without_tls_the_first_bytes_tell_which_version_is_spoken() {
    let server = Server::start(length_of(), options(), None);
    let mut requests = begun(&server).await;
    let hello = || Request::get("http://x/");
    assert_eq!(status_of(&mut requests, hello()).await, 200);
    let large = |bytes: usize| hello().header("h", "v".repeat(bytes));
    assert_eq!(status_of(&mut requests, large(15_000)).await, 200);
    assert_eq!(status_of(&mut requests, large(17_000)).await, 431);
    assert_eq!(status_of(&mut requests, hello()).await, 200);

    // A text that only begins like the preface is an HTTP/1 request, in any number of pieces.
    let mut stream = server.connect().await;
    stream.set_nodelay(true).unwrap();
    for piece in ["P", "OST /body HTTP/1.1\r\nhost: x\r\n", "content-length: 2\r\n\r\nab"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(one_answer(&mut stream).await.ends_with("\r\n\r\n2"));
    let other = "PRI * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_status(&server.exchange(other).await, 404);
    server.stop.cancel();
    server.stopped().await;
}

#[tokio::test]
async fn without_tls_requests_are_for_our_hosts_in_either_version() {
    let ours = Options { hosts: Some(Hosts::new(&[])), ..options() };
    let server = Server::start(length_of(), ours, None);
    let mut requests = begun(&server).await;
    let to = |host: &str| Request::get(format!("http://{host}/"));
    assert_eq!(status_of(&mut requests, to("127.0.0.1")).await, 200);
    assert_eq!(status_of(&mut requests, to("evil.example")).await, 421);
}

#[tokio::test]
async fn half_a_preface_is_given_up_and_a_stop_does_not_wait_for_the_rest() {
    let short = Options { header_timeout: SHORT, ..options() };
    let server = Server::start(length_of(), short, None);
    assert_eq!(server.exchange("PRI * HTTP/2.0\r\n\r\nSM").await, "");
    let server = Server::start(length_of(), options(), None);
    let mut stream = server.connect().await;
    stream.write_all(b"PRI * ").await.unwrap();
    server.stop.cancel();
    assert_eq!(rest(&mut stream).await, "");
    server.stopped().await;
}
