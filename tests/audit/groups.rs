//! Groups as evidence: what is behind their numbers, what was denied, and what was true at another time.

use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::quotad::Quotad;

const UNITS: &str = "requests.example.com/units";

/// Over the namespaces with a label, below a parent if one is named.
fn group(quotad: &Quotad, name: &str, hard: u32, more: Value) {
    let mut body =
        json!({"selector": {"labels": {"matchLabels": {"team": name}}}, "hard": {UNITS: hard}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (status, answer) = quotad.put(&format!("/v1/groups/{name}"), &body);
    assert!(status == 201 || status == 200, "{answer}");
}

/// Gives the sequence of the entry.
fn accept(quotad: &Quotad, event: &Value) -> u64 {
    let (status, answer) = quotad.post("/v1/events", event);
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    answer["asOf"]["sequence"].as_u64().unwrap()
}

fn label(quotad: &Quotad, namespace: &str, version: u32, team: &str) -> u64 {
    let metadata = json!({"name": namespace, "uid": format!("ns-{namespace}"), "resourceVersion": version.to_string(),
                          "labels": {"team": team}});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    accept(quotad, &json!({"type": "MODIFIED", "object": object}))
}

fn widget(namespace: &str, name: &str, version: u32, units: u32) -> Value {
    json!({"namespace": namespace, "resource": "widgets.example.com", "name": name, "uid": name,
           "resourceVersion": version.to_string(), "usage": {UNITS: units.to_string()}})
}

fn observe(quotad: &Quotad, namespace: &str, name: &str, units: u32) -> u64 {
    let mut event = widget(namespace, name, 1, units);
    event["type"] = json!("ADDED");
    accept(quotad, &event)
}

fn reserve(quotad: &Quotad, namespace: &str, uid: &str, units: u32) -> (u16, Value) {
    let body =
        json!({"reservedBy": {"uid": uid}, "reserved": {UNITS: units.to_string()}, "ttl": "5m"});
    let path = format!("/v1/namespaces/{namespace}/reservations");
    quotad.post(&path, &body)
}

/// Used, reserved, guaranteed to others, and the members, of a group as of an entry.
fn usage(quotad: &Quotad, name: &str, at: Option<u64>) -> (Vec<String>, Vec<String>) {
    let query = at.map_or(String::new(), |sequence| format!("?sequence={sequence}"));
    let (status, usage) = quotad.ask(&format!("/v1/groups/{name}/usage{query}"));
    assert_eq!(status, 200, "{usage}");
    let text = |value: &Value| value.as_str().unwrap_or("0").to_owned();
    let figures = ["used", "reserved", "guaranteedToOthers"];
    let members = usage["namespaces"].as_array().unwrap().iter();
    (
        figures.map(|figure| text(&usage["resources"][0][figure])).into(),
        members.map(|member| text(&member["namespace"])).collect(),
    )
}

fn numbers(figures: [&str; 3], members: &[&str]) -> (Vec<String>, Vec<String>) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    (owned(&figures), owned(members))
}

/// A company with a red and a blue part; team-a and team-b are red, team-c is blue.
fn company(directory: &TempDir, arguments: &[&str]) -> Quotad {
    let quotad = Quotad::start(directory.path(), arguments);
    group(&quotad, "company", 10, json!({}));
    group(&quotad, "red", 8, json!({"parent": "company"}));
    group(&quotad, "blue", 8, json!({"parent": "company", "guaranteed": {UNITS: 3}}));
    for (namespace, team) in [("team-a", "red"), ("team-b", "red"), ("team-c", "blue")] {
        label(&quotad, namespace, 1, team);
    }
    quotad
}

#[test]
fn the_past_of_a_group_has_its_members_and_limits_also_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let arguments = ["--snapshot.every_entries=4", "--snapshot.every=100ms"];
    let quotad = company(&directory, &arguments);
    observe(&quotad, "team-a", "a", 2);
    let before = observe(&quotad, "team-b", "b", 3);
    assert_eq!(reserve(&quotad, "team-a", "promised", 1).0, 201);
    let moved = label(&quotad, "team-b", 2, "blue");
    let now = numbers(["2", "1", "0"], &["team-a"]);
    assert_eq!(usage(&quotad, "red", None), now);
    drop(quotad);
    let quotad = Quotad::start(directory.path(), &arguments);
    assert_eq!(usage(&quotad, "red", None), now);
    let then = numbers(["5", "0", "0"], &["team-a", "team-b"]);
    assert_eq!(usage(&quotad, "red", Some(before)), then);
    let company = ["team-a", "team-b", "team-c"];
    assert_eq!(usage(&quotad, "company", Some(before)), numbers(["5", "0", "3"], &company));
    // What was guaranteed to blue is used by what moved there.
    assert_eq!(usage(&quotad, "company", Some(moved)), numbers(["5", "1", "0"], &company));
    assert_eq!(usage(&quotad, "blue", Some(moved)), numbers(["3", "0", "0"], &company[1..]));
}

#[test]
fn what_a_namespace_has_of_a_group_is_explained() {
    let directory = TempDir::new().unwrap();
    let quotad = company(&directory, &[]);
    let seen = observe(&quotad, "team-a", "a", 2);
    observe(&quotad, "team-b", "b", 3);
    assert_eq!(reserve(&quotad, "team-a", "promised", 1).0, 201);
    let path = format!("/v1/namespaces/team-a/explain?resource={UNITS}&quota");
    for name in ["red", "company"] {
        let (status, explained) = quotad.ask(&format!("{path}={name}"));
        assert_eq!(status, 200, "{explained}");
        assert_eq!((&explained["used"], &explained["reserved"]), (&json!("2"), &json!("1")));
        let items = explained["items"].as_array().unwrap();
        let parts: Vec<_> = items.iter().map(|item| (&item["uid"], &item["amount"])).collect();
        assert_eq!(parts, [(&json!("a"), &json!("2")), (&json!("promised"), &json!("1"))]);
        assert_eq!(items[0]["sequence"], seen);
    }
    let (status, answer) = quotad.ask(&format!("{path}=blue"));
    assert_eq!(status, 404, "{answer}");
    // The namespace was blue for a while.
    let moved = label(&quotad, "team-a", 2, "blue");
    label(&quotad, "team-a", 3, "red");
    let (status, then) = quotad.ask(&format!("{path}=blue&sequence={moved}"));
    assert_eq!((status, &then["used"]), (200, &json!("2")), "{then}");
}

#[test]
fn denials_name_groups_and_no_namespace_of_others() {
    let directory = TempDir::new().unwrap();
    let quotad = company(&directory, &[]);
    observe(&quotad, "team-b", "b", 3);
    let (status, denied) = reserve(&quotad, "team-a", "late", 5);
    assert_eq!((status, &denied["fitsWhenEmpty"]), (403, &json!(true)), "{denied}");
    let (status, denied) = reserve(&quotad, "team-a", "never", 8);
    assert_eq!((status, &denied["fitsWhenEmpty"]), (403, &json!(false)), "{denied}");
    let (status, listed) = quotad.ask("/v1/namespaces/team-a/denials");
    assert_eq!(status, 200, "{listed}");
    let late = &listed["items"][1];
    assert_eq!(late["reason"], "ExceedsHard");
    assert_eq!(
        late["detail"],
        format!(
            "exceeded quota: company, requested: {UNITS}=5, used: {UNITS}=6, limited: {UNITS}=10; \
                 company is shared by 3 namespaces, team-a uses {UNITS}=0 of it; {UNITS}=3 are guaranteed to others"
        )
    );
    let quotas = late["quotas"].as_array().unwrap();
    let names: Vec<_> = quotas.iter().map(|quota| (&quota["kind"], &quota["name"])).collect();
    let kind = json!("ClusterResourceQuota");
    assert_eq!(names, [(&kind, &json!("red")), (&kind, &json!("company"))]);
    assert_eq!(quotas[1]["resources"][0]["guaranteedToOthers"], "3");
    assert!(!late.to_string().contains("team-b"), "{late}");
    drop(quotad);
    let quotad = Quotad::start(directory.path(), &[]);
    assert_eq!(quotad.ask("/v1/namespaces/team-a/denials").1["items"][1], *late);
}

#[test]
fn drift_that_is_put_right_is_put_right_in_groups() {
    let directory = TempDir::new().unwrap();
    let quotad = company(&directory, &[]);
    observe(&quotad, "team-a", "a", 2);
    observe(&quotad, "team-a", "gone", 4);
    let listing = json!([widget("team-a", "a", 2, 5), widget("team-a", "missed", 2, 1)]);
    let (status, compared) = quotad.post("/v1/drift", &json!({"listing": listing}));
    assert_eq!(status, 200, "{compared}");
    let record = |object: &Value| json!({"sequence": object["sequence"], "resourceVersion": object["resourceVersion"]});
    let (_, objects) = quotad.ask("/v1/objects?resource=widgets.example.com");
    let objects = objects["items"].as_array().unwrap().iter();
    let gone = objects.clone().find(|object| object["uid"] == "gone").unwrap();
    let items = json!([
        {"uid": "gone", "known": record(gone)},
        {"object": listing[0], "known": record(&compared["items"][0]["known"])},
        {"object": listing[1]},
    ]);
    let body = json!({"reason": "the bridge was down", "items": items});
    let (status, corrected) = quotad.post("/v1/corrections", &body);
    assert_eq!(status, 200, "{corrected}");
    assert_eq!(usage(&quotad, "red", None).0, ["6", "0", "0"]);
    assert_eq!(usage(&quotad, "company", None).0, ["6", "0", "3"]);
}

#[test]
fn of_many_racers_in_fifty_namespaces_as_many_win_as_the_group_has_room() {
    const ROOM: usize = 37;
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &[]);
    group(&quotad, "pool", u32::try_from(ROOM).unwrap(), json!({}));
    for number in 0..50 {
        label(&quotad, &format!("team-{number}"), 1, "pool");
    }
    let quotad = &quotad;
    let race = |racer: usize| {
        (0..13).map(move |number| {
            let namespace = format!("team-{}", (racer * 13 + number) % 50);
            reserve(quotad, &namespace, &format!("u-{racer}-{number}"), 1).0
        })
    };
    let statuses: Vec<u16> = thread::scope(|scope| {
        let racers: Vec<_> =
            (0..16).map(|racer| scope.spawn(move || race(racer).collect::<Vec<_>>())).collect();
        let all = racers.into_iter().flat_map(|racer| racer.join().unwrap());
        all.collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(201), count(403)), (ROOM, 16 * 13 - ROOM));
    let (figures, members) = usage(quotad, "pool", None);
    assert_eq!((figures[1].as_str(), members.len()), ("37", 50));
}
