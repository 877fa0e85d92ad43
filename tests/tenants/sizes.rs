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
