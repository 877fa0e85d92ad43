//! Watches that nobody reads.

use super::{
    attack::{MIB, Target},
    client::Client,
};

const WATCHES: usize = 60;
const EVENTS: usize = 1500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_do_not_read_cost_nothing_and_the_others_miss_nothing() {
    let limit = format!("--limits.watch-streams={WATCHES}");
    let target = Target::start(&[&limit]).await;
    let before = target.memory();
    // The same without them, to compare with.
    produce(&target, 0).await;
    let alone = target.memory();
    let mut idle = Vec::new();
    for number in 0..WATCHES - 1 {
        let mut client = target.client().await;
        client.send("GET /v1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(client.answer().await.unwrap().status, 200, "{number}");
        idle.push(client);
    }
    let mut quotas = Vec::new();
    for _ in 0..WATCHES {
        let mut client = target.client().await;
        let watch = "GET /api/v1/resourcequotas?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.send(watch).await.unwrap();
        assert_eq!(client.answer().await.unwrap().status, 200);
        quotas.push(client);
    }
    let mut reader = target.client().await;
    reader.send("GET /v1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(reader.answer().await.unwrap().status, 200);
    let mut late = target.client().await;
    let answer = late.get("/v1/watch").await;
    assert_eq!((answer.status, answer.may_be_repeated()), (503, true), "{answer:?}");
    assert!(answer.body.contains("\"reason\":\"TooManyWatches\""), "{answer:?}");

    let reading = tokio::spawn(async move {
        let (mut text, mut events) = (String::new(), 0);
        while events < EVENTS {
            let piece = reader.more().await.expect("the watch ended").to_vec();
            text.push_str(&String::from_utf8_lossy(&piece));
            events = text.matches("\ndata:").count();
        }
        text
    });
    produce(&target, 1).await;
    let beside = target.memory();
    let ids = ids(&reading.await.unwrap());
    println!(
        "memory {} MiB, {} MiB after {EVENTS} events, {} MiB after as many more beside {} watches that are not read",
        before / MIB,
        alone / MIB,
        beside / MIB,
        2 * WATCHES - 1,
    );
    assert!(ids.len() >= EVENTS, "{ids:?}");
    let are_consecutive = ids.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(are_consecutive, "an entry is missing: {ids:?}");
    assert!(beside <= alone + 48 * MIB, "{before}, {alone}, then {beside}");
    target.serves_as_ever("beside").await;
    drop((idle, quotas));
    // Their places are free once it is seen that they have gone.
    loop {
        let mut client = target.client().await;
        client.send("GET /v1/watch HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        match client.answer().await.unwrap().status {
            200 => break,
            status => assert_eq!(status, 503),
        }
        post(&mut target.client().await, "wake", 0).await;
    }
}

/// The ids of the events of a watch. What carries no event has the id of the last one that was sent.
fn ids(text: &str) -> Vec<u64> {
    let events = text.split("\n\n").filter(|event| event.contains("\ndata:"));
    let id = |event: &str| {
        let id = event.lines().find_map(|line| line.strip_prefix("id:"));
        id.unwrap().trim().parse().unwrap()
    };
    events.map(id).collect()
}

/// Long entries, on few objects, so that the state stays as small as it is.
async fn produce(target: &Target, round: usize) {
    let mut client = target.client().await;
    for number in 0..EVENTS {
        post(&mut client, &format!("{round}-{}", number % 10), number).await;
    }
}

async fn post(client: &mut Client, uid: &str, version: usize) {
    let usage: Vec<String> = (0..100)
        .map(|resource| format!("\"requests.example.com/unit-{resource}\":\"{version}\""))
        .collect();
    let event = format!(
        r#"{{"type":"MODIFIED","namespace":"a","resource":"widgets.example.com","name":"{uid}","uid":"{uid}","resourceVersion":"{}","usage":{{{}}}}}"#,
        version + 1,
        usage.join(",")
    );
    let answer = client.post("/v1/events", &event).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
