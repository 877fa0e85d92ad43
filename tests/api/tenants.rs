//! Tenants: nobody touches, sees or passes what is another's. Each attack stands beside the use that it imitates.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use quotad::{
    auth::{Pattern, Principal, Role},
    watches::WatchLimits,
};
use serde_json::{Value, json};

use super::world::World;

/// Somebody with a role in all namespaces, so that only ownership is in the way.
fn tenant(name: &str, role: Role) -> Principal {
    Principal::new(name, &[Role::Reserve, role], &[Pattern::all()])
}

async fn ask(world: &World, who: &Principal, how: &str, body: &Value) -> (u16, Value) {
    let (method, path) = how.split_once(' ').unwrap();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/v1/namespaces/{path}"))
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    request.extensions_mut().insert(who.clone());
    let response = world.send(request).await;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn request(uid: &str, name: &str, cpu: &str) -> Value {
    json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
           "reserved": {"requests.cpu": cpu}})
}

fn seen(kind: &str, namespace: &str, uid: &str, cpu: &str) -> Value {
    json!([{"type": kind, "namespace": namespace, "resource": "pods", "name": "web", "uid": uid,
            "resourceVersion": "5", "usage": {"requests.cpu": cpu}}])
}

async fn events(world: &World, events: &Value) {
    let reply = world.post("/v1/events", events).await;
    assert_eq!(
        reply.is(200).body["rejected"],
        json!([]),
        "{:?}",
        reply.body
    );
}

async fn figure(world: &World, which: &str) -> Value {
    let quota = world.get("/v1/namespaces/a/quotas/q").await;
    quota.body["status"][which]["requests.cpu"].clone()
}

#[tokio::test]
async fn a_commit_changes_nothing_of_another_namespace_and_no_observed_object() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    events(&world, &seen("ADDED", "a", "live", "3")).await;
    let tenant = tenant("b", Role::Read);
    for namespace in ["b", "a"] {
        let path = format!("POST {namespace}/reservations");
        let body = request("live", "", "0");
        assert_eq!(ask(&world, &tenant, &path, &body).await.0, 201);
        let path = format!("{path}/live/commit");
        assert_eq!(ask(&world, &tenant, &path, &json!({})).await.0, 200);
        assert_eq!(figure(&world, "used").await, "3");
    }
    let objects = world.get("/v1/namespaces/a/objects").await;
    assert_eq!(objects.items()[0]["usage"]["requests.cpu"], "3");
}

/// Its holder says what a commit is for; of an observed pod that is what was observed, with all that scopes ask of it.
#[tokio::test]
async fn a_commit_takes_an_observed_pod_out_of_no_quota_with_scopes() {
    let world = World::new();
    for (name, scopes) in [("q", json!([])), ("scoped", json!(["NotTerminating"]))] {
        let spec = json!({"spec": {"hard": {"pods": "5"}, "scopes": scopes}});
        let path = format!("/v1/namespaces/a/quotas/{name}");
        world.put(&path, &spec).await.is(201);
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "a", "uid": "live", "resourceVersion": "5"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    events(&world, &json!([{"type": "ADDED", "object": pod}])).await;
    let holder = tenant("holder", Role::Read);
    let nothing = json!({"reservedBy": {"uid": "live"}, "reserved": {}});
    let (status, _) = ask(&world, &holder, "POST a/reservations", &nothing).await;
    assert_eq!(status, 201);
    let commit = "POST a/reservations/live/commit";
    assert_eq!(ask(&world, &holder, commit, &json!({})).await.0, 200);
    for name in ["q", "scoped"] {
        let quota = world.get(&format!("/v1/namespaces/a/quotas/{name}")).await;
        assert_eq!(quota.body["status"]["used"]["pods"], "1", "{name}");
    }
}

#[tokio::test]
async fn one_principal_does_not_take_all_watches() {
    let limits = WatchLimits {
        all: 3,
        of_principal: 2,
    };
    let world = World::with(|parts| parts.watch_streams = limits);
    let (greedy, other) = (tenant("greedy", Role::Read), tenant("other", Role::Read));
    let watch = async |who: &Principal| {
        let mut request = Request::get("/v1/watch").body(Body::empty()).unwrap();
        request.extensions_mut().insert(who.clone());
        world.send(request).await
    };
    let mut open = vec![watch(&greedy).await, watch(&greedy).await];
    assert_eq!(watch(&greedy).await.status(), 503);
    open.push(watch(&other).await);
    let statuses: Vec<_> = open.iter().map(|it| it.status().as_u16()).collect();
    assert_eq!(statuses, [200, 200, 200]);
    // Whoever ends one may have another.
    open.remove(0);
    assert_eq!(watch(&greedy).await.status(), 200);
}

#[tokio::test]
async fn a_uid_that_is_used_in_one_namespace_is_free_in_another() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let (a, b) = (tenant("a", Role::Read), tenant("b", Role::Read));
    let of_b = request("u", "x", "2");
    assert_eq!(ask(&world, &b, "POST b/reservations", &of_b).await.0, 201);
    assert_eq!(
        ask(&world, &b, "DELETE b/reservations/u", &json!({}))
            .await
            .0,
        204
    );
    let of_a = request("u", "web", "3");
    assert_eq!(ask(&world, &a, "POST a/reservations", &of_a).await.0, 201);
    // Nor does it show what is held there.
    let (status, body) = ask(&world, &b, "POST b/check", &request("u", "x", "9")).await;
    assert_eq!((status, body["quotas"].clone()), (200, json!([])), "{body}");
    let (status, body) = ask(&world, &b, "GET b/reservations/u", &json!({})).await;
    assert_eq!((status, &body["state"]), (200, &json!("released")));
    // Events of one namespace end nothing of another.
    events(&world, &seen("DELETED", "b", "u", "0")).await;
    assert_eq!(figure(&world, "reserved").await, "3");
    events(&world, &seen("ADDED", "a", "u", "3")).await;
    assert_eq!(figure(&world, "used").await, "3");
    let (_, body) = ask(&world, &a, "GET a/reservations/u", &json!({})).await;
    assert_eq!(body["state"], "observed");
}

#[tokio::test]
async fn only_the_holder_or_an_admin_changes_a_reservation() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let (holder, other) = (tenant("holder", Role::Read), tenant("other", Role::Read));
    let body = request("u", "web", "2");
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        201
    );
    let (nothing, more) = (json!({}), json!({"ttl": "60s"}));
    let named = request("v", "web", "1");
    for (how, body, done) in [
        ("POST a/reservations/u/extend", &more, 200),
        ("POST a/reservations/u/commit", &nothing, 200),
        ("DELETE a/reservations/u", &nothing, 204),
    ] {
        let (status, answer) = ask(&world, &other, how, body).await;
        assert_eq!(
            (status, &answer["reason"]),
            (403, &json!("NotOwner")),
            "{how}"
        );
        assert_eq!(ask(&world, &holder, how, body).await.0, done, "{how}");
    }
    let body = request("x", "web", "2");
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        201
    );
    let (status, answer) = ask(&world, &other, "POST a/reservations", &named).await;
    assert_eq!((status, &answer["reason"]), (403, &json!("NotOwner")));
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &named).await.0,
        201
    );
    assert_eq!(figure(&world, "reserved").await, "1");
    let admin = tenant("boss", Role::Admin);
    let body = request("w", "db", "2");
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        201
    );
    let release = "DELETE a/reservations/w";
    let (status, answer) = ask(&world, &other, release, &json!({})).await;
    assert_eq!((status, &answer["reason"]), (403, &json!("NotOwner")));
    assert_eq!(ask(&world, &admin, release, &json!({})).await.0, 204);
}

/// Whoever may reserve everywhere does not take the room of all others.
#[tokio::test]
async fn one_principal_does_not_take_all_that_may_be_pending_or_committed() {
    let world = World::with_policy(|policy| {
        policy.max_pending_per_principal = 2;
        policy.bounds.committed_per_namespace = 1;
    });
    let (greedy, other) = (tenant("greedy", Role::Read), tenant("other", Role::Read));
    for (number, namespace) in ["a", "b"].into_iter().enumerate() {
        let how = format!("POST {namespace}/reservations");
        let body = request(&format!("u{number}"), "", "1");
        assert_eq!(ask(&world, &greedy, &how, &body).await.0, 201);
    }
    let body = request("v", "", "1");
    let (status, answer) = ask(&world, &greedy, "POST c/reservations", &body).await;
    assert_eq!(
        (status, &answer["reason"]),
        (429, &json!("TooManyReservations"))
    );
    assert_eq!(
        ask(&world, &other, "POST c/reservations", &body).await.0,
        201
    );
    let commit = "POST a/reservations/u0/commit";
    assert_eq!(ask(&world, &greedy, commit, &json!({})).await.0, 200);
    let body = request("w", "", "1");
    assert_eq!(
        ask(&world, &greedy, "POST a/reservations", &body).await.0,
        201
    );
    let commit = "POST a/reservations/w/commit";
    let (status, answer) = ask(&world, &greedy, commit, &json!({})).await;
    assert_eq!((status, &answer["reason"]), (422, &json!("LimitReached")));
    let release = "DELETE a/reservations/u0";
    assert_eq!(ask(&world, &greedy, release, &json!({})).await.0, 204);
    assert_eq!(ask(&world, &greedy, commit, &json!({})).await.0, 200);
}

/// What one tenant reserves and gives back makes nothing that another one did be forgotten.
#[tokio::test]
async fn the_churn_of_one_tenant_leaves_what_another_one_did() {
    let world = World::with_policy(|policy| policy.bounds.ended_bytes = 30_000);
    let (quiet, churning) = (tenant("quiet", Role::Read), tenant("churn", Role::Read));
    let churn = async |who: &Principal, namespace: &str, uid: &str| {
        let how = format!("POST {namespace}/reservations");
        assert_eq!(ask(&world, who, &how, &request(uid, "", "1")).await.0, 201);
        let how = format!("DELETE {namespace}/reservations/{uid}");
        assert_eq!(ask(&world, who, &how, &json!({})).await.0, 204);
    };
    churn(&quiet, "a", "u").await;
    for number in 0..150 {
        churn(&churning, "b", &format!("u{number}")).await;
    }
    let (status, ended) = ask(
        &world,
        &quiet,
        "POST a/reservations",
        &request("u", "", "1"),
    )
    .await;
    assert_eq!(
        (status, &ended["reason"]),
        (409, &json!("ReservationEnded"))
    );
    let first = "GET b/reservations/u0";
    assert_eq!(ask(&world, &churning, first, &json!({})).await.0, 404);
}

#[tokio::test]
async fn what_has_ended_is_told_and_not_granted_again() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let holder = tenant("holder", Role::Read);
    let body = request("u", "web", "2");
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        201
    );
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        200
    );
    let commit = "POST a/reservations/u/commit";
    assert_eq!(ask(&world, &holder, commit, &json!({})).await.0, 200);
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        200
    );
    let release = "DELETE a/reservations/u";
    for _ in 0..2 {
        assert_eq!(ask(&world, &holder, release, &json!({})).await.0, 204);
        assert_eq!(figure(&world, "used").await, "0");
    }
    let entries = world.get("/v1/entries").await;
    let of_type = |entry: &&Value| entry["event"]["type"] == "ReservationReturned";
    let returned: Vec<_> = entries.items().iter().filter(of_type).collect();
    assert_eq!(returned.len(), 1, "{entries:?}");
    assert_eq!(returned[0]["actor"]["principal"], "holder");
    let (status, ended) = ask(&world, &holder, "POST a/reservations", &body).await;
    assert_eq!(
        (status, &ended["reason"]),
        (409, &json!("ReservationEnded"))
    );
    assert_eq!(
        (&ended["state"], &ended["cause"]),
        (&json!("released"), &json!("returned"))
    );
    assert!(ended["endedTime"].is_string(), "{ended}");
    let mut item = body.clone();
    item["namespace"] = json!("a");
    let mut fresh = request("w", "x", "1");
    fresh["namespace"] = json!("a");
    for atomic in [false, true] {
        let items = json!({"atomic": atomic, "items": [item, fresh]});
        let batch = world.post("/v1/reservations:batch", &items).await;
        match atomic {
            // Each item separately: the ended one is reported, and the other is granted.
            false => {
                let reasons = batch.items().iter().map(|item| item["reason"].clone());
                assert_eq!(
                    reasons.collect::<Vec<_>>(),
                    [json!("ReservationEnded"), json!(null)]
                );
                assert_eq!(figure(&world, "reserved").await, "1");
            }
            true => assert_eq!(batch.status, 409, "{:?}", batch.body),
        }
    }
    assert_eq!(
        world.delete("/v1/namespaces/a/reservations/w").await.status,
        204
    );
    // What a source has reported is not the holder's to take away.
    let body = request("v", "web", "2");
    assert_eq!(
        ask(&world, &holder, "POST a/reservations", &body).await.0,
        201
    );
    events(&world, &seen("ADDED", "a", "v", "1")).await;
    let (status, answer) = ask(&world, &holder, "DELETE a/reservations/v", &json!({})).await;
    assert_eq!(
        (status, &answer["reason"]),
        (409, &json!("AlreadyObserved"))
    );
    assert_eq!(figure(&world, "used").await, "1");
}

#[tokio::test]
async fn what_another_principal_holds_is_not_answered_as_granted() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let (holder, other) = (tenant("holder", Role::Read), tenant("other", Role::Read));
    let body = request("u", "web", "2");
    let reserve = "POST a/reservations";
    assert_eq!(ask(&world, &holder, reserve, &body).await.0, 201);
    let (status, answer) = ask(&world, &other, reserve, &body).await;
    assert_eq!((status, &answer["reason"]), (403, &json!("NotOwner")));
    assert_eq!(ask(&world, &holder, reserve, &body).await.0, 200);
}

#[tokio::test]
async fn a_commit_beside_an_object_of_its_name_takes_no_room_twice_and_passes_no_limit() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let holder = tenant("holder", Role::Read);
    let body = request("u", "web", "3");
    let reserve = "POST a/reservations";
    assert_eq!(ask(&world, &holder, reserve, &body).await.0, 201);
    // Another object of the name: what is reserved waits for the end of that.
    events(&world, &seen("ADDED", "a", "live", "3")).await;
    assert_eq!(figure(&world, "reserved").await, "0");
    let body = request("v", "db", "1");
    assert_eq!(ask(&world, &holder, reserve, &body).await.0, 201);
    let commit = "POST a/reservations/u/commit";
    assert_eq!(ask(&world, &holder, commit, &json!({})).await.0, 200);
    assert_eq!(figure(&world, "used").await, "3");
    let body = request("w", "x", "1");
    assert_eq!(ask(&world, &holder, reserve, &body).await.0, 403);
    // From its end on all of it counts.
    events(&world, &seen("DELETED", "a", "live", "0")).await;
    assert_eq!(figure(&world, "used").await, "3");
    events(&world, &seen("ADDED", "a", "u", "2")).await;
    assert_eq!(figure(&world, "used").await, "2");
}
