//! The most that one tenant can have the daemon keep in memory or answer, by requests that are as wide as they may be.

use serde_json::{Value, json};

use super::support::{
    callers::{Callers, Principal},
    wait_until,
};

const WHO: &[Principal<'_>] = &[("greedy", "read,reserve", "*"), ("root", "admin,read", "*")];
const BATCH: &str = "/v1/reservations:batch";

/// Resources of a reservation: as many as it may have.
const RESOURCES: usize = 64;

fn item(namespace: &str, name: &str, uid: &str, reserved: &Value) -> Value {
    json!({"namespace": namespace, "reservedBy": {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid},
        "reserved": reserved})
}

/// Each reservation of a batch takes the place of the one before, which so ends; what has ended is remembered with its
/// amounts, so that a request that is repeated is not granted again.
#[test]
fn ended_reservations_of_many_long_names_take_no_more_memory_than_they_may() {
    const BOUND: u64 = 1 << 20;
    const ITEMS: usize = 100;
    const FIRST: usize = 8;
    const ROUNDS: usize = 24;
    const NAMESPACES: [&str; 4] = ["a", "b", "c", "d"];
    let callers = Callers::start(WHO, &["--limits.ended_reservations_bytes=1MiB"]);
    let domain = [45, 60].map(|length| "x".repeat(length)).join(".");
    let named = |number| (format!("{domain}/r{number:02}"), json!("1"));
    let reserved = Value::Object((0..RESOURCES).map(named).collect());
    let churn = |round: usize| {
        for namespace in NAMESPACES {
            let uid = |number: usize| format!("u{round}-{number}");
            let items = (0..ITEMS).map(|number| item(namespace, "web", &uid(number), &reserved));
            let body = json!({"items": items.collect::<Vec<_>>()});
            let answer = callers.expect(200, "greedy", "POST", BATCH, &body);
            let items = answer["items"].as_array().unwrap();
            assert!(items.iter().all(|item| item["status"] == 201), "{answer}");
        }
        let remembered = callers.metric("quota_ledger_ended_reservations_bytes");
        assert!(remembered <= BOUND, "{remembered} after round {round}");
    };
    // The first rounds fill what may be remembered, and have the daemon take what memory such requests need.
    (0..FIRST).for_each(churn);
    let before = callers.daemon.memory();
    (FIRST..ROUNDS).for_each(churn);
    wait_until("the metric is of now", || {
        callers.metric("quota_ledger_ended_reservations_bytes") > BOUND / 2
    });
    let grown = callers.daemon.memory().saturating_sub(before);
    println!("{} KiB more", grown >> 10);
    // With the default bound, which is far away, it is about 70 MiB for these 6,400 reservations; with this one, some MiB
    // by what the allocator keeps.
    assert!(grown < 32 << 20, "{grown} bytes more");

    // The last ones are remembered beside it, and are not granted again.
    for namespace in NAMESPACES {
        let all = format!("/v1/namespaces/{namespace}/reservations");
        let last = format!("u{}-{}", ROUNDS - 1, ITEMS - 1);
        let own = format!("{all}/{last}");
        callers.expect(204, "greedy", "DELETE", &own, &Value::Null);
        let again = item(namespace, "web", &last, &reserved);
        let ended = (409, "ReservationEnded");
        callers.refused(ended, "greedy", "POST", &all, &again);
    }
}

/// How many limits of quotas a denial shows.
fn shown(denial: &Value) -> usize {
    let quotas = denial["quotas"].as_array().unwrap();
    let limits = |quota: &Value| quota["resources"].as_array().unwrap().len();
    quotas.iter().map(limits).sum()
}

/// What a denial shows of the quotas is bounded (docs/overload.md), and so is the length of its answer.
#[test]
fn the_answers_about_denials_are_of_bounded_length() {
    const QUOTAS: usize = 100;
    const ITEMS: usize = 500;
    let callers = Callers::start(WHO, &[]);
    let amounts = |amount: &str| -> Value {
        let named = |number| (format!("example.com/r{number:02}"), json!(amount));
        Value::Object((0..RESOURCES).map(named).collect())
    };
    let quota = json!({"spec": {"hard": amounts("0")}});
    for number in 0..QUOTAS {
        let path = format!("/v1/namespaces/a/quotas/q{number:02}");
        callers.expect(201, "root", "PUT", &path, &quota);
    }
    let reserved = amounts("1");
    // 6,400 limits are exceeded, and at most 1,000 of them are shown.
    let all = "/v1/namespaces/a/reservations";
    let one = item("a", "web", "u", &reserved);
    let denial = callers.expect(403, "greedy", "POST", all, &one);
    let limits = shown(&denial);
    assert!((1000 - RESOURCES..=1000).contains(&limits), "{limits}");
    assert_eq!(denial["quotasOmitted"], QUOTAS - limits / RESOURCES);
    let bytes = denial.to_string().len();
    assert!(bytes < 256 << 10, "{bytes}");

    // Those of a batch share 8,192, and each shows at least one quota. All quotas of all items would be 350 MB.
    let uid = |number: usize| format!("u{number}");
    let items = (0..ITEMS).map(|number| item("a", &uid(number), &uid(number), &reserved));
    let body = json!({"items": items.collect::<Vec<_>>()});
    let batch = callers.expect(200, "greedy", "POST", BATCH, &body);
    for denial in batch["items"].as_array().unwrap() {
        assert_eq!((&denial["status"], shown(denial)), (&json!(403), RESOURCES));
        assert_eq!(denial["quotasOmitted"], QUOTAS - 1);
    }
    let bytes = batch.to_string().len();
    assert!(bytes < 8 << 20, "{bytes}");
}

/// A text of so many bytes that means 1.
fn long(bytes: usize) -> String {
    format!("{}1", "0".repeat(bytes - 1))
}

/// A quantity can be written with any number of zeros before it. Each place where one is read bounds them, and says so.
#[test]
fn a_quantity_is_bounded_wherever_it_is_read() {
    const HOOK: Principal<'_> = ("hook", "admin,read,reserve,ingest", "*");
    let callers = Callers::start(&[WHO, &[HOOK]].concat(), &[]);
    let all = "/v1/namespaces/a/reservations";
    let reserve = |uid: &str, text: &str| item("a", uid, uid, &json!({"pods": text}));
    let object = |text: &str| json!({"namespace": "a", "reservedBy": {"uid": "o"}, "object": super::pod("a", "o", "", text)});
    let quota = |text: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"},
            "spec": {"hard": {"pods": text}}})
    };
    let soft = |text: &str| {
        let mut quota = quota("9");
        let soft = json!({"pods": text}).to_string();
        quota["metadata"]["annotations"] = json!({"quota-ledger.io/soft": soft});
        quota
    };
    let group = |text: &str| json!({"selector": {}, "hard": {"pods": text}});
    let guarantee =
        |text: &str| json!({"selector": {}, "hard": {"pods": "9"}, "guaranteed": {"pods": text}});
    let cluster_quota = |text: &str| {
        json!({"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota", "metadata": {"name": "k"},
            "spec": {"selector": {"labels": {"matchLabels": {"a": "b"}}}, "quota": {"hard": {"pods": text}}}})
    };
    let batch = |text: &str| json!({"items": [reserve("b", text)]});
    let core = "/api/v1/namespaces/a/resourcequotas";
    let groups = "/apis/quota.openshift.io/v1/clusterresourcequotas";
    callers.expect(
        201,
        "root",
        "PUT",
        "/v1/namespaces/a/quotas/held",
        &json!({"spec": {"hard": {"pods": "9"}}}),
    );
    callers.expect(201, "greedy", "POST", all, &reserve("c", "1"));
    for text in [long(65), long(100_000), "1".repeat(65), format!("1.{}", "0".repeat(70))] {
        for (who, method, path, body) in [
            ("greedy", "POST", all, reserve("u", &text)),
            ("greedy", "POST", all, object(&text)),
            ("greedy", "POST", BATCH, batch(&text)),
            ("greedy", "POST", "/v1/namespaces/a/check", reserve("u", &text)),
            (
                "greedy",
                "POST",
                "/v1/namespaces/a/reservations/c/commit",
                json!({"reserved": {"pods": text}}),
            ),
            ("root", "PUT", "/v1/namespaces/a/quotas/q", quota(&text)),
            ("root", "PUT", "/v1/namespaces/a/quotas/q", soft(&text)),
            ("root", "PUT", "/v1/groups/g", group(&text)),
            ("root", "PUT", "/v1/groups/g", guarantee(&text)),
            ("root", "PUT", "/v1/groups/k", cluster_quota(&text)),
            ("root", "POST", core, quota(&text)),
            ("root", "POST", core, soft(&text)),
            ("root", "POST", groups, cluster_quota(&text)),
            ("hook", "POST", "/admit", super::review("a", "p", &text)),
            (
                "hook",
                "POST",
                "/v1/events",
                json!([{"type": "ADDED", "object": super::pod("a", "p", "7", &text)}]),
            ),
            ("hook", "POST", "/v1/events", json!([{"type": "ADDED", "object": quota(&text)}])),
            (
                "hook",
                "POST",
                "/v1/events",
                json!([{"type": "ADDED", "object": cluster_quota(&text)}]),
            ),
            (
                "hook",
                "POST",
                "/v1/events",
                json!([{"type": "ADDED", "namespace": "a", "resource": "widgets.x.y",
                "name": "w", "uid": "w", "usage": {"requests.x.y/z": text}}]),
            ),
        ] {
            let (status, answer) = callers.call(who, method, path, &body);
            let shown = answer.to_string();
            let said = shown.contains("64 bytes") && shown.len() < 32 << 10;
            let refused = matches!(status, 400 | 422)
                || answer["rejected"].as_array().is_some_and(|all| all.len() == 1)
                || answer["items"][0]["status"] == 422
                || answer["response"]["allowed"] == false;
            assert!(
                said && refused,
                "{method} {path}: {status} {}",
                &shown[..shown.len().min(2000)]
            );
        }
        // A patch of a stored object, in each of the forms that a client may send.
        for (media_type, patch) in [
            ("application/merge-patch+json", json!({"spec": {"hard": {"pods": text}}})),
            ("application/strategic-merge-patch+json", json!({"spec": {"hard": {"pods": text}}})),
            (
                "application/json-patch+json",
                json!([{"op": "replace", "path": "/spec/hard/pods", "value": text}]),
            ),
            ("application/apply-patch+yaml", quota(&text)),
        ] {
            let token = callers.authorization("root").unwrap();
            let headers = [("authorization", &*token), ("content-type", media_type)];
            let mut patch = patch;
            if media_type.contains("apply") {
                patch["metadata"]["name"] = json!("held");
            }
            let path = format!("{core}/held?fieldManager=m&force=true");
            let path = if media_type.contains("apply") { path } else { format!("{core}/held") };
            let sent =
                callers.daemon.send(super::support::PATIENCE, ("PATCH", &*path), &headers, &patch);
            let (status, answer) = super::support::quotad::read(sent);
            let shown = answer.to_string();
            assert!(
                shown.contains("64 bytes"),
                "{media_type}: {status} {}",
                &shown[..shown.len().min(2000)]
            );
            assert!(matches!(status, 400 | 422), "{media_type}: {status}");
        }
    }
    callers.expect(404, "root", "GET", &format!("{all}/u"), &Value::Null);
}

/// What is read is recorded and shown in one form, whatever zeros were written.
#[test]
fn a_quantity_is_shown_in_its_canonical_form() {
    let callers = Callers::start(&[("root", "admin,read,reserve,ingest", "*")], &[]);
    let written = long(64);
    let quota = json!({"spec": {"hard": {"pods": written, "requests.cpu": "+2", "requests.storage": "01.500Gi"}}});
    let shown = json!({"pods": "1", "requests.cpu": "2", "requests.storage": "1536Mi"});
    let path = "/v1/namespaces/a/quotas/q";
    let set = callers.expect(201, "root", "PUT", path, &quota);
    assert_eq!(set["spec"]["hard"], shown);
    let same = callers.expect(200, "root", "PUT", path, &quota);
    assert_eq!(same["metadata"]["resourceVersion"], set["metadata"]["resourceVersion"]);
    let all = "/v1/namespaces/a/reservations";
    let granted = item("a", "web", "u", &json!({"requests.cpu": "01", "requests.storage": "+1Ki"}));
    let granted = callers.expect(201, "root", "POST", all, &granted);
    let reserved = json!({"requests.cpu": "1", "requests.storage": "1Ki"});
    assert_eq!(granted["reserved"], reserved);
    assert_eq!(callers.get("root", &format!("{all}/u"))["reserved"], reserved);

    let denied = item("a", "web-2", "u2", &json!({"requests.cpu": "002"}));
    let denied = callers.expect(403, "root", "POST", all, &denied);
    let detail = denied["detail"].as_str().unwrap();
    let words = "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1, limited: requests.cpu=2";
    assert!(detail.starts_with(words), "{detail}");
    let review = callers.expect(200, "root", "POST", "/admit", &super::review("a", "p", "+3"));
    let message = review["response"]["status"]["message"].as_str().unwrap();
    assert!(message.contains("requested: requests.cpu=3,"), "{message}");
    let entries = callers.get("root", "/v1/entries?from=1").to_string();
    for text in [&*written, "+2", "01.500Gi", "\"01\"", "+1Ki", "\"002\"", "+3"] {
        assert!(!entries.contains(text), "{text}: {entries}");
    }
}
