//! Limits of requests and responses in time, size and number.

use super::*;

#[tokio::test]
async fn half_a_head_is_given_up() {
    let server = Server::start(length_of(), Options { header_timeout: SHORT, ..options() }, None);
    assert_eq!(server.exchange("GET / HTTP/1.1\r\nhost:").await, "");
    // Also for the second head of a connection.
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    one_answer(&mut stream).await;
    stream.write_all(b"GET / HT").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn the_time_for_a_head_does_not_run_between_two_requests() {
    let server = Server::start(length_of(), Options { header_timeout: SHORT, ..options() }, None);
    let mut stream = server.connect().await;
    for _ in 0..2 {
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert!(one_answer(&mut stream).await.ends_with("hello"));
        // Idle for longer than the timeout of a head.
        tokio::time::sleep(3 * SHORT).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_given_up() {
    let server = Server::start(length_of(), Options { keep_alive: SHORT, ..options() }, None);
    assert_status(&server.exchange(GET).await, 200);
}

#[tokio::test]
async fn half_a_body_is_answered_and_given_up() {
    let server = Server::start(length_of(), Options { body_timeout: SHORT, ..options() }, None);
    let answer =
        server.exchange("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    assert_status(&answer, 408);
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(answer.contains("\"reason\":\"RequestTimeout\""), "{answer}");
}

#[tokio::test]
async fn a_body_that_trickles_is_bounded_by_the_time_for_the_request() {
    let server = Server::start(length_of(), Options { request_timeout: SHORT, ..options() }, None);
    let answer =
        server.exchange("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    assert_status(&answer, 408);
}

#[tokio::test]
async fn the_head_is_bounded() {
    let server = Server::start(length_of(), options(), None);
    let headers = |count: usize| (0..count).map(|n| format!("h{n}: v\r\n")).collect::<String>();
    let with = |headers: &str| format!("GET / HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
    assert_status(&server.exchange(&with(&headers(99))).await, 200);
    assert_status(&server.exchange(&with(&headers(100))).await, 431);
    let large = |bytes: usize| with(&format!("h: {}\r\n", "v".repeat(bytes)));
    assert_status(&server.exchange(&large(15_000)).await, 200);
    assert_status(&server.exchange(&large(17_000)).await, 431);
}

#[tokio::test]
async fn the_body_is_bounded_by_route() {
    let server = Server::start(length_of(), options(), None);
    let with_length = |path: &str, bytes: usize| {
        let body = "x".repeat(bytes);
        format!(
            "POST {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n{body}"
        )
    };
    let in_chunks = |path: &str, bytes: usize| {
        let body = "x".repeat(bytes);
        format!(
            "POST {path} HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             {bytes:x}\r\n{body}\r\n0\r\n\r\n"
        )
    };
    for (path, most) in [("/body", 1000), ("/large", 3000)] {
        assert_status(&server.exchange(&with_length(path, most)).await, 200);
        assert_status(&server.exchange(&in_chunks(path, most)).await, 200);
        assert_status(&server.exchange(&with_length(path, most + 1)).await, 413);
        let answer = server.exchange(&in_chunks(path, most + 1)).await;
        assert_status(&answer, 413);
        assert!(answer.contains("\"reason\":\"TooLarge\""), "{answer}");
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    let server = Server::start(length_of(), Options { connections: 1, ..options() }, None);
    let mut first = server.connect().await;
    first.write_all(GET.as_bytes()).await.unwrap();
    assert!(one_answer(&mut first).await.ends_with("hello"));
    let mut second = server.connect().await;
    let answer = rest(&mut second).await;
    assert_status(&answer, 503);
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("\"reason\":\"Overloaded\""), "{answer}");
    drop(first);
    within(async {
        // The slot is free once the server has seen the end of the first.
        while !server.exchange(LAST_GET).await.ends_with("hello") {}
    })
    .await;
}

/// Far more than the part of a body outside of the budget.
const LARGE: usize = 100_000;

#[tokio::test]
async fn the_bodies_of_requests_share_a_budget() {
    let bounds =
        Options { body_bytes: 1 << 20, budget: BodyBudget::new(LARGE as u64), ..options() };
    let server = Server::start(length_of(), bounds, None);
    let head = |length: usize| {
        format!("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n")
    };
    let mut first = server.connect().await;
    first.write_all(head(LARGE).as_bytes()).await.unwrap();
    first.write_all(&vec![b'x'; LARGE - 1]).await.unwrap();
    // The remaining budget is too small once the first body has arrived.
    let last = format!("{}{}", head(LARGE), "x".repeat(LARGE));
    let last = last.replace("host: x", "host: x\r\nconnection: close");
    let crowded_out = within(async {
        loop {
            let answer = server.exchange(&last).await;
            if answer.starts_with("HTTP/1.1 503") {
                return answer;
            }
        }
    });
    let answer = crowded_out.await;
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    assert!(answer.contains("\"reason\":\"Overloaded\""), "{answer}");
    // Small bodies always fit.
    let small = format!("{}{}", head(1000), "x".repeat(1000));
    let mut third = server.connect().await;
    third.write_all(small.as_bytes()).await.unwrap();
    assert!(one_answer(&mut third).await.ends_with("1000"));
    // The wait is short: the end of the first body returns budget.
    first.write_all(b"x").await.unwrap();
    assert!(one_answer(&mut first).await.ends_with(&LARGE.to_string()));
    let mut fourth = server.connect().await;
    let again = format!("{}{}", head(LARGE), "x".repeat(LARGE));
    fourth.write_all(again.as_bytes()).await.unwrap();
    assert!(one_answer(&mut fourth).await.ends_with(&LARGE.to_string()));
}

#[tokio::test]
async fn answers_that_nobody_takes_share_the_budget() {
    const HUGE: usize = 32 << 20;
    let router = open([
        get("/", || async { vec![b'x'; HUGE] }),
        get("/never", || async { vec![b'x'; HUGE] }).without_retry_after(),
        get("/small", || async { "hello" }),
    ]);
    let bounds = Options { budget: BodyBudget::new(HUGE as u64 + 1000), ..options() };
    let server = Server::start(router, bounds, None);
    let mut reluctant = server.connect().await;
    reluctant.write_all(GET.as_bytes()).await.unwrap();
    // The response is ready, and is not taken.
    reluctant.read_exact(&mut [0; 8]).await.unwrap();
    let answer = server.exchange(LAST_GET).await;
    assert_status(&answer, 503);
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    let never = server.exchange(&LAST_GET.replace("GET /", "GET /never")).await;
    assert_status(&never, 503);
    assert!(!never.contains("retry-after"), "{never}");
    let small = server.exchange(&LAST_GET.replace("GET /", "GET /small")).await;
    assert!(small.ends_with("hello"), "{small}");
    drop(reluctant);
    within(async { while server.exchange(LAST_GET).await.len() < HUGE {} }).await;
}
