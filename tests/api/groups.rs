//! Groups: set, shown, deleted, refused.

use serde_json::{Value, json};

use crate::world::{Reply, World};

const G: &str = "/v1/groups/g";

/// A selector of namespaces by their names.
fn named(names: &[&str]) -> Value {
    json!({"labels": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": names}]}})
}

fn group(names: &[&str], hard: Value) -> Value {
    json!({"selector": named(names), "hard": hard})
}

/// An object of a namespace that counts for as many pods.
async fn observe(world: &World, namespace: &str, uid: &str, pods: u32) {
    let event = json!({"type": "ADDED", "namespace": namespace, "resource": "widgets.example.com", "name": uid,
                       "uid": uid, "resourceVersion": "1", "usage": {"pods": pods.to_string()}});
    let accepted = world.post("/v1/events", &json!([event])).await;
    assert_eq!(accepted.is(200).body["accepted"], 1, "{accepted:?}");
}

fn fields_of(refused: &Reply) -> Vec<&str> {
    let errors = refused.body["errors"].as_array().unwrap();
    errors.iter().map(|error| error["field"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_group_is_set_shown_and_deleted() {
    let world = World::new();
    let mut body = group(&["a", "b"], json!({"pods": 5}));
    body["labels"] = json!({"team": "red"});
    body["soft"] = json!({"pods": 4});
    let created = world.put(G, &body).await;
    assert_eq!(created.is(201).header("location"), G);
    assert_eq!(created.body["name"], "g");
    assert_eq!(created.body["hard"], json!({"pods": "5"}));
    assert_eq!(created.body["soft"], json!({"pods": "4"}));
    assert_eq!(created.body["labels"], json!({"team": "red"}));
    assert_eq!(created.body["enforcement"], "enforce");
    assert_eq!(created.body["annotations"], Value::Null);
    assert_eq!(created.body["resourceVersion"], "1");

    observe(&world, "b", "x", 2).await;
    observe(&world, "c", "y", 2).await;
    let holder = json!({"uid": "u", "name": "web"});
    let request = json!({"reservedBy": holder, "reserved": {"pods": "1"}});
    let granted = world.post("/v1/namespaces/a/reservations", &request).await;
    granted.is(201);

    let shown = world.get(G).await;
    let status = &shown.is(200).body["status"];
    assert_eq!(status["hard"], json!({"pods": "5"}));
    assert_eq!(status["used"], json!({"pods": "2"}));
    assert_eq!(status["reserved"], json!({"pods": "1"}));
    assert_eq!(status["members"], 2);
    let members = json!([
        {"namespace": "a", "used": {"pods": "0"}, "reserved": {"pods": "1"}},
        {"namespace": "b", "used": {"pods": "2"}, "reserved": {"pods": "0"}},
    ]);
    assert_eq!(status["namespaces"], members);

    let usage = world.get("/v1/groups/g/usage").await;
    let pods = json!([{"resource": "pods", "hard": "5", "used": "2", "reserved": "1", "available": "2",
                       "guaranteedToOthers": "0"}]);
    assert_eq!(usage.is(200).body["resources"], pods);
    assert_eq!(usage.body["namespaces"], members);

    let list = world.get("/v1/groups").await;
    assert_eq!(list.is(200).body["items"][0]["status"]["used"], json!({"pods": "2"}));
    assert_eq!(list.body["items"][0]["status"]["namespaces"], Value::Null);

    // What was read can be sent back, and changes nothing.
    let same = world.put(G, &shown.body).await;
    assert_eq!(same.is(200).body["resourceVersion"], "1");
    assert_eq!(same.headers.get("warning"), None);

    world.delete(G).await.is(204);
    world.delete(G).await.is_refused(404, "NotFound");
    world.get(G).await.is_refused(404, "NotFound");
    world.get("/v1/groups/g/usage").await.is_refused(404, "NotFound");
}

#[tokio::test]
async fn usage_of_another_time_has_its_members_and_limits() {
    let world = World::new();
    world.put(G, &group(&["a"], json!({"pods": "5"}))).await.is(201);
    observe(&world, "a", "x", 2).await;
    observe(&world, "b", "y", 1).await;
    let before = world.get(G).await.body["asOf"]["sequence"].clone();
    world.put(G, &group(&["b"], json!({"pods": "7"}))).await.is(200);
    let now = world.get("/v1/groups/g/usage").await;
    assert_eq!(now.body["namespaces"][0]["namespace"], "b");
    assert_eq!(now.body["resources"][0]["used"], "1");
    let then = world.get(&format!("/v1/groups/g/usage?sequence={before}")).await;
    assert_eq!(then.is(200).body["namespaces"][0]["namespace"], "a");
    assert_eq!(then.body["resources"][0]["used"], "2");
    assert_eq!(then.body["resources"][0]["hard"], "5");
}

#[tokio::test]
async fn preconditions_are_those_of_quotas() {
    let world = World::new();
    let body = group(&["a"], json!({"pods": "5"})).to_string();
    let put = |name: &'static str, value: String| {
        let body = body.clone();
        let world = &world;
        async move {
            let headers = [("content-type", "application/json"), (name, value.as_str())];
            world.call("PUT", G, &headers, body).await
        }
    };
    let absent = put("if-match", "*".to_owned()).await;
    absent.is_refused(412, "PreconditionFailed");
    put("if-none-match", "*".to_owned()).await.is(201);
    let there = put("if-none-match", "*".to_owned()).await;
    there.is_refused(412, "PreconditionFailed");
    let tag = world.get(G).await.header("etag").to_owned();
    let cached = world.call("GET", G, &[("if-none-match", &tag)], "").await;
    cached.is(304);
    observe(&world, "a", "x", 1).await;
    let fresh = world.call("GET", G, &[("if-none-match", &tag)], "").await;
    fresh.is(200);
    // The numbers have changed, the group has not.
    put("if-match", tag.clone()).await.is(200);
    world.put(G, &group(&["b"], json!({"pods": "6"}))).await.is(200);
    let stale = put("if-match", tag.clone()).await;
    stale.is_refused(412, "PreconditionFailed");
    let stale = world.call("DELETE", G, &[("if-match", &tag)], "").await;
    stale.is_refused(412, "PreconditionFailed");
}

#[tokio::test]
async fn groups_are_listed_in_pages() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        let path = format!("/v1/groups/{name}");
        world.put(&path, &group(&["n"], json!({"pods": "5"}))).await.is(201);
    }
    let first = world.get("/v1/groups?limit=2").await;
    let names = |reply: &Reply| -> Vec<String> {
        let items = reply.body["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    let next = first.body["continue"].as_str().unwrap();
    let rest = world.get(&format!("/v1/groups?continue={next}")).await;
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(rest.body["continue"], Value::Null);
    world.get("/v1/groups?continue=x").await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn shapes_that_cannot_stand_are_refused_by_the_names_of_the_fields() {
    let world = World::new();
    let company = json!({"selector": named(&["a", "b"]), "hard": {"pods": "10"}});
    world.put("/v1/groups/company", &company).await.is(201);
    for (change, field) in [
        (json!({"selector": {}}), "selector"),
        (json!({"selector": null}), "selector"),
        (json!({"hard": {"pods": "-1"}}), "hard[pods]"),
        (json!({"hard": {"pods": "many"}}), "hard[pods]"),
        (json!({"parent": "g"}), "parent"),
        (json!({"parent": "company", "guaranteed": {"pods": "11"}}), "guaranteed[pods]"),
        (json!({"guaranteed": {"pods": "6"}}), "guaranteed[pods]"),
        (json!({"parent": "company", "each": true}), "parent"),
        (json!({"objects": {"matchLabels": {"app": "web"}}}), "objects"),
        (json!({"enforcement": "maybe"}), "enforcement"),
        (json!({"each": "yes"}), "each"),
        (json!({"soft": {"pods": "6"}}), "soft[pods]"),
        (
            json!({"override": {"hard": {"services": "6"}, "until": "2030-01-01T00:00:00Z"}}),
            "override.hard[services]",
        ),
        (json!({"override": {"hard": {"pods": "6"}}}), "override"),
        (
            json!({"annotations": {"quota-ledger.io/parent": "x"}}),
            "annotations[quota-ledger.io/parent]",
        ),
        (json!({"name": "other"}), "name"),
    ] {
        let mut body = group(&["a"], json!({"pods": "5"}));
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
        }
        let refused = world.put(G, &body).await;
        refused.is_refused(422, "Invalid");
        assert!(fields_of(&refused).contains(&field), "{change}: {:?}", fields_of(&refused));
    }
    world.get(G).await.is_refused(404, "NotFound");
    world.put(G, &json!([])).await.is_refused(400, "Malformed");
    world.put(G, &json!({"selector": "a"})).await.is_refused(400, "Malformed");
    let misspelled = json!({"selector": named(&["a"]), "hard": {}, "garanteed": {}});
    let warned = world.put(G, &misspelled).await;
    assert!(warned.is(201).header("warning").contains("garanteed"));
}

#[tokio::test]
async fn a_tree_shows_what_is_guaranteed_to_others() {
    let world = World::new();
    let parent = json!({"hard": {"pods": "10"}, "selector": named(&["a"])});
    world.put("/v1/groups/company", &parent).await.is(201);
    let mut child = group(&["b"], json!({"pods": "8"}));
    child["parent"] = json!("company");
    child["guaranteed"] = json!({"pods": "4"});
    world.put("/v1/groups/team", &child).await.is(201);
    observe(&world, "b", "x", 1).await;
    let company = world.get("/v1/groups/company").await;
    let status = &company.body["status"];
    assert_eq!(status["used"], json!({"pods": "1"}));
    assert_eq!(status["guaranteedToOthers"], json!({"pods": "3"}));
    assert_eq!(status["children"], json!(["team"]));
    let usage = world.get("/v1/groups/company/usage").await;
    assert_eq!(usage.body["resources"][0]["available"], "6");

    world.delete("/v1/groups/company").await.is(204);
    let team = world.get("/v1/groups/team").await;
    assert_eq!(team.body["parent"], "company");
    let condition = &team.body["status"]["conditions"][0];
    assert_eq!(condition["type"], "ParentFound");
    assert_eq!(condition["status"], "False");
}

#[tokio::test]
async fn a_cluster_resource_quota_is_a_group() {
    let world = World::new();
    let text = "apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\nmetadata:\n  name: g\n  annotations:\n    \
                owner: ann\n    quota-ledger.io/guaranteed: '{\"pods\": 1}'\n    quota-ledger.io/parent: company\n\
                spec:\n  selector:\n    labels:\n      matchLabels: {team: red}\n  quota:\n    hard: {pods: 3}\n";
    let yaml = [("content-type", "application/yaml")];
    let created = world.call("PUT", G, &yaml, text).await;
    let body = &created.is(201).body;
    assert_eq!(body["selector"], json!({"labels": {"matchLabels": {"team": "red"}}}));
    assert_eq!(body["hard"], json!({"pods": "3"}));
    assert_eq!(body["guaranteed"], json!({"pods": "1"}));
    assert_eq!(body["parent"], "company");
    assert_eq!(body["annotations"], json!({"owner": "ann"}));
    let wrong = text.replace("pods: 3", "pods: -3");
    let refused = world.call("PUT", G, &yaml, wrong).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(fields_of(&refused)[0], "spec.quota.hard[pods]");
    let other = text.replace("ClusterResourceQuota", "ResourceQuota");
    world.call("PUT", G, &yaml, other).await.is_refused(400, "Malformed");
}

/// A ClusterResourceQuota over namespace `a` as a watch of its cluster shows it.
fn watched(kind: &str, version: u32, pods: &str, annotations: &Value) -> Value {
    json!({"type": kind, "object": {"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
        "metadata": {"name": "g", "uid": "g-1", "resourceVersion": version.to_string(), "annotations": annotations},
        "spec": {"selector": named(&["a"]), "quota": {"hard": {"pods": pods}}}}})
}

#[tokio::test]
async fn a_group_of_a_cluster_comes_and_goes_with_its_events() {
    let world = World::new();
    let accepts = async |event: Value| {
        let accepted = world.post("/v1/events", &event).await;
        accepted.is(200).body["accepted"] == 1
    };
    let annotations = json!({"quota-ledger.io/parent": "g", "quota-ledger.io/soft": "{\"pods\":\"1\"}", "a": "b"});
    assert!(accepts(watched("ADDED", 5, "2", &annotations)).await);
    observe(&world, "a", "x", 2).await;
    let shown = world.get(G).await;
    assert_eq!(shown.is(200).body["status"]["used"], json!({"pods": "2"}));
    assert_eq!(shown.body["uid"], "g-1");
    assert_eq!(shown.body["annotations"], json!({"a": "b"}));
    assert_eq!(shown.body["soft"], json!({"pods": "1"}));
    // It cannot be part of itself, and says so.
    assert_eq!(shown.body["parent"], Value::Null);
    let condition = &shown.body["status"]["conditions"][0];
    assert_eq!(condition["type"], "AnnotationsInForce");
    let message = condition["message"].as_str().unwrap();
    assert!(message.ends_with(": quota-ledger.io/parent"), "{message}");

    for refused in [world.put(G, &group(&["a"], json!({"pods": "9"}))).await, world.delete(G).await]
    {
        refused.is_refused(409, "Conflict");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("kubectl edit clusterresourcequota g"), "{detail}");
    }

    assert!(accepts(watched("MODIFIED", 6, "3", &json!({}))).await);
    assert!(!accepts(watched("MODIFIED", 6, "4", &json!({}))).await);
    let changed = world.get(G).await;
    assert_eq!(changed.body["hard"], json!({"pods": "3"}));
    assert_eq!(changed.body["status"]["conditions"], Value::Null);
    let before = changed.body["asOf"]["sequence"].clone();

    // A list of the cluster without it ends it.
    let mark = |kind: &str| json!({"type": kind, "resource": "clusterresourcequotas.quota.openshift.io", "allowEmpty": true});
    let list =
        json!([mark("RELIST_BEGIN"), watched("ADDED", 6, "3", &json!({})), mark("RELIST_END")]);
    world.post("/v1/events", &list).await.is(200);
    world.get(G).await.is(200);
    let list = json!([mark("RELIST_BEGIN"), mark("RELIST_END")]);
    world.post("/v1/events", &list).await.is(200);
    world.get(G).await.is_refused(404, "NotFound");
    let then = world.get(&format!("/v1/groups/g/usage?sequence={before}")).await;
    assert_eq!(then.is(200).body["resources"][0]["hard"], "3");

    assert!(accepts(watched("ADDED", 6, "3", &json!({}))).await);
    assert!(accepts(watched("DELETED", 7, "3", &json!({}))).await);
    world.get(G).await.is_refused(404, "NotFound");
    world.put(G, &group(&["a"], json!({"pods": "9"}))).await.is(201);
}

#[tokio::test]
async fn what_changes_nothing_of_a_group_of_the_cluster_is_no_edit() {
    let world = World::new();
    let event = |name: &str, version: u32, parent: &str| {
        json!({"type": "ADDED", "object": {"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
            "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(), "generation": 1,
                "labels": {"team": "red"}, "managedFields": [{"manager": "oc"}],
                "annotations": {"why": "x", "quota-ledger.io/parent": parent,
                    "quota-ledger.io/guaranteed": "{ \"pods\": \"1\" }"}},
            "spec": {"selector": named(&["a"]), "quota": {"hard": {"pods": "3"}}}}})
    };
    // The second would close a cycle: its annotation is not in force, and stays.
    for (name, version, parent) in [("g", 5, "h"), ("h", 6, "g")] {
        let taken = world.post("/v1/events", &event(name, version, parent)).await;
        assert_eq!(taken.is(200).body["accepted"], 1);
    }
    for (name, version, parent) in [("g", 5, "h"), ("h", 6, "g")] {
        let path = format!("/v1/groups/{name}");
        let shown = world.get(&path).await.is(200).body.clone();
        let mut manifest = event(name, version, parent)["object"].clone();
        for note in [false, true] {
            if note {
                manifest["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                    json!("{}");
            }
            let again = world.put(&path, &manifest).await;
            assert_eq!(again.is(200).body["resourceVersion"], shown["resourceVersion"]);
            assert_eq!(again.body["asOf"]["sequence"], shown["asOf"]["sequence"]);
        }
        let absent =
            world.call("PUT", &path, &[("if-none-match", "*")], manifest.to_string()).await;
        absent.is_refused(412, "PreconditionFailed");
        manifest["spec"]["quota"]["hard"]["pods"] = json!("4");
        let edited = world.put(&path, &manifest).await;
        assert!(matches!(edited.status, 409 | 422), "{edited:?}");
    }
    // With typed fields too.
    let fields = json!({"selector": named(&["a"]), "hard": {"pods": "3"}, "parent": "h", "guaranteed": {"pods": "1"},
        "labels": {"team": "red"}, "annotations": {"why": "x"}});
    world.put(G, &fields).await.is(200);
}

/// Objects of two namespaces may have the same uid, kind and amount.
#[tokio::test]
async fn no_part_is_lost_between_the_pages_of_an_explanation() {
    let world = World::new();
    let set = group(&["a", "b", "c"], json!({"pods": 9}));
    world.put(G, &set).await.is(201);
    for namespace in ["b", "a", "c"] {
        observe(&world, namespace, "same", 2).await;
    }
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("{G}/explain?resource=pods&limit=1{next}");
        let page = world.get(&path).await;
        let items = page.is(200).body["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["namespace"].clone()));
        match page.body["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c"]);
}
