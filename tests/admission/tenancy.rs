//! Who may do what to whose: each cell of the table in `tenancy.md`, beside this file, at a real daemon.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};

use super::{
    harness::pod,
    support::callers::NOBODY,
    tenants::{HELD, NAMESPACE, World, request},
};

const BEGIN: &str = "<!-- tenants: begin -->\n";
const END: &str = "<!-- tenants: end -->";

/// A group that counts the namespace.
fn group() -> Value {
    let team =
        json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]});
    json!({"selector": {"labels": {"matchExpressions": [team]}}, "hard": {"pods": "5000"}})
}

/// What is done to a reservation of `holder` with this uid, which is committed in the rows that return it.
fn call(what: &str, uid: &str) -> Option<(&'static str, String, Value)> {
    let (none, name) = (json!(null), format!("name-of-{uid}"));
    let new = format!("{uid}-new");
    let amounts = |pods: &str| json!({"pods": pods});
    let under = |path: &str| format!("{NAMESPACE}/{path}");
    let batch = |atomic: bool, mut item: Value| {
        item["namespace"] = "team-a".into();
        let body = json!({"atomic": atomic, "items": [item]});
        ("POST", "/v1/reservations:batch".to_owned(), body)
    };
    let (method, path, body) = match what {
        "see a quota" => ("GET", under("quotas/q"), none),
        "see usage" => ("GET", under("usage"), none),
        "see a reservation" => ("GET", format!("{HELD}/{uid}"), none),
        "list reservations" => ("GET", HELD.into(), none),
        "list objects" => ("GET", under("objects"), none),
        "explain a number" => ("GET", under("explain?quota=q&resource=pods"), none),
        "see denials" => ("GET", under("denials"), none),
        "see entries" => ("GET", "/v1/entries?namespace=team-a".into(), none),
        "see entries of all namespaces" => ("GET", "/v1/entries".into(), none),
        "follow entries" => ("GET", "/v1/watch?namespace=team-a".into(), none),
        "follow entries of all namespaces" => ("GET", "/v1/watch".into(), none),
        "follow quotas with kubectl" => {
            let path = "/api/v1/namespaces/team-a/resourcequotas?watch=1";
            ("GET", path.into(), none)
        }
        "see quotas of all namespaces" => ("GET", "/v1/quotas".into(), none),
        "see objects of all namespaces" => ("GET", "/v1/objects".into(), none),
        "copy the ledger" => ("GET", "/v1/backup".into(), none),
        "see rejected events" => ("GET", "/v1/dead-letters".into(), none),
        "check" => ("POST", under("check"), request("", &new, amounts("1"))),
        "reserve" => ("POST", HELD.into(), request("", &new, amounts("1"))),
        "ask for the same again" => ("POST", HELD.into(), request(&name, uid, amounts("1"))),
        "use its uid for something else" => {
            ("POST", HELD.into(), request(&name, uid, amounts("2")))
        }
        "take its place by its name" => ("POST", HELD.into(), request(&name, &new, amounts("1"))),
        "reserve in a batch" => batch(false, request("", &new, amounts("1"))),
        "reserve in an atomic batch" => batch(true, request("", &new, amounts("1"))),
        "ask for the same again in a batch" => batch(false, request(&name, uid, amounts("1"))),
        "use its uid for something else in a batch" => {
            batch(false, request(&name, uid, amounts("2")))
        }
        "take its place by its name in a batch" => batch(false, request(&name, &new, amounts("1"))),
        "take its place by its name in an atomic batch" => {
            batch(true, request(&name, &new, amounts("1")))
        }
        "extend" => ("POST", format!("{HELD}/{uid}/extend"), json!({"ttl": "1m"})),
        "commit" => ("POST", format!("{HELD}/{uid}/commit"), json!({})),
        "release" | "return a commit" => ("DELETE", format!("{HELD}/{uid}"), none),
        "set a quota" => {
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "other"},
                "spec": {"hard": {"pods": "5000"}}});
            ("PUT", under("quotas/other"), quota)
        }
        "delete a quota" => ("DELETE", under("quotas/other"), none),
        "see a group" => ("GET", "/v1/groups/g".into(), none),
        "see groups" => ("GET", "/v1/groups".into(), none),
        "see usage of a group" => ("GET", "/v1/groups/g/usage".into(), none),
        "see the groups that count the namespace" => {
            let path = "/apis/quota.openshift.io/v1/namespaces/team-a/appliedclusterresourcequotas";
            ("GET", path.into(), none)
        }
        "set a group" => ("PUT", "/v1/groups/other".into(), group()),
        "delete a group" => ("DELETE", "/v1/groups/other".into(), none),
        "see the cluster" => ("GET", "/v1/cluster".into(), none),
        "begin a cluster" => ("POST", "/v1/cluster/init".into(), none),
        "remove a node" => ("POST", "/v1/cluster/remove".into(), json!({"node": "b"})),
        "recreate a stream" => ("POST", "/v1/cluster/heal".into(), json!({"ledger": "b"})),
        "have another node lead" => ("POST", "/v1/cluster/transfer".into(), json!({"to": "b"})),
        "send events" => ("POST", "/v1/events".into(), json!([])),
        "correct recorded objects" => (
            "POST",
            "/v1/corrections".into(),
            json!({"reason": "a test", "items": [{"uid": "nobody", "known": {"sequence": 1}}]}),
        ),
        "compare objects with a listing" => ("POST", "/v1/drift".into(), json!({"listing": []})),
        "have the sources list again" => ("POST", "/v1/relist".into(), json!({})),
        "send audit events" => {
            let list = json!({"apiVersion": "audit.k8s.io/v1", "kind": "EventList", "items": []});
            ("POST", "/audit".into(), list)
        }
        "ask as the webhook" => ("POST", "/admit".into(), pod(&new)),
        _ => return None,
    };
    Some((method, path, body))
}

/// What became of a call; of a batch, what became of its only item.
fn outcome(status: u16, answer: &Value) -> (u16, &str) {
    let item = &answer["items"][0];
    let of_item = item["status"].as_u64();
    let (status, outcome) = match of_item.and_then(|status| u16::try_from(status).ok()) {
        Some(of_item) => (of_item, item),
        None => (status, answer),
    };
    (status, outcome["reason"].as_str().unwrap_or_default())
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn everybody_may_do_what_the_table_says_and_no_more() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission/tenancy.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(BEGIN).unwrap();
    let (table, _) = rest.split_once(END).unwrap();
    let mut rows = table.lines();
    let who = cells(rows.next().unwrap());
    assert_eq!(rows.next().unwrap().matches("---").count(), who.len());

    let world = World::charging("[]", json!({"pods": "500"}));
    let made = world.call("root", "PUT", "/v1/groups/g", &group());
    assert_eq!(made.0, 201, "{}", made.1);
    let (mut found, mut uids) = (String::new(), 0);
    let mut count = 0;
    for row in rows {
        let what = cells(row)[0];
        found.push_str(&format!("| {what} |"));
        for caller in &who[1..] {
            uids += 1;
            let uid = format!("uid-{uids}");
            let (method, path, body) = call(what, &uid).unwrap_or_else(|| panic!("{what}?"));
            // What names it needs it to be there.
            if path.contains(&uid) || body.to_string().contains(&uid) {
                let held = request(&format!("name-of-{uid}"), &uid, json!({"pods": "1"}));
                assert_eq!(world.call("tenant", "POST", HELD, &held).0, 201);
            }
            if what == "return a commit" {
                let commit = format!("{HELD}/{uid}/commit");
                assert_eq!(world.call("tenant", "POST", &commit, &json!({})).0, 200);
            }
            let (status, answer) = world.call_as(caller, method, &path, &body);
            let (status, reason) = outcome(status, &answer);
            let cell = match status {
                200..300 => format!(" {status} |"),
                _ => format!(" {status} `{reason}` |"),
            };
            found.push_str(&cell);
            count += 1;
        }
        found.push('\n');
    }
    // Headers by which the nodes of a cluster tell each other whose a request is mean nothing to anybody else.
    let root = json!({"principal": {"name": "root", "roles": ["admin"], "namespaces": ["*"]}});
    let forged = [("quotad-actor", &*BASE64.encode(root.to_string()))];
    let path = format!("{NAMESPACE}/quotas/q");
    for (who, refused) in [(NOBODY, 401), ("tenant", 403)] {
        let answer = world.call_with(&forged, who, "DELETE", &path, &json!(null));
        assert_eq!(answer.0, refused, "{}", answer.1);
    }
    let head: String = table.split_inclusive('\n').take(2).collect();
    assert_eq!(format!("{head}{found}"), table, "what was found:\n{found}");
    assert!(count > 350);
}
