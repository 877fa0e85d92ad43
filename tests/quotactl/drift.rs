//! `drift` with the real daemon: what differs is named, and put right when that is requested.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    Run,
    daemon::{Daemon, QUOTA, pod},
    run_with,
    stub::Stub,
};

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// As kubectl prints it.
fn printed(items: &[Value]) -> String {
    serde_json::to_string_pretty(&list(items)).unwrap()
}

fn in_space(mut object: Value, space: &str) -> Value {
    object["metadata"]["namespace"] = json!(space);
    object
}

/// A daemon that has seen these.
fn that_has_seen(objects: &[Value]) -> Daemon {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let events =
        objects.iter().map(|object| json!({"type": "ADDED", "object": object}).to_string());
    let events: Vec<_> = events.collect();
    daemon.done("push -", &events.join("\n"));
    daemon
}

fn rows(run: &Run) -> Vec<Vec<&str>> {
    run.out.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// How many entries the ledger has.
fn entries(daemon: &Daemon) -> usize {
    daemon.done("get entries --limit 100000 -o name", "").lines().count()
}

fn metric(daemon: &Daemon, labels: &str) -> Option<String> {
    let text = daemon.metrics();
    let name = format!("quota_ledger_drift_corrections_total{{{labels}}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_owned)
}

#[test]
fn without_drift_nothing_is_told_and_with_it_the_very_objects() {
    let (web, db) = (pod("web", "u1", "500m"), pod("db", "u2", "1"));
    let daemon =
        that_has_seen(&[web.clone(), db.clone(), pod("old", "u3", "1"), pod("gone", "u4", "1")]);
    let before = entries(&daemon);
    let all = [web.clone(), db.clone(), pod("old", "u3", "1"), pod("gone", "u4", "1")];
    let same = daemon.run("drift -f -", &printed(&all));
    assert_eq!((same.code, same.out.as_str()), (0, ""), "{same:?}");
    assert_eq!(same.err, "4 listed, 4 in the ledger: no drift\n");

    // One was deleted, one was changed, one was recreated, and one is new; no events were sent.
    let listing =
        printed(&[web, pod("db", "u2", "1500m"), pod("old", "u9", "1"), pod("fresh", "u5", "1")]);
    let drift = daemon.run("drift -f - -o wide", &listing);
    assert_eq!(drift.code, 12, "{drift:?}");
    assert_eq!(drift.err, "4 listed, 4 in the ledger: 2 gone, 1 changed, 1 missing, 1 recreated\n");
    let found = rows(&drift);
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[0][..6], ["DIFFERENCE", "NAMESPACE", "RESOURCE", "NAME", "LEDGER", "LISTING"]);
    assert_eq!(found[1][..4], ["changed", "team-a", "pods", "db"]);
    assert!(
        found[1][4].contains("requests.cpu=1") && found[1][5].contains("requests.cpu=1500m"),
        "{found:?}"
    );
    assert!(!found[1][4].contains("pods"), "only what differs: {found:?}");
    assert_eq!((found[2][0], found[2][3], found[2][6]), ("recreated", "old", "u9"));
    assert_eq!((found[3][0], found[3][3], found[3][4]), ("missing", "fresh", "<none>"));
    assert_eq!(found[4][..4], ["gone", "team-a", "pods", "gone"]);
    assert!(found[4][4].contains("requests.cpu=1"), "{found:?}");
    assert_eq!((found[4][5], found[4][6]), ("<none>", "u4"));
    assert_eq!(found[5][..4], ["gone", "team-a", "pods", "old"]);

    let report: Value =
        serde_json::from_str(&daemon.run("drift -f - -o json", &listing).out).unwrap();
    assert_eq!((&report["listed"], &report["believed"]), (&json!(4), &json!(4)));
    assert_eq!(report["items"][3]["difference"], "gone");
    assert_eq!(report["items"][3]["known"]["uid"], "u4");
    let names = daemon.run("drift -f - -o name", &listing);
    assert_eq!(names.out.lines().next(), Some("pods/db"));
    assert_eq!(entries(&daemon), before, "nothing was changed");
}

#[test]
fn what_differs_is_put_right_and_then_there_is_no_drift() {
    let daemon =
        that_has_seen(&[pod("web", "u1", "500m"), pod("db", "u2", "1"), pod("gone", "u4", "1")]);
    let limits = |name: &str, uid: &str, pods: &str| {
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": pods}},
            "metadata": {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": "7"}
        })
    };
    for quota in [limits("adopted", "q1", "10"), limits("anew", "q5", "9")] {
        daemon.done("push -", &json!({"type": "ADDED", "object": quota}).to_string());
    }
    let mut objects = vec![
        pod("web", "u1", "500m"),
        pod("db", "u2", "250m"),
        pod("fresh", "u5", "250m"),
        limits("adopted", "q1", "5"),
        limits("anew", "q6", "4"),
    ];
    // Many more, so that they go in several pieces.
    objects.extend(
        (0..1200).map(|n| in_space(pod(&format!("p{n}"), &format!("p{n}"), "1m"), "team-b")),
    );
    let lines: Vec<_> = objects.iter().map(Value::to_string).collect();
    let lines = lines.join("\n");
    let before = entries(&daemon);
    assert_eq!(daemon.run("drift -f - --correct", &lines).code, 2, "it has to be said why");
    assert_eq!(daemon.run("drift -f - --reason x", &lines).code, 2);
    assert_eq!(entries(&daemon), before);

    let corrected =
        daemon.run("drift -f - --correct --reason bridge-was-down --no-headers", &lines);
    assert_eq!(corrected.code, 0, "{}", corrected.err);
    assert!(
        corrected.err.ends_with(": 2 gone, 2 changed, 1201 missing, 1 recreated\n1206 corrected\n"),
        "{}",
        corrected.err
    );
    let found = rows(&corrected);
    assert_eq!(found.len(), 1206);
    assert!(found.iter().all(|row| row.last() == Some(&"corrected")));
    let limited = found.iter().find(|row| row[3] == "adopted").unwrap();
    assert_eq!(limited[4..6], ["hard.pods=10", "hard.pods=5"]);

    assert_eq!(daemon.run("drift -f -", &lines).code, 0);
    let usage = daemon.rows("get usage -n team-a");
    assert!(
        usage.iter().any(|row| row[..2] == ["compute", "requests.cpu"] && row[3] == "1"),
        "{usage:?}"
    );
    for limit in [["adopted", "pods", "5"], ["anew", "pods", "4"]] {
        assert!(usage.iter().any(|row| row[..3] == limit), "{usage:?}");
    }
    let written: Value = serde_json::from_str(
        &daemon.done(&format!("get entries --from {} -o json", before + 1), ""),
    )
    .unwrap();
    let actor =
        |entry: &Value| (entry["actor"]["principal"].clone(), entry["actor"]["reason"].clone());
    let written = written["items"].as_array().unwrap();
    assert!(
        written.iter().all(|entry| actor(entry) == (json!("anonymous"), json!("bridge-was-down")))
    );
    assert_eq!(metric(&daemon, r#"correction="ended",cause="drift""#).as_deref(), Some("2"));
    assert_eq!(metric(&daemon, r#"correction="set",cause="drift""#).as_deref(), Some("1204"));

    let directory = daemon.stop();
    let verify = format!("ledger verify --data-dir {}", directory.path().join("data").display());
    let verified = run_with("http://127.0.0.1:1", &verify, "");
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn a_listing_that_is_not_certain_to_be_whole_is_refused() {
    let daemon = that_has_seen(&[pod("web", "u1", "500m"), pod("db", "u2", "1")]);
    let before = entries(&daemon);
    let web = pod("web", "u1", "500m");
    let whole = printed(std::slice::from_ref(&web));
    let part = |metadata: Value| {
        json!({"apiVersion": "v1", "items": [web], "kind": "PodList", "metadata": metadata})
            .to_string()
    };
    let mut nameless = web.clone();
    nameless["metadata"].as_object_mut().unwrap().remove("uid");
    let correct = "drift -f - --correct --reason r";
    for (listing, why) in [
        (part(json!({"continue": "abc"})), "says that there is more"),
        (part(json!({"remainingItemCount": 1})), "says that there is more"),
        (whole[..whole.len() - 3].to_owned(), "cannot read the listing: EOF"),
        (format!("{web}\n{{\"kind\":"), "cannot read the listing: EOF"),
        (format!("{web}\nnonsense"), "line 2"),
        (
            list(&[web.clone(), nameless.clone()]).to_string(),
            "item 2 (team-a/web): the object has no uid",
        ),
        (format!("{web}\n\n{nameless}"), "line 3 (team-a/web): the object has no uid"),
        (format!("{web}\n{web}"), "line 2 (team-a/web): it was listed before"),
        (list(&[]).to_string(), "the listing is empty"),
        (String::new(), "the listing is empty"),
        (
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"})
                .to_string(),
            "the listing is empty",
        ),
        ("kind: List".to_owned(), "cannot read the listing"),
    ] {
        for arguments in ["drift -f - -A", correct] {
            let refused = daemon.run(arguments, &listing);
            assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{listing}: {refused:?}");
            assert!(refused.err.contains(why), "{listing}: {}", refused.err);
        }
    }
    assert_eq!(daemon.run("drift -f /nonexistent", "").code, 1);
    assert_eq!(entries(&daemon), before);

    // An empty one has to say of what and where there is nothing.
    for (arguments, code) in [
        ("drift -f - --allow-empty", 2),
        ("drift -f - --allow-empty -A", 2),
        ("drift -f - --allow-empty --resource pods", 2),
        ("drift -f - --allow-empty --resource services -A", 0),
        ("drift -f - --allow-empty --resource pods -n team-b", 0),
        ("drift -f - --allow-empty --resource pods -n team-a", 12),
    ] {
        assert_eq!(daemon.run(arguments, "").code, code, "{arguments}");
    }
    let gone = daemon.run("drift -f - --allow-empty --resource pods -A -o name", "");
    assert_eq!((gone.code, gone.out.as_str()), (12, "pods/db\npods/web\n"));
}

#[test]
fn what_the_listing_does_not_speak_of_is_left_alone() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team-a", "uid": "s1"}});
    let away = in_space(pod("away", "u3", "1"), "team-b");
    let daemon =
        that_has_seen(&[pod("web", "u1", "1"), pod("db", "u2", "1"), away.clone(), secret.clone()]);
    let gone = |arguments: &str, items: &[Value]| {
        let run = daemon.run(&format!("drift -f - -o name {arguments}"), &printed(items));
        let names: Vec<_> = run.out.lines().map(str::to_owned).collect();
        assert_eq!(run.code, if names.is_empty() { 0 } else { 12 }, "{run:?}");
        names
    };
    let web = pod("web", "u1", "1");
    assert_eq!(gone("", std::slice::from_ref(&web)), ["pods/db"]);
    assert_eq!(gone("-A", std::slice::from_ref(&web)), ["pods/db", "pods/away"]);
    assert_eq!(gone("-n team-b", &[web.clone(), away.clone()]), [""; 0]);
    assert_eq!(gone("--resource secrets", &[web.clone(), secret.clone()]), [""; 0]);
    assert_eq!(gone("", &[web.clone(), away, secret]), ["pods/db"]);
    let none = daemon.run("drift -f - -n team-c", &printed(std::slice::from_ref(&web)));
    assert_eq!(none.code, 1, "nothing of the listing is asked for: {none:?}");

    // The list says as of which version it is: what is newer cannot be in it.
    let old = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "4"}, "items": [web]});
    let newer = daemon.run("drift -f -", &old.to_string());
    assert_eq!(newer.code, 0, "{newer:?}");
    assert!(newer.err.contains("1 came after the listing"), "{}", newer.err);
    assert_eq!(daemon.run("drift -f - --resource-version 5", &old.to_string()).code, 12);
}

#[test]
fn most_of_all_is_not_ended_by_mistake() {
    let pods: Vec<_> = (0..30).map(|n| pod(&format!("p{n}"), &format!("u{n}"), "1m")).collect();
    let daemon = that_has_seen(&pods);
    let before = entries(&daemon);
    let few = printed(&pods[..14]);
    let refused = daemon.run("drift -f - --correct --reason r", &few);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("16 of 30 objects would be ended"), "{}", refused.err);
    assert_eq!(rows(&refused).len(), 17, "what would be ended is named");
    assert_eq!(entries(&daemon), before);
    let half = daemon.run("drift -f - --correct --reason r", &printed(&pods[..15]));
    assert_eq!(half.code, 0, "{half:?}");
    let rest =
        daemon.run("drift -f - --correct --reason r --allow-ending-most", &printed(&pods[..1]));
    assert_eq!(rest.code, 0, "{rest:?}");
    assert_eq!(daemon.rows("get objects -n team-a").len(), 2);
    // Of a few any part may be ended.
    let empty = "drift -f - --correct --reason r --allow-empty --resource pods -n team-a";
    assert_eq!(daemon.run(empty, "").code, 0);
}

#[test]
fn a_uid_is_of_one_namespace() {
    let there = in_space(pod("web", "same", "1"), "team-b");
    let objects = [pod("web", "same", "1"), there];
    let daemon = that_has_seen(&objects);
    let both = daemon.run("drift -f -", &printed(&objects));
    assert_eq!(both.code, 0, "{both:?}");
    assert_eq!(both.err, "2 listed, 2 in the ledger: no drift\n");
    let one = printed(&objects[..1]);
    let drift = daemon.run("drift -f - -A", &one);
    assert_eq!(drift.code, 12, "{drift:?}");
    assert_eq!(drift.err, "1 listed, 2 in the ledger: 1 gone\n");
    let corrected = daemon.run("drift -f - -A --correct --reason r", &one);
    assert_eq!(corrected.code, 0, "{corrected:?}");
    let left = daemon.rows("get objects -A --no-headers");
    assert_eq!((left.len(), &*left[0][0]), (1, "team-a"), "{left:?}");
}

#[test]
fn by_an_old_file_nothing_is_ended() {
    let daemon = that_has_seen(&[pod("web", "u1", "1"), pod("db", "u2", "1")]);
    let directory = tempfile::tempdir().unwrap();
    let file: PathBuf = directory.path().join("listing.json");
    std::fs::write(&file, printed(&[pod("web", "u1", "1")])).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    let handle = std::fs::File::options().write(true).open(&file).unwrap();
    handle.set_modified(std::time::SystemTime::now() - hour).unwrap();
    let drift = format!("drift -f {}", file.display());
    assert_eq!(daemon.run(&drift, "").code, 12);
    let correct = format!("{drift} --correct --reason r");
    let refused = daemon.run(&correct, "");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("the listing is old"), "{}", refused.err);
    let versioned = daemon.run(&format!("{correct} --resource-version 5"), "");
    assert_eq!(versioned.code, 0, "{versioned:?}");
}

#[test]
fn what_changed_meanwhile_is_told_and_ends_with_12() {
    let stub = Stub::new(|_, request| {
        let body = match request.line.split(['?', ' ']).nth(1).unwrap() {
            "/v1/drift" => {
                json!({"items": [{"difference": "missing", "uid": "u1", "namespace": "a", "resource": "pods", "name": "x",
                                  "usage": {"pods": "1"}}]})
            }
            "/v1/corrections" => {
                json!({"items": [{"outcome": "conflict"}], "asOf": {"sequence": 9, "time": "2026-01-01T00:00:00Z"}})
            }
            _ => json!({"items": [], "asOf": {"sequence": 9}}),
        };
        (200, Vec::new(), body.to_string())
    });
    let run = run_with(&stub.url, "drift -f - --correct --reason r", r#"{"kind":"Pod"}"#);
    assert_eq!(run.code, 12, "{run:?}");
    assert!(run.err.contains("1 have changed since they were compared"), "{}", run.err);
    assert!(run.out.ends_with("conflict\n"), "{}", run.out);
    let requests = stub.asked();
    let sent: Value = serde_json::from_str(&requests.last().unwrap().body).unwrap();
    assert_eq!(sent, json!({"reason": "r", "items": [{"object": {"kind": "Pod"}}]}));
}
