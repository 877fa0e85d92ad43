//! Peers that disconnect, wait, or take no bytes while they are answered.

use std::{future::ready, task::Poll};

use parking_lot::Mutex;
use tokio::time::interval;

use super::*;

/// Reports when it is dropped.
struct Notice(mpsc::Sender<()>);

impl Drop for Notice {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

#[tokio::test]
async fn a_peer_that_goes_while_it_is_answered_is_noticed_though_it_has_sent_more() {
    let (ended, mut endings) = mpsc::channel(1);
    let silent = get("/", move || async move {
        let notice = Notice(ended);
        Body::from_stream(futures::stream::poll_fn(move |_| {
            let _ = &notice;
            Poll::<Option<io::Result<Bytes>>>::Pending
        }))
    });
    let options = Options { header_timeout: SHORT, ..options() };
    let server = Server::start(open([silent]), options, None);
    let mut stream = server.connect().await;
    stream.write_all(GET.repeat(3).as_bytes()).await.unwrap();
    // The head of the response has begun.
    within(stream.read_u8()).await.unwrap();
    assert!(endings.is_empty());
    stream.shutdown().await.unwrap();
    assert_eq!(within(endings.recv()).await, Some(()));
}

#[tokio::test]
async fn a_peer_that_goes_while_it_is_answered_is_noticed_though_not_all_that_it_sent_is_read() {
    let (ended, mut endings) = mpsc::channel(1);
    let slow = get("/", move || async move {
        let notice = Notice(ended);
        let mut ticks = interval(SHORT / 2);
        Body::from_stream(futures::stream::poll_fn(move |cx| {
            let _ = &notice;
            // Woken more often than the interval, and never with data.
            while ticks.poll_tick(cx).is_ready() {}
            Poll::<Option<io::Result<Bytes>>>::Pending
        }))
    });
    let options = Options { header_timeout: SHORT, ..options() };
    let server = Server::start(open([slow]), options, None);
    let mut stream = server.connect().await;
    // More than is read ahead, less than the kernel's buffers hold.
    stream.write_all(GET.repeat(2000).as_bytes()).await.unwrap();
    within(stream.read_u8()).await.unwrap();
    drop(stream);
    assert_eq!(within(endings.recv()).await, Some(()));
}

#[tokio::test]
async fn a_peer_that_waits_for_the_rest_of_an_answer_is_kept() {
    let (last, waiting) = mpsc::channel::<Bytes>(1);
    let waiting = Arc::new(Mutex::new(Some(waiting)));
    let (looks, mut looked) = mpsc::channel(1);
    let late = get("/", move || {
        let mut waiting = waiting.lock().take().unwrap();
        let body = futures::stream::poll_fn(move |cx| {
            let _ = looks.try_send(());
            waiting.poll_recv(cx).map(|bytes| bytes.map(Ok::<_, io::Error>))
        });
        ready(Body::from_stream(body))
    });
    let options = Options { header_timeout: SHORT, ..options() };
    let server = Server::start(open([late]), options, None);
    let mut stream = server.connect().await;
    stream.write_all(LAST_GET.as_bytes()).await.unwrap();
    // It was woken to check the peer.
    for _ in 0..4 {
        within(looked.recv()).await.unwrap();
    }
    last.send(Bytes::from_static(b"the rest")).await.unwrap();
    drop(last);
    let answer = rest(&mut stream).await;
    assert!(answer.contains("the rest"), "{answer}");
}

#[tokio::test]
async fn a_peer_that_takes_no_bytes_is_given_up() {
    let (ended, mut endings) = mpsc::channel(1);
    let endless = get("/", move || async move {
        let notice = Notice(ended);
        Body::from_stream(futures::stream::repeat_with(move || {
            let _ = &notice;
            Ok::<_, io::Error>(Bytes::from_static(&[0; 65_536]))
        }))
    });
    let options = Options { keep_alive: SHORT, ..options() };
    let server = Server::start(open([endless]), options, None);
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    assert_eq!(within(endings.recv()).await, Some(()));
}

/// The bytes of a response, which report when they are freed.
struct Whole {
    bytes: Vec<u8>,
    _notice: Notice,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[tokio::test]
async fn a_peer_that_takes_an_answer_bit_by_bit_is_given_up() {
    let (ended, mut endings) = mpsc::channel(1);
    let large = get("/", move || async move {
        let _notice = Notice(ended);
        let bytes = vec![b'x'; 64 << 20];
        Body::from(Bytes::from_owner(Whole { bytes, _notice }))
    });
    let options = Options { request_timeout: SHORT, budget: BodyBudget::new(1 << 30), ..options() };
    let server = Server::start(open([large]), options, None);
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    let mut pace = interval(Duration::from_millis(1));
    let mut some = [0; 4096];
    let mut taken = 0;
    while endings.is_empty() {
        taken += within(stream.read(&mut some)).await.unwrap();
        pace.tick().await;
    }
    assert_eq!(within(endings.recv()).await, Some(()));
    // Bytes in transit still arrive.
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert!(taken + rest.len() < 64 << 20, "it has all");
}

#[tokio::test]
async fn a_peer_that_takes_a_watch_bit_by_bit_is_kept() {
    let watch = get("/", || async {
        let pieces = || Ok::<_, io::Error>(Bytes::from_static(&[0; 65_536]));
        Body::from_stream(futures::stream::repeat_with(pieces))
    });
    let options = Options { request_timeout: SHORT, ..options() };
    let server = Server::start(open([watch]), options, None);
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    let mut pace = interval(Duration::from_millis(1));
    let mut some = vec![0; 65_536];
    for _ in 0..200 {
        assert_ne!(within(stream.read(&mut some[..4096])).await.unwrap(), 0);
        pace.tick().await;
    }
    // More than was in transit.
    for _ in 0..1000 {
        within(stream.read_exact(&mut some)).await.unwrap();
    }
}
