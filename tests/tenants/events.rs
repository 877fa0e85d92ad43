//! What sources say of objects, and cannot say.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{pod, support::callers::Callers};

/// What is accepted and what is rejected of one event.
fn send(callers: &Callers, change: &str, uid: &str, version: &str, cpu: &str) -> (u64, String) {
    let event = json!([{"type": change, "object": pod("a", uid, version, cpu)}]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &event);
    let reason = answer["rejected"][0]["reason"].as_str();
    (answer["accepted"].as_u64().unwrap(), reason.unwrap_or_default().to_owned())
}

fn used(callers: &Callers) -> Value {
    let quota = callers.get("root", "/v1/namespaces/a/quotas/q");
    quota["status"]["used"]["requests.cpu"].clone()
}

#[test]
fn a_version_that_no_server_gives_keeps_no_later_event_out() {
    let callers = Callers::start(&[("bridge", "ingest", "*"), ("root", "admin,read", "*")], &[]);
    let quota = json!({"spec": {"hard": {"requests.cpu": "9"}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    assert_eq!(send(&callers, "ADDED", "known", "5", "1").0, 1);
    for version in ["18446744073709551615", "9223372036854775808"] {
        for uid in ["new", "known"] {
            let (accepted, reason) = send(&callers, "MODIFIED", uid, version, "3");
            assert_eq!(accepted, 0, "{reason}");
            assert!(reason.contains("is not a number up to 9223372036854775807"), "{reason}");
        }
    }
    assert_eq!(used(&callers), "1");
    // What really happens to them counts as ever.
    assert_eq!(send(&callers, "MODIFIED", "known", "6", "2").0, 1);
    assert_eq!(send(&callers, "ADDED", "new", "7", "4").0, 1);
    assert_eq!(used(&callers), "6");
    let letters = callers.get("root", "/v1/dead-letters");
    assert_eq!(letters["items"].as_array().unwrap().len(), 4, "{letters}");
}

/// A message that cannot be read may hold anything, a Secret for example.
#[test]
fn the_text_of_a_rejected_event_is_for_administrators() {
    let who = [("bridge", "ingest", "*"), ("root", "admin,read", "*"), ("reader", "read", "*")];
    let callers = Callers::start(&who, &[]);
    let secret = json!([{"type": "ADDED", "object": {"kind": "Secret", "data": {"key": "hidden"}, "metadata": 7}}]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &secret);
    assert_eq!(answer["rejected"].as_array().unwrap().len(), 1, "{answer}");
    let entries = |who: &str| callers.get(who, "/v1/entries?from=1").to_string();
    assert!(entries("root").contains("hidden"));
    let seen = entries("reader");
    assert!(seen.contains("Rejected") && !seen.contains("hidden"), "{seen}");
}

/// A pod of one tenant that names more resources than others can imagine.
fn wide(namespace: &str, count: usize) -> Value {
    let amounts = (0..count).map(|number| (format!("a.b/{number:0>5}"), json!("1")));
    let amounts: Value = amounts.collect();
    let mut pod = pod(namespace, "wide", "3", "1");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    pod
}

#[test]
fn a_pod_of_very_many_resources_keeps_no_relist_from_being_complete() {
    let callers = Callers::start(&[("bridge", "ingest", "*"), ("root", "admin,read", "*")], &[]);
    let quota = json!({"spec": {"hard": {"requests.cpu": "9"}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    // No event told that it was deleted.
    assert_eq!(send(&callers, "ADDED", "gone", "1", "2").0, 1);
    assert_eq!(send(&callers, "ADDED", "stays", "2", "1").0, 1);
    let relist = json!([
        {"type": "RELIST_BEGIN", "resource": "pods"},
        {"type": "ADDED", "object": pod("a", "stays", "2", "1")},
        {"type": "ADDED", "object": wide("b", 16_500)},
        {"type": "RELIST_END", "resource": "pods", "resourceVersion": "4"},
    ]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &relist);
    assert!(answer["rejected"][0].is_null(), "{answer}");
    let patience = Instant::now() + Duration::from_secs(20);
    while used(&callers) != "1" {
        assert!(Instant::now() < patience, "{}", used(&callers));
        std::thread::sleep(Duration::from_millis(50));
    }
    let usage = callers.get("root", "/v1/namespaces/b/usage").to_string();
    assert!(usage.contains("requests.a.b/16499"));
}
