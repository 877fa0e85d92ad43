//! Who may do what to whose: each cell of the table in docs/security.md, at a real daemon.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    harness::pod,
    tenants::{HELD, NAMESPACE, World, wish},
};

const BEGIN: &str = "<!-- tenants: begin -->\n";
const END: &str = "<!-- tenants: end -->";

/// What is done to a reservation of `holder` with this uid, which is committed in the last but one row.
fn call(what: &str, uid: &str) -> Option<(&'static str, String, Value)> {
    let (none, name) = (json!(null), format!("name-of-{uid}"));
    let new = format!("{uid}-new");
    let amounts = |pods: &str| json!({"pods": pods});
    let under = |path: &str| format!("{NAMESPACE}/{path}");
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
        "see what could not be understood" => ("GET", "/v1/dead-letters".into(), none),
        "check" => ("POST", under("check"), wish("", &new, amounts("1"))),
        "reserve" => ("POST", HELD.into(), wish("", &new, amounts("1"))),
        "ask for the same again" => ("POST", HELD.into(), wish(&name, uid, amounts("1"))),
        "use its uid for something else" => ("POST", HELD.into(), wish(&name, uid, amounts("2"))),
        "take its place by its name" => ("POST", HELD.into(), wish(&name, &new, amounts("1"))),
        "extend" => ("POST", format!("{HELD}/{uid}/extend"), json!({"ttl": "1m"})),
        "commit" => ("POST", format!("{HELD}/{uid}/commit"), json!({})),
        "release" | "return what was committed" => ("DELETE", format!("{HELD}/{uid}"), none),
        "set a quota" => {
            let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "other"},
                "spec": {"hard": {"pods": "5000"}}});
            ("PUT", under("quotas/other"), quota)
        }
        "delete a quota" => ("DELETE", under("quotas/other"), none),
        "send events" => ("POST", "/v1/events".into(), json!([])),
        "correct what is known of objects" => (
            "POST",
            "/v1/corrections".into(),
            json!({"reason": "a test", "items": [{"uid": "nobody", "known": {"sequence": 1}}]}),
        ),
        "ask as the webhook" => ("POST", "/admit".into(), pod(&new)),
        _ => return None,
    };
    Some((method, path, body))
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn everybody_may_do_what_the_table_says_and_no_more() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let (_, rest) = docs.split_once(BEGIN).unwrap();
    let (table, _) = rest.split_once(END).unwrap();
    let mut rows = table.lines();
    let who = cells(rows.next().unwrap());
    assert_eq!(rows.next().unwrap().matches("---").count(), who.len());

    let world = World::charging("[]", json!({"pods": "500"}));
    let (mut found, mut uids) = (String::new(), 0);
    let mut count = 0;
    for row in rows {
        let what = cells(row)[0];
        found.push_str(&format!("| {what} |"));
        for caller in &who[1..] {
            uids += 1;
            let uid = format!("uid-{uids}");
            let held = wish(&format!("name-of-{uid}"), &uid, json!({"pods": "1"}));
            assert_eq!(world.call(&world.tenant, "POST", HELD, &held).0, 201);
            if what == "return what was committed" {
                let commit = format!("{HELD}/{uid}/commit");
                assert_eq!(
                    world.call(&world.tenant, "POST", &commit, &json!({})).0,
                    200
                );
            }
            let (method, path, body) = call(what, &uid).unwrap_or_else(|| panic!("{what}?"));
            let (status, answer) = world.call_as(caller, method, &path, &body);
            let reason = answer["reason"].as_str().unwrap_or_default();
            let told = match status {
                200..300 => format!(" {status} |"),
                _ => format!(" {status} `{reason}` |"),
            };
            found.push_str(&told);
            count += 1;
        }
        found.push('\n');
    }
    let head: String = table.split_inclusive('\n').take(2).collect();
    assert_eq!(format!("{head}{found}"), table, "what was found:\n{found}");
    assert!(count > 100);
}
