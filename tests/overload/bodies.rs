//! Bodies and heads that are too large, too deep, too many.

use super::{
    attack::{MIB, Target},
    client::{RESERVATIONS, head},
};

const EVENTS_BODY: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_bodies_at_once_share_a_bounded_room() {
    const CLIENTS: u8 = 64;
    const ROOM: u64 = 8;
    let events = format!("--limits.events-body-bytes={EVENTS_BODY}");
    let room = format!("--limits.bodies-bytes={ROOM}MiB");
    let target = Target::start(&[
        &events,
        &room,
        "--limits.body-timeout=10m",
        "--limits.request-timeout=10m",
    ])
    .await;
    target.serves_as_ever("before").await;
    let before = target.memory();
    // One line without end, nearly as long as a body may be, from each of them, and none ends.
    let mut held = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = target.client().await;
        held.push(tokio::spawn(async move {
            let head = head("POST", "/v1/events", EVENTS_BODY);
            let sent = match client.send(head + "{\"type\":\"").await {
                Ok(()) => client.send(vec![b'x'; EVENTS_BODY - 1000]).await,
                refused => refused,
            };
            (client, sent.is_ok())
        }));
    }
    let mut waiting = Vec::new();
    let mut refused = 0;
    for client in held {
        let (client, sent) = client.await.unwrap();
        match sent && client.is_open() {
            true => waiting.push(client),
            false => refused += 1,
        }
    }
    while target.hits("limits.bodies_bytes").await < u64::from(CLIENTS) - 2 {
        tokio::task::yield_now().await;
    }
    let during = target.memory();
    println!(
        "{CLIENTS} bodies of {} MiB at a room of {ROOM} MiB: memory {} MiB before, {} MiB during; {refused} refused while sending",
        EVENTS_BODY >> 20,
        before / MIB,
        during / MIB,
    );
    // Each may have some bytes in the buffers of its connection besides.
    let bound = before + 2 * ROOM * MIB + u64::from(CLIENTS) * MIB / 2 + 16 * MIB;
    assert!(during <= bound, "{before}, then {during} of {bound}");
    // Small requests always find a place; large ones do once the others have gone.
    target.serves_as_ever("during").await;
    drop(waiting);
    let event = r#"{"type":"ADDED","namespace":"a","resource":"widgets.example.com","name":"w","uid":"w-NUMBER","resourceVersion":"1"}"#;
    let lines: Vec<String> =
        (0..20_000).map(|number| event.replace("NUMBER", &number.to_string())).collect();
    let body = lines.join("\n");
    assert!(body.len() > 2 << 20 && body.len() < EVENTS_BODY);
    loop {
        let mut client = target.client().await;
        if let Some(answer) = client.request("POST", "/v1/events", &body).await
            && answer.status == 200
        {
            break;
        }
    }
    target.serves_as_ever("after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_client_should_send_is_refused_by_its_kind() {
    let events = format!("--limits.events-body-bytes={EVENTS_BODY}");
    let target = Target::start(&[&events]).await;
    target.serves_as_ever("before").await;
    let before = target.memory();
    for round in 0..3 {
        // An announced length is refused unread.
        let mut client = target.client().await;
        client.send(head("POST", RESERVATIONS, 1 << 40)).await.unwrap();
        assert_eq!(client.answer().await.unwrap().status, 413);
        endless_line(&target).await;
        for body in [
            "[".repeat(100_000),
            "{\"a\":".repeat(100_000),
            format!("{{\"reserved\":{}", "[".repeat(500_000)),
        ] {
            for path in [RESERVATIONS, "/admit", "/v1/namespaces/a/check", "/v1/reservations:batch"]
            {
                let mut client = target.client().await;
                let answer = client.post(path, &body).await;
                assert!(matches!(answer.status, 400 | 422), "{path}: {}", answer.status);
            }
            let mut client = target.client().await;
            let quotas = "/api/v1/namespaces/a/resourcequotas";
            assert_eq!(client.post(quotas, &body).await.status, 400);
            let answer = client.post("/v1/events", &body).await;
            assert!(answer.body.contains("\"rejected\":[{"), "{answer:?}");
        }
        let many: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
        let long = format!("x-long: {}\r\n", "x".repeat(20_000));
        for fields in [many, long] {
            let mut client = target.client().await;
            client
                .send(format!("GET /version HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"))
                .await
                .unwrap();
            // The rest of what was sent may be in the way of the answer.
            if let Some(answer) = client.answer().await {
                assert_eq!(answer.status, 431);
            }
        }
        target.serves_as_ever(&format!("after-{round}")).await;
    }
    let after = target.memory();
    println!("hostile requests: memory {} MiB before, {} MiB after", before / MIB, after / MIB);
    assert!(after <= before + 64 * MIB, "{before}, then {after}");
}

/// An event without an end, in chunks of unannounced length.
async fn endless_line(target: &Target) {
    let mut client = target.client().await;
    client
        .send("POST /v1/events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut sent = 0;
    while client.send(&chunk).await.is_ok() {
        sent += 0x10000;
        assert!(sent < 64 * EVENTS_BODY, "it takes everything");
    }
    if let Some(answer) = client.answer().await {
        assert_eq!(answer.status, 413);
    }
}
