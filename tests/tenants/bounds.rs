//! What one tenant may have and be remembered for, so that others have theirs.

use serde_json::{Value, json};
use ureq::{Body, http::Response};

use super::{
    reserve_request,
    support::{
        callers::{Callers, Principal},
        quotad::{REQUEST, agent},
        until,
    },
};

const WHO: &[Principal<'_>] = &[
    ("greedy", "read,reserve", "*"),
    ("other", "read,reserve", "*"),
    ("root", "admin,read,reserve", "*"),
];

fn reservations(namespace: &str) -> String {
    format!("/v1/namespaces/{namespace}/reservations")
}

/// Reserves and gives back.
fn churn(callers: &Callers, who: &str, namespace: &str, uid: &str) {
    let all = reservations(namespace);
    callers.expect(201, who, "POST", &all, &reserve_request(uid, "1"));
    let own = format!("{all}/{uid}");
    callers.expect(204, who, "DELETE", &own, &json!(null));
}

#[test]
fn one_principal_does_not_take_all_that_may_be_pending_or_committed() {
    let arguments =
        ["--reservations.max_pending_per_principal=2", "--limits.committed_per_namespace=1"];
    let callers = Callers::start(WHO, &arguments);
    let nothing = json!({});
    for namespace in ["a", "b"] {
        let all = reservations(namespace);
        callers.expect(201, "greedy", "POST", &all, &reserve_request("u", "1"));
    }
    let (a, c) = (reservations("a"), reservations("c"));
    let full = (429, "TooManyReservations");
    callers.refused(full, "greedy", "POST", &c, &reserve_request("v", "1"));
    callers.expect(201, "other", "POST", &c, &reserve_request("v", "1"));

    let commit = |uid: &str| format!("{a}/{uid}/commit");
    callers.expect(200, "greedy", "POST", &commit("u"), &nothing);
    callers.expect(201, "greedy", "POST", &a, &reserve_request("w", "1"));
    let full = (422, "LimitReached");
    callers.refused(full, "greedy", "POST", &commit("w"), &nothing);
    // Another namespace has room of its own, and what is given back is free.
    let elsewhere = format!("{c}/v/commit");
    callers.expect(200, "other", "POST", &elsewhere, &nothing);
    let first = format!("{a}/u");
    callers.expect(204, "greedy", "DELETE", &first, &nothing);
    callers.expect(200, "greedy", "POST", &commit("w"), &nothing);
}

#[test]
fn nothing_is_held_for_ever_by_extending_it() {
    let callers = Callers::start(WHO, &["--reservations.max_lifetime=1m"]);
    let all = reservations("a");
    callers.expect(201, "greedy", "POST", &all, &reserve_request("u", "1"));
    let extend = format!("{all}/u/extend");
    callers.expect(200, "greedy", "POST", &extend, &json!({"ttl": "40s"}));
    let more = json!({"ttl": "5m"});
    callers.refused((422, "LimitReached"), "greedy", "POST", &extend, &more);
}

/// A watch that is open; none: it was refused, since too many are.
fn watch(callers: &Callers, who: &str) -> Option<Response<Body>> {
    let url = format!("{}/v1/watch", callers.daemon.api);
    let token = format!("Bearer {}", callers.token(who));
    let request = agent(REQUEST).get(url).header("authorization", token);
    let answer = request.call().unwrap();
    match answer.status().as_u16() {
        200 => Some(answer),
        status => {
            assert_eq!(status, 503);
            None
        }
    }
}

#[tokio::test]
async fn one_principal_does_not_take_all_watches() {
    let arguments = ["--limits.watch_streams=3", "--limits.watch_streams_per_principal=2"];
    let callers = Callers::start(WHO, &arguments);
    let mut open: Vec<_> = (0..2).map(|_| watch(&callers, "greedy").unwrap()).collect();
    assert!(watch(&callers, "greedy").is_none());
    let of_other = watch(&callers, "other");
    assert!(of_other.is_some());
    open.pop();
    let free = until("the slot is free again", || watch(&callers, "greedy"));
    free.await;
}

fn named(from: usize, count: usize) -> Value {
    let names = (from..from + count).map(|number| format!("example.com/r{number}"));
    names.map(|name| (name, json!("1"))).collect()
}

#[test]
fn one_tenant_does_not_make_up_names_of_resources_without_end() {
    let callers = Callers::start(WHO, &["--limits.resources_per_namespace=100"]);
    let (a, b) = (reservations("a"), reservations("b"));
    let reserve_request =
        |uid: &str, reserved: Value| json!({"reservedBy": {"uid": uid}, "reserved": reserved});
    // A namespace without anything in it is forgotten with its sums.
    let quota = json!({"spec": {"hard": {"pods": "9"}}});
    callers.expect(201, "root", "PUT", "/v1/namespaces/a/quotas/q", &quota);
    let full = (422, "LimitReached");
    callers.refused(full, "greedy", "POST", &a, &reserve_request("wide", named(0, 65)));
    let long = format!("{}.example.com/r", vec!["x".repeat(50); 4].join("."));
    let long = (0..40).map(|number| (format!("{long}{number}"), json!("1")));
    callers.refused(full, "greedy", "POST", &a, &reserve_request("long", long.collect()));
    callers.expect(201, "greedy", "POST", &a, &reserve_request("u", named(0, 60)));
    callers.refused(full, "greedy", "POST", &a, &reserve_request("v", named(60, 60)));
    // Committed names count as reserved ones do.
    let commit = format!("{a}/u/commit");
    callers.expect(200, "greedy", "POST", &commit, &json!({}));
    callers.refused(full, "greedy", "POST", &a, &reserve_request("v", named(60, 60)));
    // Names that are used already do not add to the number, and another namespace has its own.
    callers.expect(201, "greedy", "POST", &a, &reserve_request("w", named(0, 60)));
    callers.expect(201, "other", "POST", &b, &reserve_request("v", named(60, 60)));
    // They go with the last reservation and the last commit.
    for uid in ["u", "w"] {
        let own = format!("{a}/{uid}");
        callers.expect(204, "greedy", "DELETE", &own, &json!(null));
    }
    callers.expect(201, "greedy", "POST", &a, &reserve_request("x", named(60, 60)));
}

#[test]
fn the_churn_of_one_tenant_makes_no_end_of_another_be_forgotten() {
    let callers = Callers::start(WHO, &["--limits.ended_reservations_bytes=30000"]);
    churn(&callers, "other", "a", "u");
    for number in 0..150 {
        churn(&callers, "greedy", "b", &format!("u{number}"));
    }
    let ended = (409, "ReservationEnded");
    callers.refused(ended, "other", "POST", &reservations("a"), &reserve_request("u", "1"));
    // The flood has made its own be forgotten, the first ones first.
    let of = |number: u32| format!("{}/u{number}", reservations("b"));
    callers.expect(404, "greedy", "GET", &of(0), &json!(null));
    callers.expect(200, "greedy", "GET", &of(149), &json!(null));
}

#[tokio::test]
async fn the_denials_of_one_tenant_leave_those_of_another() {
    let bounds: [&[&str]; 2] = [&["--denials.max_records=20"], &["--denials.max_bytes=20000"]];
    for arguments in bounds {
        let callers = Callers::start(WHO, arguments);
        for namespace in ["a", "b"] {
            let path = format!("/v1/namespaces/{namespace}/quotas/q");
            let quota = json!({"spec": {"hard": {"requests.cpu": "1"}}});
            callers.expect(201, "root", "PUT", &path, &quota);
        }
        let denied = |who: &str, namespace: &str, uid: &str| {
            let all = reservations(namespace);
            callers.refused((403, "ExceedsHard"), who, "POST", &all, &reserve_request(uid, "2"));
        };
        denied("other", "a", "quiet");
        for number in 0..150 {
            denied("greedy", "b", &format!("u{number}"));
        }
        let uids = |namespace: &str| {
            let list = callers.get("root", &format!("/v1/namespaces/{namespace}/denials"));
            let items = list["items"].as_array().unwrap();
            let uid = |item: &Value| item["object"]["uid"].as_str().unwrap().to_owned();
            items.iter().map(uid).collect::<Vec<_>>()
        };
        // They are kept a moment after they are answered.
        let kept = until("the last one is kept", || {
            let uids = uids("b");
            uids.contains(&"u149".to_owned()).then_some(uids)
        });
        let kept = kept.await;
        assert!(kept.len() < 100, "{}", kept.len());
        assert_eq!(uids("a"), ["quiet"], "{arguments:?}");
    }
}

const ATTACK: &[Principal<'_>] = &[
    ("attacker", "admin,read,reserve", "att-*"),
    ("victim", "admin,read,reserve", "team-*"),
    ("root", "admin,read", "*"),
];

/// A tenant whose pattern matches any number of namespaces does in each of them what it may do in one.
#[test]
fn one_tenant_with_many_namespaces_takes_no_more_than_its_share() {
    const NAMESPACES: usize = 300;
    const VICTIM: usize = 20;
    let arguments = [
        "--limits.ended_reservations_bytes=40000",
        "--denials.max_records=50",
        "--limits.metrics_series=100",
        "--limits.quota_changes_bytes=40000",
    ];
    let callers = Callers::start(ATTACK, &arguments);
    let quota = |cpu: &str| json!({"spec": {"hard": {"requests.cpu": cpu}}});
    let path = |namespace: &str, name: &str| format!("/v1/namespaces/{namespace}/quotas/{name}");
    let victim = |number: usize| format!("u{number}");
    callers.expect(201, "victim", "PUT", &path("team-a", "q"), &quota("10"));
    callers.expect(201, "victim", "PUT", &path("team-a", "gone"), &quota("10"));
    let before = callers.get("victim", "/api/v1/namespaces/team-a/resourcequotas");
    let before = before["metadata"]["resourceVersion"].as_str().unwrap();
    let gone = path("team-a", "gone");
    callers.expect(204, "victim", "DELETE", &gone, &json!(null));
    let held = reserve_request("held", "9");
    callers.expect(201, "victim", "POST", &reservations("team-a"), &held);
    for number in 0..VICTIM {
        churn(&callers, "victim", "team-b", &victim(number));
    }
    let denied = |who: &str, namespace: &str, uid: &str| {
        let (all, request) = (reservations(namespace), reserve_request(uid, "20"));
        callers.refused((403, "ExceedsHard"), who, "POST", &all, &request);
    };
    for number in 0..VICTIM {
        denied("victim", "team-a", &format!("denied-{number}"));
    }

    for number in 0..NAMESPACES {
        let namespace = format!("att-{number}");
        let own = path(&namespace, "q");
        callers.expect(201, "attacker", "PUT", &own, &quota("1"));
        churn(&callers, "attacker", &namespace, "u");
        denied("attacker", &namespace, "denied");
        let short = path(&namespace, "short");
        callers.expect(201, "attacker", "PUT", &short, &quota("1"));
        callers.expect(204, "attacker", "DELETE", &short, &json!(null));
        // Full, and so before what is less full.
        let all = reservations(&namespace);
        callers.expect(201, "attacker", "POST", &all, &reserve_request("full", "1"));
    }

    for number in 0..VICTIM {
        let (all, request) = (reservations("team-b"), reserve_request(&victim(number), "1"));
        callers.refused((409, "ReservationEnded"), "victim", "POST", &all, &request);
    }
    let list = callers.get("victim", "/v1/namespaces/team-a/denials?limit=500");
    assert_eq!(list["items"].as_array().unwrap().len(), VICTIM);
    let hard = r#"kube_resourcequota{resourcequota="q",namespace="team-a",resource="requests.cpu",type="hard"}"#;
    assert_eq!(callers.metric(hard), 10);
    assert!(callers.metric("quota_ledger_quotas_left_out") > 0);
    // The deletion is remembered: a watch from before is not refused.
    let watch = format!(
        "/api/v1/namespaces/team-a/resourcequotas?watch=1&timeoutSeconds=1&resourceVersion={before}"
    );
    let url = format!("{}{watch}", callers.daemon.api);
    let answer = agent(REQUEST)
        .get(&url)
        .header("authorization", callers.authorization("victim").unwrap())
        .call();
    let mut answer = answer.unwrap();
    assert_eq!(answer.status(), 200);
    let lines = answer.body_mut().read_to_string().unwrap();
    assert!(lines.contains("DELETED") && !lines.contains("ERROR"), "{lines}");
    let own = callers.call("attacker", "GET", &path("att-0", "q"), &json!(null));
    assert_eq!(own.0, 200);
}
