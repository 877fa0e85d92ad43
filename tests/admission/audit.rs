//! Audit events of the API server: what failed elsewhere gives its room back, and nothing else does.

use http::StatusCode;
use quota_core::event::Event;
use serde_json::{Value, json};

use super::harness::{Answered, World, pod};

const HOLD: &str = "admission.quota-ledger.local/hold";

/// How the request of a review ended, as the API server's audit webhook tells it.
fn ended(admitted: &Answered, code: u16, message: &str) -> Value {
    let annotations = admitted.body["response"]["auditAnnotations"].as_object();
    let prefixed = annotations.unwrap().iter().map(|(key, value)| {
        let key = format!("admission.quota-ledger.local/{key}");
        (key, value.clone())
    });
    let mut annotations: serde_json::Map<_, _> = prefixed.collect();
    annotations.insert("authorization.k8s.io/decision".into(), "allow".into());
    json!({
        "level": "Metadata", "auditID": "7e2b1a42-3a36-4f5d-93ae-8b0e1c2d3e4f",
        "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/team-a/pods",
        "verb": "create",
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "sourceIPs": ["10.0.0.1"], "userAgent": "kubectl",
        "objectRef": {"resource": "pods", "namespace": "team-a", "name": "a", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "status": "Failure", "message": message,
                           "reason": "Forbidden", "code": code},
        "requestReceivedTimestamp": "2026-11-22T10:00:00.000000Z",
        "stageTimestamp": "2026-11-22T10:00:00.010000Z",
        "annotations": annotations
    })
}

impl World {
    async fn audit(&self, events: &[Value]) -> Answered {
        let list = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {},
                          "items": events});
        let answered = self.post("/audit", "application/json", list.to_string()).await;
        assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
        answered
    }

    async fn frees(&self, event: &Value) -> bool {
        let answered = self.audit(std::slice::from_ref(event)).await;
        answered.body["released"] == 1
    }
}

#[tokio::test]
async fn a_creation_that_failed_elsewhere_gives_its_room_back_at_once() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    let mut entries = world.ledger.watch();
    let first = world.send(&pod("a")).await;
    assert!(first.allowed() && !world.send(&pod("b")).await.allowed());
    assert_eq!(world.counted("q", "pods"), "0+1");

    let denied = ended(&first, 403, "admission webhook \"other.io\" denied the request");
    assert!(world.frees(&denied).await);
    assert_eq!(world.counted("q", "pods"), "0+0");
    entries.recv().await.unwrap();
    let batch = entries.recv().await.unwrap();
    assert!(matches!(batch[0].event, Event::ReservationReleased { .. }));
    let actor = &batch[0].actor;
    assert_eq!(actor.user.as_deref(), Some("alice"));
    assert_eq!(actor.reason.as_deref(), Some("the API server answered 403"));

    // The room is free, and the same event again does not free what has taken it.
    let second = world.send(&pod("b")).await;
    assert!(second.allowed());
    assert!(!world.frees(&denied).await);
    assert_eq!(world.counted("q", "pods"), "0+1");

    // Many at once, of which some cannot be read.
    let conflict = ended(&second, 409, "pods \"b\" already exists");
    let odd = json!({"annotations": {HOLD: 7}});
    let answered = world.audit(&[odd, conflict.clone(), conflict]).await;
    assert_eq!(answered.body, json!({"events": 3, "released": 1}));
    assert_eq!(world.counted("q", "pods"), "0+0");
}

#[tokio::test]
async fn a_forged_event_frees_nothing() {
    let world = World::new();
    let stranger = World::new();
    for world in [&world, &stranger] {
        world.set_quota("q", &[("pods", "5")]).await;
    }
    let admitted = world.send(&pod("a")).await;
    let other = world.send(&pod("b")).await;
    let failed = ended(&admitted, 403, "no");
    let hold = failed["annotations"][HOLD].as_str().unwrap();
    let of_other = other.annotation("hold").unwrap();
    let forge = |hold: String| {
        let mut forged = failed.clone();
        forged["annotations"][HOLD] = json!(hold);
        forged
    };
    let words: Vec<_> = hold.split(' ').collect();
    let others: Vec<_> = of_other.split(' ').collect();
    let unknown = stranger.send(&pod("a")).await;
    for forged in [
        // The seal of one reservation under the name of another, of another entry, and of another daemon.
        forge([words[0], words[1], others[2], others[3]].join(" ")),
        forge([others[0], words[1], words[2], words[3]].join(" ")),
        forge([words[0], words[1], "team-b", words[3]].join(" ")),
        ended(&unknown, 403, "no"),
        forge(String::new()),
        forge(format!("{} {}", words[0], words[3])),
    ] {
        assert!(!world.frees(&forged).await, "{forged}");
    }
    let mut elsewhere = failed.clone();
    elsewhere["objectRef"]["namespace"] = json!("team-b");
    let mut updated = failed.clone();
    updated["verb"] = json!("update");
    let mut begun = failed.clone();
    begun["stage"] = json!("RequestReceived");
    for event in [elsewhere, updated, begun] {
        assert!(!world.frees(&event).await, "{event}");
    }
    assert_eq!(world.counted("q", "pods"), "0+2");
}

#[tokio::test]
async fn what_may_have_been_stored_is_held() {
    let world = World::new();
    world.set_quota("q", &[("pods", "5")]).await;
    let review = pod("a");
    let admitted = world.send(&review).await;
    for code in [0, 200, 201, 202, 408, 499, 500, 503, 504] {
        let event = ended(&admitted, code, "");
        assert!(!world.frees(&event).await, "{code}");
    }
    let mut unknown = ended(&admitted, 403, "no");
    unknown["responseStatus"].take();
    assert!(!world.frees(&unknown).await);
    assert_eq!(world.counted("q", "pods"), "0+1");

    // What was seen is there, whatever is said of it.
    world.observe(&review, "object").await;
    assert!(!world.frees(&ended(&admitted, 403, "no")).await);
    assert_eq!(world.counted("q", "pods"), "1+0");
}

#[tokio::test]
async fn only_what_a_creation_holds_is_annotated() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    let mut dry = pod("d");
    dry["request"]["dryRun"] = json!(true);
    assert_eq!(world.send(&dry).await.annotation("hold"), None);
    let first = world.send(&pod("a")).await;
    assert!(first.annotation("hold").is_some());
    // Whoever repeats a review learns nothing by which the reservation can be released.
    let again = world.send(&pod("a")).await;
    assert!(again.allowed());
    assert_eq!(again.annotation("hold"), None);
    let denied = world.send(&pod("b")).await;
    assert!(!denied.allowed());
    assert_eq!(denied.annotation("hold"), None);
}

#[tokio::test]
async fn what_is_no_list_of_events_is_refused() {
    let world = World::new();
    let list = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": []});
    let post = async |media_type, body: String| world.post("/audit", media_type, body).await.status;
    assert_eq!(post("application/json", list.to_string()).await, StatusCode::OK);
    assert_eq!(post("text/plain", list.to_string()).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for wrong in [
        String::new(),
        "{}".to_owned(),
        list.to_string().replace("/v1", "/v1beta1"),
        list.to_string().replace("EventList", "Event"),
        list.to_string().replace("[]", "{}"),
    ] {
        let status = post("application/json", wrong.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

/// An API server that gave up on a request may have stored its object, and the request that follows fails on that.
#[tokio::test]
async fn what_took_the_place_of_an_earlier_one_is_not_given_back() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    let again = |uid: &str| {
        let mut review = pod("a");
        review["request"]["object"]["metadata"]["uid"] = json!(uid);
        review
    };
    assert!(world.send(&again("first")).await.allowed());
    let second = world.send(&again("second")).await;
    // The webhook is called again for the same request, too.
    let repeated = world.send(&again("second")).await;
    for answered in [&second, &repeated] {
        assert!(answered.allowed());
        assert_eq!(answered.annotation("hold"), None);
        let failed = ended(answered, 409, "pods \"a\" already exists");
        assert!(!world.frees(&failed).await, "{failed}");
        assert_eq!(world.counted("q", "pods"), "0+1");
        assert!(!world.send(&pod("b")).await.allowed());
    }
    world.observe(&again("first"), "object").await;
    assert!(!world.send(&pod("b")).await.allowed());
}
