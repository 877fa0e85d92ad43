//! Audit events of an API server, as received.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::world;

/// Placeholder in an input for the reservation of a creation that has just been admitted.
const HOLD: &[u8] = b"$HOLD";

/// Posts the input, twice. Only a reservation that is held, is named by its seal, and whose creation has failed is
/// released, once; nothing else is written.
pub fn run(data: &[u8]) {
    world::with(|world| {
        let hold = admit(world);
        let body = replaced(data, hold.as_bytes());
        let post = || {
            let before = world.head();
            let (status, answer) = world.call("POST", "/audit", "application/json", body.clone());
            assert!(matches!(status, 200 | 400 | 413), "{status}");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let released = answer["released"].as_u64().unwrap_or(0);
            assert_eq!(world.head(), before + released, "something else was written");
            (status, released)
        };
        let (status, released) = post();
        let is_named = data.windows(HOLD.len()).any(|window| window == HOLD);
        assert!(released <= u64::from(is_named), "{released} were released");
        assert_eq!(post(), (status, 0), "the same again");
        // A reservation that was not released is still held, and is released now.
        let failed = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "EventList",
            "items": [{
                "stage": "ResponseComplete", "verb": "create", "objectRef": {"namespace": "a"},
                "responseStatus": {"code": 403}, "annotations": {"hold": hold},
            }],
        });
        let failed = failed.to_string().into_bytes();
        let (_, answer) = world.call("POST", "/audit", "application/json", failed);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["released"], 1 - released);
    });
}

/// Admits the creation of a pod, and returns the reservation named in the answer.
fn admit(world: &world::World) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let review = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "r", "operation": "CREATE", "namespace": "a", "name": format!("p{number}"),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "alice"},
            "object": {"apiVersion": "v1", "kind": "Pod",
                       "metadata": {"name": format!("p{number}"), "namespace": "a", "uid": format!("audited-{number}")},
                       "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}},
        },
    });
    let review = review.to_string().into_bytes();
    let (status, answer) = world.call("POST", "/admit", "application/json", review);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (200, &Value::Bool(true)), "{answer}");
    let hold = answer["response"]["auditAnnotations"]["hold"].as_str();
    hold.unwrap().to_owned()
}

fn replaced(data: &[u8], hold: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((&first, tail)) = rest.split_first() {
        match rest.strip_prefix(HOLD) {
            Some(behind) => {
                made.extend_from_slice(hold);
                rest = behind;
            }
            None => {
                made.push(first);
                rest = tail;
            }
        }
    }
    made
}
