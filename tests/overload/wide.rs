//! Quotas with much metadata: what is held of them for clients is bounded by bytes, not by their number.

use std::collections::BTreeSet;

use super::attack::{MIB, Target};

const QUOTAS: usize = 60;
const NOTE_BYTES: usize = 190_000;
const WATCHES: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_wide_quotas_that_are_not_read_hold_little() {
    let target = Target::start(&[]).await;
    let note = "x".repeat(NOTE_BYTES);
    let quota = format!(
        r#"{{"metadata":{{"annotations":{{"note":"{note}"}}}},"spec":{{"hard":{{"pods":"1"}}}}}}"#
    );
    let mut client = target.client().await;
    for number in 0..QUOTAS {
        let path = format!("/v1/namespaces/wide/quotas/q{number}");
        let answer = client.put(&path, &quota).await;
        assert_eq!(answer.status, 201, "{}", answer.head);
    }
    // A page ends when it is large.
    let page = client.get("/v1/namespaces/wide/quotas").await;
    assert!(page.body.contains("\"continue\":"), "{}", page.head);
    assert!(page.body.len() < 3 << 20, "{}", page.body.len());

    let before = target.memory();
    let watch =
        "GET /api/v1/namespaces/wide/resourcequotas?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut idle = Vec::new();
    for _ in 0..WATCHES {
        let mut client = target.client().await;
        client.send(watch).await.unwrap();
        assert_eq!(client.answer().await.unwrap().status, 200);
        idle.push(client);
    }
    // One that is read to its end has had more turns than the others needed to fill what they may.
    let mut reader = target.client().await;
    reader.send(watch).await.unwrap();
    assert_eq!(reader.answer().await.unwrap().status, 200);
    let (mut names, mut text) = (BTreeSet::new(), String::new());
    while names.len() < QUOTAS {
        let piece = reader.more().await.expect("the watch ended").to_vec();
        text.push_str(&String::from_utf8_lossy(&piece));
        let Some(end) = text.rfind('\n') else {
            continue;
        };
        let rest = text.split_off(end);
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["type"], "ADDED");
            names.insert(event["object"]["metadata"]["name"].to_string());
        }
        text = rest;
    }
    let beside = target.memory();
    println!(
        "memory {} MiB, {} MiB beside {WATCHES} watches that are not read, of {} MiB of quotas",
        before / MIB,
        beside / MIB,
        (QUOTAS * NOTE_BYTES) >> 20,
    );
    assert!(beside <= before + 120 * MIB, "{before}, then {beside}");
    target.serves_as_ever("beside").await;
}
