//! Answers over HTTP/2 that are not taken.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::attack::Target;

/// How long the daemon waits for a peer that takes nothing.
const KEEP_ALIVE: &str = "--limits.keep-alive=2s";

/// A connection whose answers may be so many bytes before more is taken.
async fn connect(target: &Target, window: u32) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(&target.api).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (requests, driven) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driven);
    requests
}

/// A watch, as soon as one is free: the daemon learns a moment later that a peer has left the one before.
async fn watch(requests: &mut SendRequest<Empty<Bytes>>) -> Response<Incoming> {
    let let_in = async {
        loop {
            let request = Request::get("http://localhost/v1/watch?from=1");
            let answer = requests.send_request(request.body(Empty::new()).unwrap());
            let answer = answer.await.unwrap();
            if answer.status() != 503 {
                break answer;
            }
        }
    };
    let answer = within(let_in).await;
    assert_eq!(answer.status(), 200);
    answer
}

/// Without it a failing test would last as long as a watch may.
async fn within<T>(future: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(60);
    let ended = tokio::time::timeout(patience, future).await;
    ended.expect("it lasts for ever")
}

/// Until one of the watches that there may be is free again.
async fn until_a_watch_is_let_in(target: &Target) {
    let is_free = async {
        loop {
            let mut client = target.client().await;
            let watch = "GET /v1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n";
            client.send(watch).await.unwrap();
            match client.answer().await.unwrap().status {
                200 => break,
                status => assert_eq!(status, 503),
            }
        }
    };
    within(is_free).await;
}

/// Until the daemon has ended the stream.
async fn ended(answer: Response<Incoming>) {
    let body = within(answer.into_body().collect()).await;
    assert!(body.is_err(), "the daemon gives it up");
}

#[tokio::test]
async fn a_watch_whose_peer_leaves_no_room_is_given_up() {
    let target = Target::start(&[KEEP_ALIVE, "--limits.watch-streams=1"]).await;
    for window in [0, 1] {
        let unread = watch(&mut connect(&target, window).await).await;
        until_a_watch_is_let_in(&target).await;
        ended(unread).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_not_taken_ends_alone() {
    let target = Target::start(&[KEEP_ALIVE, "--limits.watch-streams=2"]).await;
    let mut requests = connect(&target, 512).await;
    let mut others = target.client().await;
    for number in 0..8 {
        others.reserves(&format!("before-{number}")).await;
    }
    let mut read = watch(&mut requests).await.into_body();
    // More is there for it than there is room for.
    let unread = watch(&mut requests).await;
    let reading = tokio::spawn(async move {
        let mut text = String::new();
        while !text.contains("afterwards") {
            let frame = read.frame().await.expect("the connection goes on");
            let data = frame.expect("the connection goes on").into_data();
            text += &String::from_utf8_lossy(&data.unwrap());
        }
    });
    // The place of the one that is not read gets free.
    until_a_watch_is_let_in(&target).await;
    ended(unread).await;
    target.client().await.reserves("afterwards").await;
    within(reading).await.unwrap();
}
