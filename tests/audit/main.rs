//! The ledger as evidence, requested by HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod checkpoints;
mod delivered;
mod exported;
mod groups;
mod past;
mod published;
use quota_testkit as support;

use serde_json::{Value, json};
use tempfile::TempDir;

use support::quotad::Quotad;

fn set_quota(quotad: &Quotad) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"},
        "spec": {"hard": {"requests.example.com/units": "10", "count/widgets.example.com": "9"}},
    });
    let (status, answer) = quotad.put("/v1/namespaces/team-a/quotas/compute", &quota);
    assert!(status == 201 || status == 200, "{answer}");
}

fn observe(quotad: &Quotad, name: &str, units: u32) -> u64 {
    let event = json!({
        "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com",
        "name": name, "uid": name, "usage": {"requests.example.com/units": units.to_string()},
    });
    let (status, answer) = quotad.post("/v1/events", &event);
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    answer["asOf"]["sequence"].as_u64().unwrap()
}

fn reserve(quotad: &Quotad, uid: &str, units: u32) -> (u16, Value) {
    let body = json!({
        "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
        "reserved": {"requests.example.com/units": units.to_string()}, "ttl": "5m",
    });
    let path = "/v1/namespaces/team-a/reservations";
    quotad.call("POST", path, &[("x-request-id", "r-1")], &body)
}

#[test]
fn usage_of_the_past_is_what_a_read_said_then() {
    let directory = TempDir::new().unwrap();
    let arguments = ["--snapshot.every_entries=5", "--snapshot.every=100ms"];
    let mut quotad = Quotad::start(directory.path(), &arguments);
    set_quota(&quotad);
    let mut said = Vec::new();
    for number in 0..20 {
        observe(&quotad, &format!("w{number}"), number % 3);
        let (status, usage) = quotad.ask("/v1/namespaces/team-a/usage");
        assert_eq!(status, 200);
        said.push(usage);
        if number == 10 {
            assert_eq!(quotad.stop().code(), Some(0));
            quotad = Quotad::start(directory.path(), &arguments);
        }
    }
    for usage in &said {
        let sequence = &usage["asOf"]["sequence"];
        let (status, then) =
            quotad.ask(&format!("/v1/namespaces/team-a/usage?sequence={sequence}"));
        assert_eq!((status, &then), (200, usage));
    }
    let last = said.last().unwrap();
    let time = last["asOf"]["time"].as_str().unwrap();
    let (_, then) = quotad.ask(&format!("/v1/namespaces/team-a/usage?at={time}"));
    assert_eq!(&then, last);
    let from = said[0]["asOf"]["time"].as_str().unwrap();
    let (status, series) =
        quotad.ask(&format!("/v1/namespaces/team-a/usage/history?from={from}&to={time}&step=1h"));
    assert_eq!(status, 200, "{series}");
    let points = series["points"].as_array().unwrap();
    assert_eq!(points.len(), 1);
    // The last values are those right before the end.
    let before = &said[said.len() - 2];
    let of = |answer: &Value, place: &str| answer.pointer(place).cloned().unwrap();
    for place in ["/quotas/0/resources/0", "/resources/0"] {
        for figure in ["resource", "used", "reserved"] {
            let figure = format!("{place}/{figure}");
            assert_eq!(of(&points[0], &figure), of(before, &figure), "{series}");
        }
        assert_eq!(
            of(&points[0], &format!("{place}/min/used")),
            of(&said[0], &format!("{place}/used"))
        );
    }
}

#[test]
fn questions_that_have_no_answer_are_refused() {
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &["--limits.replay_entries=3"]);
    set_quota(&quotad);
    for number in 0..5 {
        observe(&quotad, &format!("w{number}"), 1);
    }
    for (query, status, reason) in [
        ("?sequence=99", 400, "Malformed"),
        ("?at=2999-01-01T00:00:00Z", 400, "Malformed"),
        ("?at=noon", 400, "Malformed"),
        ("?at=2020-01-01T00:00:00Z&sequence=1", 400, "Malformed"),
        ("?sequence=5", 422, "TooFarBack"),
        ("/history?from=2020-01-01T00:00:00Z&step=1s", 422, "Invalid"),
        ("/history", 400, "Malformed"),
    ] {
        let (code, problem) = quotad.ask(&format!("/v1/namespaces/team-a/usage{query}"));
        assert_eq!(
            (code, problem["reason"].as_str()),
            (status, Some(reason)),
            "{query}: {problem}"
        );
    }
    let (code, problem) = quotad.ask("/v1/report?from=2020-01-01T00:00:00Z");
    assert_eq!((code, &problem["reason"]), (422, &json!("TooFarBack")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`quotactl ledger report`"), "{detail}");
    let simulate = json!({"from": "2020-01-01T00:00:00Z"});
    let (code, problem) = quotad.post("/v1/simulate", &simulate);
    assert_eq!((code, &problem["reason"]), (422, &json!("TooFarBack")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`quotactl ledger simulate`"), "{detail}");
    let (code, empty) = quotad.ask("/v1/namespaces/team-a/usage?at=2020-01-01T00:00:00Z");
    assert_eq!((code, &empty["asOf"]["sequence"]), (200, &json!(0)));
}

#[test]
fn a_number_is_explained_by_its_parts() {
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &[]);
    set_quota(&quotad);
    let small = observe(&quotad, "small", 1);
    let large = observe(&quotad, "large", 4);
    observe(&quotad, "nothing", 0);
    let (status, granted) = reserve(&quotad, "promised", 2);
    assert_eq!(status, 201, "{granted}");
    let path = "/v1/namespaces/team-a/explain?resource=requests.example.com/units&quota=compute";
    let (status, explained) = quotad.ask(path);
    assert_eq!(status, 200, "{explained}");
    let figures = ["hard", "used", "reserved"].map(|figure| explained[figure].as_str().unwrap());
    assert_eq!(figures, ["10", "5", "2"]);
    let part = |item: &Value| (item["name"].to_string(), item["amount"].to_string());
    let items = explained["items"].as_array().unwrap();
    let parts: Vec<_> = items.iter().map(part).collect();
    let expected = [("large", "4"), ("promised", "2"), ("small", "1")];
    assert_eq!(parts, expected.map(|(name, amount)| (format!("{name:?}"), format!("{amount:?}"))));
    assert_eq!(items[0]["sequence"], large);
    assert_eq!(
        (&items[1]["kind"], &items[1]["expirationTime"]),
        (&json!("reservation"), &granted["expirationTime"])
    );
    assert_eq!(items[2]["sequence"], small);
    let (_, first) = quotad.ask(&format!("{path}&limit=2"));
    let next = first["continue"].as_str().unwrap();
    let (_, second) = quotad.ask(&format!("{path}&limit=2&continue={next}"));
    assert_eq!((&second["items"], &second["continue"]), (&json!([items[2]]), &Value::Null));
    let (_, then) = quotad.ask(&format!("{path}&sequence={small}"));
    assert_eq!((&then["used"], &then["items"]), (&json!("1"), &json!([items[2]])));
    let (status, _) = quotad.ask("/v1/namespaces/team-a/explain?resource=pods&quota=none");
    assert_eq!(status, 404);
}

#[test]
fn denials_are_told_with_their_numbers_also_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &[]);
    set_quota(&quotad);
    observe(&quotad, "seen", 4);
    let (status, problem) = reserve(&quotad, "big", 7);
    assert_eq!((status, &problem["fitsWhenEmpty"]), (403, &json!(true)), "{problem}");
    let (status, problem) = reserve(&quotad, "huge", 11);
    assert_eq!((status, &problem["fitsWhenEmpty"]), (403, &json!(false)), "{problem}");
    let batch = json!({"items": [
        {"namespace": "team-a", "reservedBy": {"uid": "third"}, "reserved": {"requests.example.com/units": "8"}},
    ]});
    assert_eq!(quotad.post("/v1/reservations:batch", &batch).0, 200);
    let (status, listed) = quotad.ask("/v1/namespaces/team-a/denials");
    assert_eq!(status, 200, "{listed}");
    let items = listed["items"].as_array().unwrap();
    let uids: Vec<_> = items.iter().map(|item| item["object"]["uid"].as_str().unwrap()).collect();
    assert_eq!(uids, ["third", "huge", "big"]);
    let big = &items[2];
    assert_eq!(big["reason"], "ExceedsHard");
    assert_eq!(big["actor"]["requestId"], "r-1");
    assert_eq!(
        big["detail"],
        "exceeded quota: compute, requested: requests.example.com/units=7, \
         used: requests.example.com/units=4, limited: requests.example.com/units=10"
    );
    assert_eq!(
        big["quotas"],
        json!([{"kind": "ResourceQuota", "name": "compute", "resources": [{
            "resource": "requests.example.com/units",
            "hard": "10", "used": "4", "reserved": "0", "requested": "7",
        }]}])
    );
    drop(quotad);
    let quotad = Quotad::start(directory.path(), &[]);
    let (_, again) = quotad.ask("/v1/denials?limit=2");
    assert_eq!(again["items"], json!(items[..2]));
    let next = again["continue"].as_str().unwrap();
    let (_, rest) = quotad.ask(&format!("/v1/denials?continue={next}"));
    assert_eq!(rest["items"], json!([big]));
    assert_eq!(quotad.ask("/v1/namespaces/team-b/denials").1["items"], json!([]));
}
