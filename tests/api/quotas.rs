//! Quotas: set, shown, deleted.

use serde_json::{Value, json};

use crate::world::{Reply, World, pods};

const Q: &str = "/v1/namespaces/a/quotas/q";

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
}

#[tokio::test]
async fn a_quota_is_set_shown_and_deleted() {
    let world = World::new();
    let mut body = quota(json!({"pods": 3, "requests.memory": "1024Mi"}));
    body["metadata"]["labels"] = json!({"team": "red"});
    let created = world.put(Q, &body).await;
    assert_eq!(created.is(201).header("location"), Q);
    let metadata = &created.body["metadata"];
    assert_eq!(metadata["name"], "q");
    assert_eq!(metadata["namespace"], "a");
    assert_eq!(metadata["resourceVersion"], "1");
    assert_eq!(metadata["labels"], json!({"team": "red"}));
    assert!(metadata["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    let hard = json!({"pods": "3", "requests.memory": "1Gi"});
    assert_eq!(created.body["spec"]["hard"], hard);
    let status = json!({"hard": hard, "used": {"pods": "0", "requests.memory": "0"},
                        "reserved": {"pods": "0", "requests.memory": "0"}, "reservations": []});
    assert_eq!(created.body["status"], status);
    assert_eq!(created.body["asOf"]["sequence"], 1);

    let same = world.put(Q, &body).await;
    assert_eq!(same.is(200).body["metadata"]["resourceVersion"], "1", "nothing was written");
    let changed = world.put(Q, &quota(json!({"pods": "4"}))).await;
    assert_eq!(changed.is(200).body["metadata"]["resourceVersion"], "2");
    assert_eq!(changed.body["metadata"]["uid"], metadata["uid"]);
    assert_eq!(world.get(Q).await.body["spec"]["hard"], json!({"pods": "4"}));
    assert_eq!(world.call("HEAD", Q, &[], "").await.status, 200);

    world.delete(Q).await.is(204);
    world.delete(Q).await.is_refused(404, "NotFound");
    world.get(Q).await.is_refused(404, "NotFound");
}

#[tokio::test]
async fn who_holds_what_is_shown() {
    let world = World::new();
    world.quota(json!({"pods": "5"})).await;
    let holder = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"});
    let body = json!({"reservedBy": holder, "reserved": {"pods": "2", "requests.cpu": "1"}});
    let granted = world.post("/v1/namespaces/a/reservations", &body).await;
    let shown = world.get(Q).await;
    let hold = json!([{"reservedBy": holder, "reserved": {"pods": "2"},
                       "expirationTime": granted.body["expirationTime"]}]);
    assert_eq!(shown.body["status"]["reservations"], hold, "only what the quota limits");
    assert_eq!(shown.body["status"]["reserved"], json!({"pods": "2"}));
}

#[tokio::test]
async fn yaml_is_what_kubectl_makes_of_it() {
    let world = World::new();
    let yaml = [("content-type", "application/yaml")];
    let text = "spec:\n  hard: {pods: 010, requests.cpu: 0777, services: 0x10, secrets: 1_000, limits.cpu: , configmaps: \"010\"}\n";
    let made = world.call("PUT", Q, &yaml, text).await;
    assert_eq!(
        made.is(201).body["spec"]["hard"],
        json!({"pods": "8", "requests.cpu": "511", "services": "16", "secrets": "1k", "configmaps": "10"})
    );
    for (text, why) in [
        ("spec: {hard: {pods: yes}}", "spec.hard[pods]"),
        ("spec: {hard: {pods: 1:30}}", "spec.hard[pods]"),
        ("spec: {hard: {memory: 1000000000000000000001}}", "write it in quotes"),
        ("spec: {hard: {pods: 1, pods: 2}}", "the key \"pods\" is there twice at line 1 column 24"),
        ("spec: [", "cannot read the YAML: "),
    ] {
        let refused = world.call("PUT", Q, &yaml, text).await;
        assert!(matches!(refused.status, 400 | 422), "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains(why), "{refused:?}");
    }
    let path = Q.replace("/quotas/q", "/check");
    for (pods, fits) in [("010", true), ("011", false), ("8", true), ("\"010\"", false)] {
        let check = world.call("POST", &path, &yaml, format!("reserved: {{pods: {pods}}}")).await;
        assert_eq!(check.is(200).body["fits"], fits, "{pods}");
    }
}

#[tokio::test]
async fn yaml_is_read_as_json_is() {
    let world = World::new();
    let text = "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: q\nspec:\n  hard:\n    pods: 3\n    \
                requests.cpu: 1500m\n  scopes: [NotTerminating]\n";
    for media_type in ["application/yaml", "text/yaml; charset=utf-8", "application/x-yaml"] {
        let reply = world.call("PUT", Q, &[("content-type", media_type)], text).await;
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        assert_eq!(reply.body["metadata"]["resourceVersion"], "1");
        assert_eq!(reply.body["spec"]["hard"], json!({"pods": "3", "requests.cpu": "1500m"}));
        assert_eq!(reply.body["spec"]["scopes"], json!(["NotTerminating"]));
    }
    // The default `Content-Type` of curl, and none.
    let untold =
        world.call("PUT", Q, &[("content-type", "application/x-www-form-urlencoded")], text);
    untold.await.is(200);
    world.call("PUT", Q, &[], text).await.is(200);
    let broken = world.call("PUT", Q, &[("content-type", "text/yaml")], "a: [").await;
    broken.is_refused(400, "Malformed");
    let xml = world.call("PUT", Q, &[("content-type", "text/xml")], text).await;
    xml.is_refused(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn every_error_is_named() {
    let world = World::new();
    let refused =
        world.put(Q, &quota(json!({"pods": "1500m", "nonsense": "1", "secrets": "-1"}))).await;
    refused.is_refused(422, "Invalid");
    let errors = refused.body["errors"].as_array().unwrap();
    let named = |field: &str| errors.iter().any(|error| error["field"] == field);
    assert!(
        named("spec.hard[pods]") && named("spec.hard[nonsense]") && named("spec.hard[secrets]")
    );
    let error = errors.iter().find(|error| error["field"] == "spec.hard[secrets]").unwrap();
    assert_eq!(error["type"], "FieldValueInvalid");
    assert_eq!(error["message"], "Invalid value: \"-1\": must be greater than or equal to 0");

    let unreadable = world.put(Q, &quota(json!({"pods": "many", "secrets": "1x"}))).await;
    unreadable.is_refused(422, "Invalid");
    assert_eq!(unreadable.body["errors"].as_array().unwrap().len(), 2);

    let mut other = quota(json!({}));
    other["metadata"]["name"] = json!("p");
    let refused = world.put(Q, &other).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(refused.body["errors"][0]["field"], "metadata.name");
    other["metadata"] = json!({"namespace": "b"});
    let refused = world.put(Q, &other).await;
    assert_eq!(refused.body["errors"][0]["field"], "metadata.namespace");
    let bad_name = world.put("/v1/namespaces/a/quotas/No", &json!({"spec": {}})).await;
    bad_name.is_refused(422, "Invalid");
    let kind = world.put(Q, &json!({"apiVersion": "v1", "kind": "Pod"})).await;
    kind.is_refused(400, "Malformed");

    world.put(Q, &quota(json!({"pods": "1"}))).await.is(201);
    let mut scoped = quota(json!({"pods": "1"}));
    scoped["spec"]["scopes"] = json!(["BestEffort"]);
    let refused = world.put(Q, &scoped).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(refused.body["errors"][0]["field"], "spec.scopes");
}

#[tokio::test]
async fn what_is_odd_is_warned_of() {
    let world = World::new();
    let mut body = quota(json!({"requests.cpu": "2", "limits.cpu": "1"}));
    body["spec"]["hrad"] = json!({});
    let created = world.put(Q, &body).await;
    let warnings: Vec<_> = created.headers.get_all("warning").iter().collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(
        warnings[0],
        "299 - \"ResourceQuota requests.cpu (2) should be less than limits.cpu (1)\""
    );
    assert_eq!(warnings[1], "299 - \"unknown field 'spec.hrad'\"");
    // What is answered can be sent again.
    let again = world.put(Q, &created.body).await;
    assert_eq!(again.is(200).headers.get_all("warning").iter().count(), 1);
}

#[tokio::test]
async fn preconditions_are_kept() {
    let world = World::new();
    let body = |pods: &str| quota(json!({ "pods": pods })).to_string();
    let put = |headers: &'static [(&'static str, &'static str)], pods: &str| {
        world.call("PUT", Q, headers, body(pods))
    };
    put(&[("if-match", "*")], "1").await.is_refused(412, "PreconditionFailed");
    put(&[("if-match", "\"1\"")], "1").await.is_refused(412, "PreconditionFailed");
    put(&[("if-none-match", "*")], "1").await.is(201);
    put(&[("if-none-match", "*")], "2").await.is_refused(412, "PreconditionFailed");
    put(&[("if-match", "\"7\"")], "2").await.is_refused(412, "PreconditionFailed");
    put(&[("if-match", "nonsense")], "2").await.is_refused(400, "Malformed");
    put(&[("if-match", "\"1\"")], "2").await.is(200);
    let tag = world.get(Q).await.header("etag").to_owned();
    assert!(tag.starts_with("\"2-"));
    world
        .call("DELETE", Q, &[("if-match", "\"1\"")], "")
        .await
        .is_refused(412, "PreconditionFailed");
    world.call("DELETE", Q, &[("if-match", &tag)], "").await.is(204);
}

#[tokio::test]
async fn a_cached_quota_is_good_until_its_numbers_change() {
    let world = World::new();
    world.quota(json!({"pods": "3"})).await;
    let tag = world.get(Q).await.header("etag").to_owned();
    let cached = world.call("GET", Q, &[("if-none-match", &tag)], "").await;
    assert_eq!(cached.is(304).header("etag"), tag);
    world.post("/v1/namespaces/a/reservations", &pods("u", 1)).await.is(201);
    let fresh = world.call("GET", Q, &[("if-none-match", &tag)], "").await;
    assert_eq!(fresh.is(200).body["status"]["reserved"]["pods"], "1");
}

#[tokio::test]
async fn an_edit_of_an_old_version_is_refused_and_a_foreign_manifest_is_not() {
    let world = World::new();
    let mine = world.put(Q, &quota(json!({"pods": "1"}))).await.body;
    world.put(Q, &quota(json!({"pods": "2"}))).await.is(200);
    let mut edited = mine.clone();
    edited["spec"]["hard"]["pods"] = json!("3");
    world.put(Q, &edited).await.is_refused(409, "Conflict");

    let mut foreign = mine;
    foreign["metadata"]["uid"] = json!("0f0f0f0f-0000-4000-8000-000000000000");
    foreign["metadata"]["resourceVersion"] = json!("987654");
    foreign["spec"]["hard"]["pods"] = json!("4");
    foreign["metadata"]["deletionTimestamp"] = json!("2026-11-20T00:00:00Z");
    foreign["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    let elsewhere = "/v1/namespaces/b/quotas/q";
    foreign["metadata"]["namespace"] = json!("b");
    world.put(elsewhere, &foreign).await.is(201);
    let again = world.put(elsewhere, &foreign).await;
    assert_eq!(again.is(200).body["metadata"]["resourceVersion"], "3");
    assert_ne!(again.body["metadata"]["uid"], foreign["metadata"]["uid"]);
    for field in ["deletionTimestamp", "managedFields"] {
        assert!(again.body["metadata"].get(field).is_none(), "{field}");
    }
}

#[tokio::test]
async fn a_quota_that_is_being_deleted_is_neither_revived_nor_left_waiting_for_ever() {
    // Where quotas that are adopted stay those of their source, this is refused anyway.
    let world = World::adopting(false);
    let mut leaving = quota(json!({"pods": "3"}));
    leaving["metadata"]["namespace"] = "a".into();
    leaving["metadata"]["uid"] = "6b0a3c1e-7d62-4e5b-9d0e-4a3c52f1f001".into();
    leaving["metadata"]["resourceVersion"] = "7".into();
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z".into();
    leaving["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let event = json!({"type": "ADDED", "object": leaving});
    world.post("/v1/events", &event).await.is(200);
    let mut other = quota(json!({"pods": "4"}));
    world.put(Q, &other).await.is_refused(409, "Conflict");
    assert_eq!(world.get(Q).await.body["spec"]["hard"]["pods"], "3");
    other["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.put(Q, &other).await.is(200);
    world.delete(Q).await.is(204);
    world.put(Q, &quota(json!({"pods": "5"}))).await.is(201);
}

#[tokio::test]
async fn lists_come_in_pages_by_namespace_and_name() {
    let world = World::new();
    for (namespace, name) in [("a", "x"), ("a", "y"), ("b", "x"), ("c", "x"), ("c", "z")] {
        let path = format!("/v1/namespaces/{namespace}/quotas/{name}");
        world.put(&path, &json!({"spec": {"hard": {"pods": "1"}}})).await.is(201);
    }
    let mut seen = Vec::new();
    let mut next = Some(String::new());
    while let Some(token) = next {
        let page = world.get(&format!("/v1/quotas?limit=2&continue={token}")).await;
        for item in page.is(200).items() {
            let metadata = &item["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap().to_owned();
            seen.push(text("namespace") + "/" + &text("name"));
        }
        assert_eq!(page.body["asOf"]["sequence"], 5);
        next = page.body["continue"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, ["a/x", "a/y", "b/x", "c/x", "c/z"]);
    let one = world.get("/v1/namespaces/c/quotas?limit=1").await;
    assert_eq!(one.items()[0]["metadata"]["name"], "x");
    let token = one.body["continue"].as_str().unwrap();
    let two = world.get(&format!("/v1/namespaces/c/quotas?limit=1&continue={token}")).await;
    assert_eq!(two.items()[0]["metadata"]["name"], "z");
    assert!(two.body.get("continue").is_none());
    assert!(world.get("/v1/namespaces/none/quotas").await.is(200).items().is_empty());
}

fn of_the_cluster(change: &str, version: u64, pods: &str) -> Value {
    json!({"type": change, "object": {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "a", "uid": "of-cluster", "resourceVersion": version.to_string()},
        "spec": {"hard": {"pods": pods}}}})
}

fn end_of_namespace(version: u64) -> Value {
    json!({"type": "DELETED", "object": {
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "a", "uid": "ns", "resourceVersion": version.to_string()}}})
}

#[tokio::test]
async fn a_quota_of_the_cluster_is_changed_there_and_goes_with_its_namespace() {
    let world = World::new();
    let own = "/v1/namespaces/a/quotas/own";
    let body = json!({"spec": {"hard": {"pods": "8"}}});
    world.put(own, &body).await.is(201);
    world.post("/v1/events", &of_the_cluster("ADDED", 5, "3")).await.is(200);
    let refused = world.put(Q, &quota(json!({"pods": "4"}))).await;
    refused.is_refused(409, "Conflict");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("kubectl -n a edit resourcequota q"), "{detail}");
    world.delete(Q).await.is_refused(409, "Conflict");
    world.put(Q, &quota(json!({"pods": "3"}))).await.is(200);
    assert_eq!(world.get(Q).await.body["spec"]["hard"], json!({"pods": "3"}));

    // An older namespace of this name, whose end comes late.
    world.post("/v1/events", &end_of_namespace(4)).await.is(200);
    world.get(Q).await.is(200);
    world.post("/v1/events", &end_of_namespace(9)).await.is(200);
    world.get(Q).await.is_refused(404, "NotFound");
    world.get(own).await.is(200);
    // The end is final, also when what came before comes again.
    world.post("/v1/events", &of_the_cluster("MODIFIED", 6, "3")).await.is(200);
    world.get(Q).await.is_refused(404, "NotFound");
    let again = world.post("/v1/events", &end_of_namespace(9)).await;
    assert_eq!(again.is(200).body["ignored"], 1);
}

#[tokio::test]
async fn without_adoption_a_quota_of_the_cluster_may_be_changed_here() {
    let world = World::adopting(false);
    world.post("/v1/events", &of_the_cluster("ADDED", 5, "3")).await.is(200);
    world.put(Q, &quota(json!({"pods": "4"}))).await.is(200);
    world.delete(Q).await.is(204);
}

#[tokio::test]
async fn what_changes_nothing_of_a_quota_of_the_cluster_is_no_edit() {
    let world = World::new();
    // As an API server writes it, not as this one would.
    let event = r#"{"type":"ADDED","object":{"kind":"ResourceQuota","apiVersion":"v1","metadata":{
        "uid":"of-cluster","resourceVersion":"5","namespace":"a","name":"q","selfLink":"/x","generation":2,
        "managedFields":[{"manager":"kubectl"}],"finalizers":["example.com/hold"],
        "labels":{"b":"2","a":"1"},"annotations":{"why":"x","quota-ledger.io/soft":"{ \"pods\": \"2\" }"},
        "creationTimestamp":"2026-11-20T00:00:00Z"},"spec":{"hard":{"pods":"3","cpu":"500m"}}}}"#;
    let event: Value = serde_json::from_str(event).unwrap();
    world.post("/v1/events", &event).await.is(200);
    let shown = world.get(Q).await.is(200).body.clone();
    let same = |reply: &Reply| {
        assert_eq!(reply.is(200).body["metadata"], shown["metadata"]);
        assert_eq!(reply.body["asOf"]["sequence"], shown["asOf"]["sequence"]);
    };
    same(&world.put(Q, &event["object"]).await);
    same(&world.put(Q, &shown).await);
    let mut noted = shown.clone();
    noted["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        json!("{}");
    noted["metadata"]["managedFields"] = json!([{"manager": "me"}]);
    same(&world.put(Q, &noted).await);

    let changed = |change: fn(&mut Value)| {
        let mut changed = shown.clone();
        change(&mut changed);
        changed
    };
    let respelled = changed(|it| it["spec"]["hard"]["cpu"] = json!("0.5"));
    same(&world.put(Q, &respelled).await);
    for edited in [
        changed(|it| it["spec"]["hard"]["pods"] = json!("4")),
        changed(|it| it["spec"]["hard"]["cpu"] = json!("0.6")),
        changed(|it| it["metadata"]["labels"]["a"] = json!("2")),
        changed(|it| it["metadata"]["annotations"]["why"] = json!("y")),
        changed(|it| it["metadata"]["finalizers"] = json!(["example.com/other"])),
    ] {
        world.put(Q, &edited).await.is_refused(409, "Conflict");
    }
    let stale = world.call("PUT", Q, &[("if-match", "\"nothing\"")], shown.to_string()).await;
    assert_ne!(stale.status, 200, "{stale:?}");
    let absent = world.call("PUT", Q, &[("if-none-match", "*")], shown.to_string()).await;
    absent.is_refused(412, "PreconditionFailed");
}

/// Each such text would be read with a new limit of depth, until the stack is full.
#[tokio::test]
async fn a_text_within_a_manifest_is_not_read_as_json() {
    let world = World::new();
    let text = json!({"$serde_json::private::RawValue": "[1]"});
    for body in [
        json!({"spec": {"hard": {"pods": "1"}}, "x": text}),
        json!({"spec": {"hard": {"pods": "1"}}, "metadata": {"managedFields": [text]}}),
    ] {
        let refused = world.put("/v1/namespaces/a/quotas/q", &body).await;
        refused.is_refused(400, "Malformed");
    }
}

#[tokio::test]
async fn the_status_shows_the_limits_in_force() {
    let world = World::new();
    let quota = json!({
        "metadata": {"annotations": {
            "quota-ledger.io/override": r#"{"hard":{"pods":"3"},"until":"2100-01-01T00:00:00Z"}"#
        }},
        "spec": {"hard": {"pods": "1", "services": "2"}}
    });
    let set = world.put("/v1/namespaces/a/quotas/q", &quota).await;
    set.is(201);
    let shown = world.get("/v1/namespaces/a/quotas/q").await;
    assert_eq!(shown.body["spec"]["hard"]["pods"], "1");
    assert_eq!(shown.body["status"]["hard"], json!({"pods": "3", "services": "2"}));
}
