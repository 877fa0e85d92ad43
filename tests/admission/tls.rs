//! Over real TLS, with the certificates that `quotactl generate certs` makes.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use quota_core::event::Event;
use quotad::{
    admission::{ANSWERED_BYTES_MAX, BODY_BYTES_MAX},
    config::{Config, schema},
    metrics::Listener,
    reload::follow,
    server::{Bound, Options, tls::Tls},
};
use rustls::{
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    harness::{World, pod},
    support::{
        certificates::{Pair, client as client_config},
        programs,
    },
};

/// What the server's certificate is for.
pub(crate) const HOST: &str = "quotad.ns.svc";

struct Served {
    world: World,
    certificates: TempDir,
    address: SocketAddr,
    reload: watch::Sender<u64>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    async fn new() -> Self {
        let world = World::new();
        world.set_quota("q", &[("pods", "1000")]).await;
        let certificates = TempDir::new().unwrap();
        programs::certificates(certificates.path(), HOST);
        let file = |name| Some(certificates.path().join(name));
        let config = schema::Tls {
            cert: file("tls.crt"),
            key: file("tls.key"),
            client_ca: file("ca.crt"),
            allowed_names: vec!["kube-apiserver".to_owned()],
            ..schema::Tls::default()
        };
        let (tls, follower) = Tls::load(&config).unwrap();
        let (reload, reloads) = watch::channel(0);
        let stop = CancellationToken::new();
        tokio::spawn(follow(follower, reloads, stop.clone()));
        let bound = Bound::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = bound.address();
        let options = Options::new(Listener::Admission, &Config::default());
        let router = world.router.clone();
        let serving = tokio::spawn(bound.serve(router, options, Some(tls), stop.clone()));
        Self { world, certificates, address, reload, stop, serving }
    }

    fn client(&self) -> TlsConnector {
        client(self.certificates.path())
    }

    async fn stopped(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}

/// What an API server that trusts these certificates connects with.
pub(crate) fn client(certificates: &Path) -> TlsConnector {
    client_of(certificates, b"http/1.1")
}

/// The same by another protocol.
fn client_of(certificates: &Path, protocol: &[u8]) -> TlsConnector {
    let file = |name| certificates.join(name);
    let authority = fs::read_to_string(file("ca.crt")).unwrap();
    let own = Pair::read(&file("client.crt"), &file("client.key"));
    let mut config = client_config(&authority, Some(&own), &[&TLS13, &TLS12]);
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

pub(crate) async fn connect(
    address: SocketAddr,
    client: &TlsConnector,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    client.connect(ServerName::try_from(HOST).unwrap(), stream).await
}

const ADMIT: &str = "/admit?timeout=10s";

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: quotad.ns.svc\r\nUser-Agent: kube-apiserver-admission\r\n\
         Content-Length: {length}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\
         Accept-Encoding: gzip\r\n\r\n"
    )
}

pub(crate) async fn review(
    stream: &mut TlsStream<TcpStream>,
    review: &Value,
) -> std::io::Result<(StatusCode, Value)> {
    post(stream, ADMIT, review).await
}

pub(crate) async fn post(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    body: &Value,
) -> std::io::Result<(StatusCode, Value)> {
    let body = body.to_string();
    let head = head(path, body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    // Otherwise the end may stay in the buffer of TLS.
    stream.flush().await?;
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        received.push(stream.read_u8().await?);
    }
    let text = String::from_utf8(received).unwrap().to_ascii_lowercase();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let length = text.split("content-length: ").nth(1).unwrap();
    let mut body = vec![0; length.split("\r\n").next().unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await?;
    Ok((status, serde_json::from_slice(&body).unwrap()))
}

/// Whoever offers it is served by HTTP/2, and no request that was sent before a stop goes without its answer.
#[tokio::test]
async fn reviews_come_by_http2_many_at_once_and_none_is_lost_by_a_stop() {
    let served = Served::new().await;
    let client = client_of(served.certificates.path(), b"h2");
    let stream = connect(served.address, &client).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut requests, driven) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(stream),
    )
    .await
    .unwrap();
    let driven = tokio::spawn(driven);
    served.world.gate.shut();
    let mut answers = JoinSet::new();
    for number in 0..20 {
        let request = Request::post(format!("https://quotad.ns.svc{ADMIT}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(pod(&format!("p{number}")).to_string()))
            .unwrap();
        let answer = requests.send_request(request);
        answers.spawn(async move {
            let answer = answer.await.unwrap();
            let status = answer.status();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, serde_json::from_slice::<Value>(&body).unwrap())
        });
    }
    // The first of them is decided, none is answered.
    while served.world.counted("q", "pods") == "0+0" {
        tokio::task::yield_now().await;
    }
    served.stop.cancel();
    served.world.gate.open();
    while let Some(answer) = answers.join_next().await {
        let (status, review) = answer.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert_eq!(review["response"]["allowed"], true, "{review}");
    }
    assert_eq!(served.world.counted("q", "pods"), "0+20");
    driven.await.unwrap().unwrap();
    served.stopped().await;
}

#[tokio::test]
async fn an_api_server_is_known_by_its_certificate_and_its_user_by_the_review() {
    let served = Served::new().await;
    let mut entries = served.world.ledger.watch();
    let mut stream = connect(served.address, &served.client()).await.unwrap();
    let (status, answer) = review(&mut stream, &pod("a")).await.unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    let batch = entries.recv().await.unwrap();
    let granted = batch.iter().find(|entry| matches!(entry.event, Event::ReservationGranted(_)));
    let actor = &granted.unwrap().actor;
    assert_eq!(actor.principal, "kube-apiserver");
    assert_eq!(actor.user.as_deref(), Some("admin"));
    drop(stream);

    let stranger = TempDir::new().unwrap();
    programs::certificates(stranger.path(), HOST);
    let own = served.certificates.path();
    for name in ["client.crt", "client.key"] {
        fs::copy(stranger.path().join(name), own.join(name)).unwrap();
    }
    let refused = async {
        let mut stream = connect(served.address, &served.client()).await?;
        review(&mut stream, &pod("b")).await
    };
    assert!(refused.await.is_err(), "the right name by another CA");
    served.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_changed_under_load_and_each_review_is_answered() {
    const CALLERS: usize = 4;
    const REVIEWS: usize = 60;
    const ROTATIONS: u64 = 5;
    let served = Served::new().await;
    let old = served.client();
    let (rotated, rotations) = watch::channel((0_u64, old));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let mut rotations = rotations.clone();
        let address = served.address;
        callers.spawn(async move {
            let mut seen = Vec::new();
            let mut answered = 0;
            while answered < REVIEWS || *seen.last().unwrap_or(&0) < ROTATIONS {
                let (rotation, client) = rotations.borrow_and_update().clone();
                // New files are in force a moment after they are there.
                let Ok(mut stream) = connect(address, &client).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let mut last = false;
                loop {
                    let name = format!("p-{caller}-{}", answered % 100);
                    match review(&mut stream, &pod(&name)).await {
                        Ok((status, answer)) => {
                            assert_eq!(status, StatusCode::OK, "{answer}");
                            assert_eq!(answer["response"]["allowed"], true, "{answer}");
                            answered += 1;
                        }
                        // The connection ended with the CA of its certificate: the request is repeated over a new one.
                        Err(_) => break,
                    }
                    if seen.last() != Some(&rotation) {
                        seen.push(rotation);
                    }
                    if last {
                        break;
                    }
                    last = rotations.has_changed().unwrap() || answered >= REVIEWS;
                }
            }
            seen
        });
    }
    for rotation in 1..=ROTATIONS {
        programs::certificates(served.certificates.path(), HOST);
        served.reload.send(rotation).unwrap();
        rotated.send((rotation, served.client())).unwrap();
    }
    while let Some(seen) = callers.join_next().await {
        assert_eq!(seen.unwrap().last(), Some(&ROTATIONS));
    }
    let counted = served.world.counted("q", "pods");
    assert_eq!(
        counted,
        format!("0+{}", served.world.ledger.peek(quota_core::state::State::pending_count))
    );
    served.stopped().await;
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_nothing_half_done() {
    let served = Served::new().await;
    let client = served.client();
    let body = pod("a").to_string();

    // In the middle of the body: there was no review.
    let mut stream = connect(served.address, &client).await.unwrap();
    stream.write_all(head(ADMIT, body.len()).as_bytes()).await.unwrap();
    stream.write_all(&body.as_bytes()[..body.len() / 2]).await.unwrap();
    stream.flush().await.unwrap();
    drop(stream);
    assert_eq!(served.world.counted("q", "pods"), "0+0");

    // After it: the decision may stand, and the next call finds it.
    for _ in 0..20 {
        let mut stream = connect(served.address, &client).await.unwrap();
        stream.write_all(head(ADMIT, body.len()).as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
    }
    let mut stream = connect(served.address, &client).await.unwrap();
    let (status, answer) = review(&mut stream, &pod("a")).await.unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(true)));
    assert_eq!(served.world.counted("q", "pods"), "0+1");

    // An error would admit it, if the failure policy of the API server is `Ignore`.
    let mut large = pod("b");
    large["request"]["options"] = json!("x".repeat(3 * BODY_BYTES_MAX));
    let (status, answer) = review(&mut stream, &large).await.unwrap();
    assert_eq!((status, &answer["response"]["status"]["code"]), (StatusCode::OK, &json!(413)));
    // No API server can send as much.
    stream.write_all(head(ADMIT, ANSWERED_BYTES_MAX + 1).as_bytes()).await.unwrap();
    let mut received = [0; 12];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"HTTP/1.1 413");
    served.stopped().await;
}
