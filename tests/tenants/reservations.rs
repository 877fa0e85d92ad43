//! Reservations: commits, ends, and uids of others.

use serde_json::{Value, json};

use super::{
    pod, reserve_request, review,
    support::{
        PATIENCE,
        callers::{Callers, Principal},
        until,
    },
};

const WHO: &[Principal<'_>] = &[
    ("tenant", "reserve", "b"),
    ("holder", "reserve", "a"),
    ("hook", "reserve", "*"),
    ("bridge", "ingest", "*"),
    ("root", "admin,read,reserve", "*"),
];

const A: &str = "/v1/namespaces/a/reservations";
const B: &str = "/v1/namespaces/b/reservations";

/// A daemon with quotas in the namespace `a`, one of them with a scope.
fn start() -> Callers {
    let callers = Callers::start(WHO, &[]);
    for (name, scopes) in [("q", json!([])), ("scoped", json!(["NotTerminating"]))] {
        let quota = json!({"spec": {"hard": {"pods": "9", "requests.cpu": "4"}, "scopes": scopes}});
        let path = format!("/v1/namespaces/a/quotas/{name}");
        callers.expect(201, "root", "PUT", &path, &quota);
    }
    callers
}

fn see(callers: &Callers, change: &str, namespace: &str, uid: &str, cpu: &str) {
    let event = json!([{"type": change, "object": pod(namespace, uid, "5", cpu)}]);
    let answer = callers.expect(200, "bridge", "POST", "/v1/events", &event);
    assert_eq!(answer["accepted"], 1, "{answer}");
}

/// `used+reserved` of processor time, by both quotas.
fn counted(callers: &Callers) -> [String; 2] {
    ["q", "scoped"].map(|name| {
        let quota = callers.get("root", &format!("/v1/namespaces/a/quotas/{name}"));
        let amount = |which: &str| {
            let amount = quota["status"][which]["requests.cpu"].as_str();
            amount.unwrap_or("0").to_owned()
        };
        format!("{}+{}", amount("used"), amount("reserved"))
    })
}

fn path(all: &str, uid: &str, what: &str) -> String {
    format!("{all}/{uid}{what}")
}

#[test]
fn a_commit_changes_nothing_that_was_observed_here_or_elsewhere() {
    let callers = start();
    see(&callers, "ADDED", "a", "live", "3");
    let nothing = json!({"reservedBy": {"uid": "live"}, "reserved": {}});
    // In the other namespace it is another object, and in this one what was observed counts.
    for (who, all) in [("tenant", B), ("holder", A)] {
        callers.expect(201, who, "POST", all, &nothing);
        callers.expect(200, who, "POST", &path(all, "live", "/commit"), &json!({}));
        assert_eq!(counted(&callers), ["3+0", "3+0"], "{who}");
    }
    callers.refused((403, "Forbidden"), "tenant", "POST", A, &nothing);
    // A commit of one's own counts until it is observed.
    callers.expect(201, "holder", "POST", A, &reserve_request("new", "1"));
    callers.expect(200, "holder", "POST", &path(A, "new", "/commit"), &json!({}));
    assert_eq!(counted(&callers)[0], "4+0");
    see(&callers, "ADDED", "a", "new", "500m");
    assert_eq!(counted(&callers), ["3500m+0", "3500m+0"]);
}

#[test]
fn a_uid_of_another_namespace_is_neither_blocked_nor_shown() {
    let callers = start();
    callers.expect(201, "tenant", "POST", B, &reserve_request("u", "2"));
    callers.expect(204, "tenant", "DELETE", &path(B, "u", ""), &json!({}));
    callers.expect(201, "holder", "POST", A, &reserve_request("u", "3"));
    let check = "/v1/namespaces/b/check";
    let answer = callers.expect(200, "tenant", "POST", check, &reserve_request("u", "9"));
    assert_eq!(answer["quotas"], json!([]), "{answer}");
    callers.refused((403, "Forbidden"), "tenant", "GET", &path(A, "u", ""), &json!(null));
    see(&callers, "ADDED", "b", "u", "1");
    see(&callers, "DELETED", "b", "u", "1");
    assert_eq!(counted(&callers)[0], "0+3");
    see(&callers, "ADDED", "a", "u", "3");
    assert_eq!(counted(&callers), ["3+0", "3+0"]);
}

/// Asserts that every request for a reservation shows that it has ended in this way, and that nothing is held.
fn has_ended(callers: &Callers, body: &Value, state: &str, cause: &str) {
    let answer = callers.expect(409, "holder", "POST", A, body);
    let shown = ["reason", "state", "cause"].map(|field| answer[field].as_str().unwrap());
    assert_eq!(shown, ["ReservationEnded", state, cause]);
    assert!(answer["endedTime"].is_string(), "{answer}");
    let mut item = body.clone();
    item["namespace"] = json!("a");
    let batch = |atomic: bool| json!({"atomic": atomic, "items": [item]});
    let each = "/v1/reservations:batch";
    let answer = callers.expect(200, "holder", "POST", each, &batch(false));
    let item = &answer["items"][0];
    assert_eq!((&item["status"], &item["reason"]), (&json!(409), &json!("ReservationEnded")));
    callers.refused((409, "ReservationEnded"), "holder", "POST", each, &batch(true));
    assert_eq!(counted(callers)[0], "0+0");
}

#[tokio::test]
async fn what_has_ended_is_told_and_holds_nothing() {
    let callers = start();
    let nothing = json!({});
    let release = |uid: &str, status| {
        callers.expect(status, "holder", "DELETE", &path(A, uid, ""), &nothing);
    };
    // As long as it has not, the same again finds it.
    let released = reserve_request("released", "2");
    callers.expect(201, "holder", "POST", A, &released);
    callers.expect(200, "holder", "POST", A, &released);
    release("released", 204);
    has_ended(&callers, &released, "released", "released");

    let mut expired = reserve_request("expired", "2");
    expired["ttl"] = json!("1s");
    callers.expect(201, "holder", "POST", A, &expired);
    let expires = until("it expires", || {
        let shown = callers.get("root", &path(A, "expired", ""));
        (shown["state"] == "expired").then_some(())
    });
    expires.await;
    has_ended(&callers, &expired, "expired", "expired");

    // What is committed is given back by its holder, once.
    let returned = reserve_request("returned", "2");
    callers.expect(201, "holder", "POST", A, &returned);
    callers.expect(200, "holder", "POST", &path(A, "returned", "/commit"), &nothing);
    assert_eq!(counted(&callers)[0], "2+0");
    for _ in 0..2 {
        release("returned", 204);
        assert_eq!(counted(&callers)[0], "0+0");
    }
    has_ended(&callers, &returned, "released", "returned");

    // What is observed is its source's.
    callers.expect(201, "holder", "POST", A, &reserve_request("observed", "2"));
    see(&callers, "ADDED", "a", "observed", "1");
    let own = path(A, "observed", "");
    callers.refused((409, "AlreadyObserved"), "holder", "DELETE", &own, &nothing);
    assert_eq!(counted(&callers)[0], "1+0");
}

#[test]
fn the_webhook_decides_anew_what_has_ended() {
    let callers = start();
    let admits = |review: &Value| {
        let answer = callers.call_within(PATIENCE, "hook", "POST", "/admit", review);
        assert_eq!(answer.0, 200, "{}", answer.1);
        answer.1["response"]["allowed"].as_bool().unwrap()
    };
    let first = review("a", "p", "3");
    assert!(admits(&first));
    assert!(admits(&first), "a repeated call finds its hold");
    assert_eq!(counted(&callers)[0], "0+3");
    callers.expect(204, "root", "DELETE", &path(A, "p", ""), &json!({}));
    assert_eq!(counted(&callers)[0], "0+0");
    assert!(admits(&first));
    assert_eq!(counted(&callers)[0], "0+3");
    callers.expect(204, "root", "DELETE", &path(A, "p", ""), &json!({}));
    callers.expect(201, "holder", "POST", A, &reserve_request("other", "2"));
    assert!(!admits(&first), "what it had has gone to another");
}
