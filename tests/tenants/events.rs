//! What sources say of objects, and cannot say.

use serde_json::{Value, json};

use super::{pod, support::callers::Callers};

/// What is accepted and what is rejected of one event.
fn send(callers: &Callers, change: &str, uid: &str, version: &str, cpu: &str) -> (u64, String) {
    let event = json!([{"type": change, "object": pod("a", uid, version, cpu)}]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &event);
    let reason = answer["rejected"][0]["reason"].as_str();
    (
        answer["accepted"].as_u64().unwrap(),
        reason.unwrap_or_default().to_owned(),
    )
}

fn used(callers: &Callers) -> Value {
    let quota = callers.get("root", "/v1/namespaces/a/quotas/q");
    quota["status"]["used"]["requests.cpu"].clone()
}

#[test]
fn a_version_that_no_server_gives_keeps_no_later_event_out() {
    let callers = Callers::start(
        &[("bridge", "ingest", "*"), ("root", "admin,read", "*")],
        &[],
    );
    let quota = json!({"spec": {"hard": {"requests.cpu": "9"}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    assert_eq!(send(&callers, "ADDED", "known", "5", "1").0, 1);
    for version in ["18446744073709551615", "9223372036854775808"] {
        for uid in ["new", "known"] {
            let (accepted, reason) = send(&callers, "MODIFIED", uid, version, "3");
            assert_eq!(accepted, 0, "{reason}");
            assert!(
                reason.contains("is not a number up to 9223372036854775807"),
                "{reason}"
            );
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
