//! Bodies that Kubernetes refuses, although something could be made of them.

use serde_json::{Value, json};

use crate::{
    server::Server,
    wire::{QUOTAS, ask, create},
};

const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];
const APPLY: [(&str, &str); 1] = [("content-type", "application/apply-patch+yaml")];

fn message(answer: &Value) -> &str {
    answer["message"].as_str().unwrap()
}

fn apply(server: &Server, path: &str, manager: &str, body: &Value, expected: u16) -> Value {
    let path = format!("{path}?fieldManager={manager}");
    ask(server, "PATCH", &path, &APPLY, &body.to_string(), expected)
}

/// A comma was forgotten, or there is one too many: the selector would choose all.
#[test]
fn selectors_that_are_no_selectors_delete_nothing() {
    let server = Server::start();
    for env in ["prod", "staging", "dev"] {
        create(&server, env, json!({"metadata": {"labels": {"env": env}}}));
    }
    for selector in
        ["env+notin+(prod+staging)", "env!%3Dprod+staging", ",", "env,", "env%3Dprod%3Dstaging"]
    {
        let path = format!("{QUOTAS}?labelSelector={selector}");
        for method in ["GET", "DELETE"] {
            ask(&server, method, &path, &[], "", 400);
        }
    }
    let list = ask(&server, "GET", QUOTAS, &[], "", 200);
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[test]
fn an_update_without_a_name_empties_nothing() {
    let server = Server::start();
    create(&server, "q", json!({}));
    let path = format!("{QUOTAS}/q");
    let refused = ask(&server, "PUT", &path, &[], "{}", 400);
    assert!(message(&refused).contains("name must be provided"));
    let json_patch = [("content-type", "application/json-patch+json")];
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    for (headers, body) in [
        (&json_patch, r#"[{"op":"remove","path":"/metadata/name"}]"#),
        (&json_patch, r#"[{"op":"replace","path":"","value":{}}]"#),
        (&MERGE, r#"{"metadata":null}"#),
        (&strategic, r#"{"$patch":"delete"}"#),
    ] {
        ask(&server, "PATCH", &path, headers, body, 422);
    }
    let quota = ask(&server, "GET", &path, &[], "", 200);
    assert_eq!(quota["spec"]["hard"]["pods"], "1");
}

/// Otherwise the field that was meant, and applied before, would be taken away.
#[test]
fn an_apply_with_a_misspelled_field_takes_nothing_away() {
    let server = Server::start();
    let path = format!("{QUOTAS}/q");
    let quota = |spec: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    apply(&server, &path, "a", &quota(json!({"hard": {"pods": "5"}})), 201);
    let refused = apply(&server, &path, "a", &quota(json!({"hrd": {"pods": "5"}})), 400);
    assert!(message(&refused).contains("field not declared in schema"), "{refused}");
    let untyped = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}});
    let refused = apply(&server, &path, "a", &untyped, 400);
    assert!(message(&refused).contains("Incorrect version specified"), "{refused}");
    let flow =
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 6}}}";
    let path = format!("{path}?fieldManager=a");
    let applied = ask(&server, "PATCH", &path, &APPLY, flow, 200);
    assert_eq!(applied["spec"]["hard"]["pods"], "6");
}

#[test]
fn a_patch_with_a_field_twice_is_strictly_refused() {
    let server = Server::start();
    create(&server, "q", json!({}));
    let twice = r#"{"spec":{"hard":{"pods":"5","pods":"50"}}}"#;
    let path = format!("{QUOTAS}/q?fieldValidation=Strict");
    let refused = ask(&server, "PATCH", &path, &MERGE, twice, 400);
    assert!(message(&refused).contains("duplicate field"), "{refused}");
}

/// A selector is one thing: of two managers only one can have it.
#[test]
fn the_selector_of_a_group_is_applied_as_a_whole() {
    let server = Server::start();
    let path = format!("{GROUPS}/g");
    let group = |labels: Value| {
        json!({
            "apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
            "metadata": {"name": "g", "namespace": "ignored"},
            "spec": {"quota": {"hard": {"pods": "5"}}, "selector": {"labels": {"matchLabels": labels}}}
        })
    };
    apply(&server, &path, "a", &group(json!({"team": "red"})), 201);
    let other = group(json!({"env": "prod"}));
    apply(&server, &path, "b", &other, 409);
    let forced = apply(&server, &path, "b&force=true", &other, 200);
    let selector = &forced["spec"]["selector"]["labels"]["matchLabels"];
    assert_eq!(*selector, json!({"env": "prod"}));
}

#[test]
fn the_generation_of_a_manifest_is_ignored() {
    let server = Server::start();
    create(&server, "q", json!({}));
    let path = format!("{QUOTAS}/q");
    for generation in [3, 0] {
        let body = json!({"metadata": {"generation": generation}}).to_string();
        ask(&server, "PATCH", &path, &MERGE, &body, 200);
    }
}

/// Aliases could make any amount of a short text.
#[test]
fn a_text_in_yaml_does_not_repeat_much() {
    let server = Server::start();
    let yaml = [("content-type", "application/yaml")];
    let aliases = vec!["*a"; 99].join(", ");
    let repeats = format!("a: &a {}\nx: [{aliases}]\n", "y".repeat(100_000));
    let quota = "metadata: {name: q}\nspec: {hard: {pods: 1}}\n";
    let long = format!("{quota}{repeats}");
    ask(&server, "POST", QUOTAS, &yaml, &long, 400);
    ask(&server, "POST", QUOTAS, &yaml, quota, 201);
    let path = format!("{QUOTAS}/q");
    let options = "apiVersion: v1\nkind: DeleteOptions\n";
    let long = format!("{options}{repeats}");
    ask(&server, "DELETE", &path, &yaml, &long, 400);
    ask(&server, "DELETE", &path, &yaml, options, 200);
}
