//! Reservations, from the request to the end.

use serde_json::{Value, json};

use crate::world::{World, pods};

const ALL: &str = "/v1/namespaces/a/reservations";

#[tokio::test]
async fn a_grant_says_what_is_held_and_where_it_is_found() {
    let world = World::new();
    world.quota(json!({"pods": "3", "requests.cpu": "2"})).await;
    let holder = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u/1"});
    let reserved = json!({"pods": "1", "requests.cpu": "500m"});
    let body = json!({"reservedBy": holder, "reserved": reserved, "ttl": "60s"});
    let granted = world.post(ALL, &body).await;
    granted.is(201);
    assert_eq!(granted.body["namespace"], "a");
    assert_eq!(granted.body["reservedBy"], holder);
    assert_eq!(granted.body["reserved"], reserved);
    assert_eq!(granted.body["state"], "pending");
    assert_eq!(granted.body["asOf"]["sequence"], 2);
    assert!(granted.body.get("lagging").is_none());
    let time = |field: &str| {
        let text = granted.body[field].as_str().unwrap();
        text.parse::<quota_semantics::Timestamp>().unwrap()
    };
    let held = time("expirationTime").since(time("createdTime"));
    assert_eq!(held, quota_semantics::Span::from_seconds(60));

    let location = granted.header("location");
    assert_eq!(location, "/v1/namespaces/a/reservations/u%2F1");
    let mut found = world.get(location).await.is(200).body.clone();
    found["asOf"] = granted.body["asOf"].clone();
    assert_eq!(found, granted.body);
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer_and_another_one_does_not() {
    let world = World::new();
    world.quota(json!({"pods": "1"})).await;
    let first = world.post(ALL, &pods("u1", 1)).await;
    first.is(201);
    let again = world.post(ALL, &pods("u1", 1)).await;
    assert_eq!(again.is(200).header("idempotency-replayed"), "true");
    assert_eq!(again.body, first.body);
    let other = world.post(ALL, &pods("u1", 0)).await;
    other.is_refused(422, "UidReused");
    world.delete("/v1/namespaces/a/reservations/u1").await.is(204);
    let late = world.post(ALL, &pods("u1", 1)).await;
    late.is_refused(409, "ReservationEnded");
    assert_eq!(late.body["state"], "released");
}

/// Equal amounts are equal requests, and the time to live is no part of what is requested.
#[tokio::test]
async fn a_retry_may_write_its_amounts_otherwise() {
    let world = World::new();
    let limits = json!({"requests.memory": "4Gi", "requests.cpu": "4", "pods": "4"});
    world.quota(limits).await;
    let request = |amounts: Value, ttl: &str| {
        json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"},
               "reserved": amounts, "ttl": ttl})
    };
    let first = request(json!({"pods": "1", "requests.memory": "1Gi"}), "60s");
    let first = world.post(ALL, &first).await;
    first.is(201);
    for (amounts, ttl) in [
        (json!({"pods": "1", "requests.memory": "1073741824"}), "60s"),
        (json!({"pods": "1e0", "requests.memory": "1048576Ki"}), "60s"),
        (json!({"pods": "01", "requests.memory": "1Gi", "requests.cpu": 0}), "60s"),
        (json!({"pods": 1, "requests.memory": "1Gi"}), "5s"),
    ] {
        let again = world.post(ALL, &request(amounts.clone(), ttl)).await;
        assert_eq!(again.is(200).header("idempotency-replayed"), "true");
        assert_eq!(again.body, first.body, "{amounts}");
    }
    for other in [
        json!({"pods": "1", "requests.memory": "1073741825"}),
        json!({"pods": "1"}),
        json!({"pods": "1", "requests.memory": "1Gi", "requests.cpu": "1n"}),
    ] {
        let other = world.post(ALL, &request(other, "60s")).await;
        other.is_refused(422, "UidReused");
    }
}

#[tokio::test]
async fn a_denial_has_kubernetes_words_and_all_numbers() {
    let world = World::new();
    world.quota(json!({"pods": "3", "requests.cpu": "9"})).await;
    world.post(ALL, &pods("u1", 2)).await.is(201);
    let denied = world.post(ALL, &pods("u2", 2)).await;
    denied.is_refused(403, "ExceedsHard");
    let detail = denied.body["detail"].as_str().unwrap();
    let words = "exceeded quota: q, requested: pods=2, used: pods=2, limited: pods=3; \
                 reserved: pods=2 by 1 pending reservation, next expires in ";
    assert!(detail.starts_with(words), "{detail}");
    let numbers = json!([{"name": "q", "kind": "ResourceQuota", "resources": [
        {"resource": "pods", "hard": "3", "used": "0", "reserved": "2", "requested": "2"},
        {"resource": "requests.cpu", "hard": "9", "used": "0", "reserved": "0", "requested": "0"},
    ]}]);
    assert_eq!(denied.body["quotas"], numbers);
    let first = world.get(&format!("{ALL}/u1")).await;
    assert_eq!(denied.body["retryAfter"], first.body["expirationTime"]);
    assert_eq!(denied.body["asOf"]["sequence"], 2);
    world.get(&format!("{ALL}/u2")).await.is_refused(404, "NotFound");
}

#[tokio::test]
async fn whatever_the_kind_its_amounts_count() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "1"})).await;
    let body = json!({"reservedBy": {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "d"},
                      "reserved": {"requests.cpu": "2"}});
    world.post(ALL, &body).await.is_refused(403, "ExceedsHard");
}

fn pod(uid: &str, resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "a", "uid": uid},
           "spec": {"containers": [{"name": "c", "resources": resources}]}})
}

#[tokio::test]
async fn an_object_is_refused_if_it_is_too_complex_or_needs_less_than_nothing() {
    let world = World::new();
    // No quota limits it.
    let negative = pod("u1", &json!({"requests": {"cpu": "-5"}}));
    let refused = world.post(ALL, &json!({ "object": negative })).await;
    refused.is_refused(403, "NegativeUsage");
    let mut complex = pod("u2", &json!({}));
    for resources in [json!({"requests": {"a.io/1": "1"}}), json!({})] {
        let container = json!({"name": "", "resources": resources});
        complex["spec"]["containers"] = vec![container; 5_000].into();
        let refused = world.post(ALL, &json!({ "object": complex })).await;
        refused.is_refused(422, "Invalid");
        assert_eq!(refused.body["errors"][0]["field"], "object");
    }
}

#[tokio::test]
async fn an_object_is_measured_and_held_to_what_quotas_demand() {
    let world = World::new();
    world.quota(json!({"pods": "5", "requests.cpu": "2", "limits.cpu": "4"})).await;
    let reserve_request = |object: Value| json!({ "object": object });
    let bare = world.post(ALL, &reserve_request(pod("u1", &json!({})))).await;
    bare.is_refused(403, "MustSpecify");
    let detail = "failed quota: q: must specify limits.cpu for: c; requests.cpu for: c";
    assert_eq!(bare.body["detail"], detail);

    let object = pod("u1", &json!({"limits": {"cpu": "1500m"}}));
    let granted = world.post(ALL, &reserve_request(object.clone())).await;
    granted.is(201);
    let holder = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"});
    assert_eq!(granted.body["reservedBy"], holder);
    assert_eq!(granted.body["reserved"]["pods"], "1");
    assert_eq!(granted.body["reserved"]["requests.cpu"], "1500m", "requests default to limits");

    let superseding =
        world.post(ALL, &reserve_request(pod("u2", &json!({"limits": {"cpu": "2"}})))).await;
    superseding.is(201);
    let first = world.get(&format!("{ALL}/u1")).await;
    assert_eq!(first.body["state"], "released");
    assert!(first.body["detail"].as_str().unwrap().contains("newer reservation"));

    let observed = json!({"type": "ADDED", "object": {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "a", "uid": "u2", "resourceVersion": "7"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}}});
    world.events(&[observed]).await;
    assert_eq!(world.get(&format!("{ALL}/u2")).await.body["state"], "observed");
    let late = world.post(&format!("{ALL}/u2/extend"), &json!({"ttl": "60s"})).await;
    late.is_refused(409, "AlreadyObserved");
}

#[tokio::test]
async fn what_is_not_valid_is_named_field_by_field() {
    let world = World::new();
    let uid = json!({"uid": "u"});
    let cases = [
        (json!({"reserved": {"pods": "1"}}), "reservedBy.uid"),
        (json!({"reservedBy": {"uid": "a b"}, "reserved": {}}), "reservedBy.uid"),
        (json!({"reservedBy": uid}), "reserved"),
        (json!({"reservedBy": uid, "reserved": {}, "object": pod("u", &json!({}))}), "reserved"),
        (json!({"reservedBy": uid, "reserved": {"pods": "-1"}}), "reserved[pods]"),
        (json!({"reservedBy": uid, "reserved": {"pods": "many"}}), "reserved[pods]"),
        (json!({"reservedBy": uid, "reserved": {"pods": true}}), "reserved[pods]"),
        (json!({"reservedBy": uid, "reserved": {"a b": "1"}}), "reserved[a b]"),
        (json!({"reservedBy": uid, "reserved": {}, "ttl": "soon"}), "ttl"),
        (json!({"reservedBy": uid, "reserved": {}, "ttl": "0s"}), "ttl"),
        (json!({"reservedBy": uid, "reserved": {}, "ttl": "2h"}), "ttl"),
        (json!({"reservedBy": uid, "object": pod("v", &json!({}))}), "object.metadata.uid"),
        (json!({"reservedBy": {"kind": "Job"}, "object": pod("v", &json!({}))}), "object.kind"),
        (json!({"object": {"metadata": {"uid": "v"}}}), "object.kind"),
        (json!({"object": {"kind": "Pod", "spec": 7}}), "object"),
        (json!({"object": ["v1", "Pod"]}), "object"),
        (json!({"namespace": "b", "reservedBy": uid, "reserved": {}}), "namespace"),
        (
            json!({"object": {"kind": "Pod", "metadata": {"namespace": "b", "uid": "v"}}}),
            "object.metadata.namespace",
        ),
        (
            json!({"reservedBy": {"uid": "u", "name": "x".repeat(254)}, "reserved": {}}),
            "reservedBy.name",
        ),
    ];
    for (body, field) in cases {
        let refused = world.post(ALL, &body).await;
        refused.is_refused(422, "Invalid");
        let fields: Vec<_> = refused.body["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| &error["field"])
            .collect();
        assert!(fields.contains(&&json!(field)), "{field}: {refused:?}");
    }
    let both = json!({"reserved": {"a b": "1", "pods": "-1"}});
    let refused = world.post(ALL, &both).await;
    assert!(refused.body["errors"].as_array().unwrap().len() >= 3, "{refused:?}");
    let namespace = world.post("/v1/namespaces/Not%20a%20name/reservations", &pods("u", 1)).await;
    namespace.is_refused(422, "Invalid");
    assert_eq!(world.ledger.durable().sequence, 0, "nothing was written");
}

#[tokio::test]
async fn more_time_is_given_and_never_taken() {
    let world = World::new();
    let granted = world.post(ALL, &pods("u", 1)).await;
    let path = format!("{ALL}/u/extend");
    let extended = world.post(&path, &json!({"ttl": "5m"})).await;
    extended.is(200);
    let time = |value: &Value| value["expirationTime"].as_str().unwrap().to_owned();
    assert!(time(&extended.body) > time(&granted.body));
    let shorter = world.post(&path, &json!({"ttl": "1s"})).await;
    assert_eq!(time(&shorter.is(200).body), time(&extended.body));
    world.post(&path, &json!({"ttl": "1h"})).await.is_refused(422, "Invalid");
    world.post(&path, &json!({"ttl": "x"})).await.is_refused(422, "Invalid");
    world.post(&path, &json!({})).await.is_refused(400, "Malformed");
    let unknown = world.post(&format!("{ALL}/v/extend"), &json!({"ttl": "1s"})).await;
    unknown.is_refused(404, "NotFound");
}

#[tokio::test]
async fn a_uid_of_another_namespace_is_not_found_under_ones_own() {
    let world = World::new();
    world.quota(json!({"pods": "2"})).await;
    let nothing = json!({});
    for uid in ["pending", "committed"] {
        world.post(ALL, &pods(uid, 1)).await.is(201);
    }
    let commit = format!("{ALL}/committed/commit");
    world.post(&commit, &nothing).await.is(200);
    for uid in ["pending", "committed"] {
        let elsewhere = format!("/v1/namespaces/b/reservations/{uid}");
        let answers = [
            world.post(&format!("{elsewhere}/extend"), &json!({"ttl": "1s"})).await,
            world.post(&format!("{elsewhere}/commit"), &nothing).await,
            // Of the committed one it would be a return.
            world.delete(&elsewhere).await,
        ];
        for answer in answers {
            answer.is_refused(404, "NotFound");
        }
        let own = world.get(&format!("{ALL}/{uid}")).await;
        assert_eq!(own.body["state"], uid);
    }
    let quota = world.get("/v1/namespaces/a/quotas/q").await;
    for which in ["used", "reserved"] {
        assert_eq!(quota.body["status"][which]["pods"], "1", "{which}");
    }
}

#[tokio::test]
async fn what_is_committed_counts_as_used() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let body = json!({"reservedBy": {"uid": "u"}, "reserved": {"requests.cpu": "3"}});
    world.post(ALL, &body).await.is(201);
    let path = format!("{ALL}/u/commit");
    let more = world.post(&path, &json!({"reserved": {"requests.cpu": "4"}})).await;
    more.is_refused(422, "ExceedsReservation");
    let negative = world.post(&path, &json!({"reserved": {"requests.cpu": "-1"}})).await;
    negative.is_refused(422, "Invalid");
    let committed = world.post(&path, &json!({"reserved": {"requests.cpu": "1"}})).await;
    assert_eq!(committed.is(200).body["state"], "committed");
    let again = world.call("POST", &path, &[], "").await;
    assert_eq!(again.is(200).body["state"], "committed");
    let quota = world.get("/v1/namespaces/a/quotas/q").await;
    assert_eq!(quota.body["status"]["used"]["requests.cpu"], "1");
    assert_eq!(quota.body["status"]["reserved"]["requests.cpu"], "0");
    for _ in 0..2 {
        world.delete(&format!("{ALL}/u")).await.is(204);
        let quota = world.get("/v1/namespaces/a/quotas/q").await;
        assert_eq!(quota.body["status"]["used"]["requests.cpu"], "0");
    }
    assert_eq!(world.get(&format!("{ALL}/u")).await.body["state"], "released");
    let path = format!("{ALL}/u/commit");
    let ended = world.post(&path, &json!({})).await;
    ended.is_refused(409, "AlreadyReleased");
}

#[tokio::test]
async fn what_is_given_back_is_free_again() {
    let world = World::new();
    world.quota(json!({"pods": "1"})).await;
    world.post(ALL, &pods("u", 1)).await.is(201);
    world.post(ALL, &pods("v", 1)).await.is_refused(403, "ExceedsHard");
    for _ in 0..2 {
        world.delete(&format!("{ALL}/u")).await.is(204);
    }
    world.post(ALL, &pods("v", 1)).await.is(201);
    world.delete(&format!("{ALL}/w")).await.is_refused(404, "NotFound");
    world.post(&format!("{ALL}/u/commit"), &json!({})).await.is_refused(409, "AlreadyReleased");
    let extend = world.post(&format!("{ALL}/u/extend"), &json!({"ttl": "1s"})).await;
    extend.is_refused(409, "AlreadyReleased");
}

#[tokio::test]
async fn what_has_expired_is_gone() {
    let world = World::new();
    world.quota(json!({"pods": "1"})).await;
    let mut batches = world.ledger.watch();
    let mut body = pods("u", 1);
    body["ttl"] = json!("1ms");
    world.post(ALL, &body).await.is(201);
    loop {
        let batch = batches.recv().await.unwrap();
        if batch.iter().any(|entry| entry.event.name() == "ReservationExpired") {
            break;
        }
    }
    assert_eq!(world.get(&format!("{ALL}/u")).await.body["state"], "expired");
    let extend = world.post(&format!("{ALL}/u/extend"), &json!({"ttl": "1s"})).await;
    extend.is_refused(410, "ReservationExpired");
    world.post(&format!("{ALL}/u/commit"), &json!({})).await.is_refused(410, "ReservationExpired");
    world.delete(&format!("{ALL}/u")).await.is(204);
    world.post(ALL, &pods("v", 1)).await.is(201);
}

#[tokio::test]
async fn pages_stay_in_order_whatever_happens_between_them() {
    let world = World::new();
    for index in 0..7 {
        world.post(ALL, &pods(&format!("u{index}"), 1)).await.is(201);
    }
    let uids = |items: &[Value]| -> Vec<String> {
        let uid = |item: &Value| item["reservedBy"]["uid"].as_str().unwrap().to_owned();
        items.iter().map(uid).collect()
    };
    let first = world.get(&format!("{ALL}?limit=3")).await;
    assert_eq!(uids(first.items()), ["u0", "u1", "u2"]);
    // One that was shown gets the last expiration, one that was not is gone, a new one comes.
    world.post(&format!("{ALL}/u1/extend"), &json!({"ttl": "10m"})).await.is(200);
    world.delete(&format!("{ALL}/u4")).await.is(204);
    world.post(ALL, &pods("u7", 1)).await.is(201);
    let mut seen = Vec::new();
    let mut next = first.body["continue"].as_str().map(str::to_owned);
    while let Some(token) = next {
        let page = world.get(&format!("{ALL}?limit=3&continue={token}")).await;
        seen.extend(uids(page.is(200).items()));
        next = page.body["continue"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ["u3", "u5", "u6", "u7"]);
    world.get(&format!("{ALL}?limit=0")).await.is_refused(400, "Malformed");
    world.get(&format!("{ALL}?continue=nonsense")).await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn a_namespace_cannot_take_the_room_of_all() {
    let world = World::new();
    for index in 0..400 {
        let items =
            [json!({"namespace": "a", "reservedBy": {"uid": format!("u{index}")}, "reserved": {}})];
        world.post("/v1/reservations:batch", &json!({"items": items})).await.is(200);
        if index == 0 {
            continue;
        }
    }
    let refused = world.post(ALL, &pods("more", 0)).await;
    refused.is_refused(429, "TooManyReservations");
    world.post("/v1/namespaces/b/reservations", &pods("other", 0)).await.is(201);
}

#[tokio::test]
async fn nothing_is_granted_before_the_sources_are_known() {
    use std::sync::atomic::Ordering::SeqCst;
    let world = World::new();
    world.post(ALL, &pods("u", 1)).await.is(201);
    world.sources.caught_up.store(false, SeqCst);
    world.post(ALL, &pods("v", 1)).await.is_refused(503, "NotReady");
    let batch = world.post("/v1/reservations:batch", &json!({"items": []})).await;
    batch.is_refused(503, "NotReady");
    let shown = world.get(&format!("{ALL}/u")).await;
    assert_eq!(shown.is(200).body["lagging"], true);
    let check = world.post("/v1/namespaces/a/check", &pods("v", 1)).await;
    assert_eq!(check.is(200).body["lagging"], true);
    world.delete(&format!("{ALL}/u")).await.is(204);
    world.sources.caught_up.store(true, SeqCst);
    world.sources.lag.store(true, SeqCst);
    let granted = world.post(ALL, &pods("v", 1)).await;
    assert_eq!(granted.is(201).body["lagging"], true);
}
