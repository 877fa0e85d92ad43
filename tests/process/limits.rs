//! Limits and their metrics, from outside.

use crate::support::{
    programs::certificates,
    quotad::{Quotad, REQUEST, agent, command},
};
use tempfile::TempDir;

/// Limits on kinds that the webhook does not review are shown with the quota, and so are quotas that others enforce too.
#[test]
fn limits_that_nothing_keeps_and_quotas_that_others_keep_too_are_shown() {
    let directory = TempDir::new().unwrap();
    certificates(directory.path(), "quotad.ns.svc");
    let arguments = [
        "--admission.listen=127.0.0.1:0",
        "--admission.count=[\"configmaps\"]",
        "--tls.cert=tls.crt",
        "--tls.key=tls.key",
    ];
    let daemon = Quotad::start(directory.path(), &arguments);
    assert_eq!(daemon.ask_admin("/readyz"), (200, "ok".to_owned()));
    let agent = agent(REQUEST);
    let hard = serde_json::json!({ "pods": "1", "configmaps": "1", "secrets": "1", "count/widgets.x.y": "1" });
    let quota = serde_json::json!({ "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "q", "namespace": "demo", "uid": "1-2-3", "resourceVersion": "7" },
        "spec": { "hard": hard } });
    let why = "not enforced: count/widgets.x.y, secrets: ";
    let own = format!("{}/v1/namespaces/demo/quotas/q", daemon.api);
    let answer = agent.put(&own).send_json(&quota).unwrap();
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.starts_with(&format!("299 - \"{why}")), "{warning}");
    let object = format!("{}/api/v1/namespaces/demo/resourcequotas/q", daemon.api);
    for url in [&own, &object] {
        let text = agent.get(url).call().unwrap().body_mut().read_to_string();
        let shown: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        let condition = &shown["status"]["conditions"][0];
        assert_eq!(condition["type"], "Enforced", "{shown}");
        assert_eq!(condition["status"], "False");
        assert!(condition["message"].as_str().unwrap().starts_with(why));
    }
    let patched = agent
        .patch(&object)
        .header("content-type", "application/merge-patch+json")
        .send(r#"{"spec":{"hard":{"pods":"2"}}}"#)
        .unwrap();
    assert!(patched.headers()["warning"].to_str().unwrap().contains(why));
    let (_, metrics) = daemon.ask_admin("/metrics");
    let open: Vec<_> = metrics
        .lines()
        .filter(|line| line.starts_with("quota_ledger_limit_not_enforced{"))
        .collect();
    assert_eq!(open.len(), 2, "{open:?}");
    assert!(agent.delete(&own).call().unwrap().status().is_success());

    let event = serde_json::json!({ "type": "ADDED", "object": quota });
    let url = format!("{}/v1/events", daemon.api);
    let taken = agent.post(url).send_json(serde_json::json!([event])).unwrap();
    assert_eq!(taken.status(), 200);
    daemon.logged(
        "adopted quotas are enforced by the API server's own quota plugin as well, unless it is off \
         (quotas.plugin_is_off): docs/webhook.md says what follows",
    );
    let (status, text) = daemon.ask_admin("/readyz?verbose");
    assert_eq!(status, 200);
    assert!(text.contains("[+]quota-plugin ok, lagging: 1 adopted quotas"), "{text}");
    let (_, metrics) = daemon.ask_admin("/metrics");
    assert!(metrics.contains("quota_ledger_quotas_enforced_twice 1\n"), "{metrics}");
}

#[test]
fn an_application_has_a_quota_of_its_own_by_the_labels_of_its_objects() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &["--groups.object_labels=app"]);
    let send = |method: &str, path: &str, body: serde_json::Value| {
        let (status, answer) = daemon.call(method, path, &[], &body);
        (status, answer.to_string())
    };
    let group = |key: &str| {
        serde_json::json!({
            "selector": {"labels": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}},
            "hard": {"pods": "2"},
            "objects": {"matchLabels": {key: "web"}},
        })
    };
    let (status, refused) = send("PUT", "/v1/groups/web", group("tier"));
    assert_eq!(status, 422, "{refused}");
    assert!(refused.contains("groups.object_labels: [app]"), "{refused}");
    assert_eq!(send("PUT", "/v1/groups/web", group("app")).0, 201);

    let pod = |namespace: &str, name: &str, app: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name,
            "uid": name, "resourceVersion": "7", "labels": {"app": app}},
            "spec": {"containers": [{"name": "c"}]}})
    };
    let seen = serde_json::json!([{"type": "ADDED", "object": pod("a", "seen", "web")}]);
    assert_eq!(send("POST", "/v1/events", seen).0, 200);
    let reserve = |namespace: &str, name: &str, app: &str| {
        let request = serde_json::json!({"object": pod(namespace, name, app)});
        let path = format!("/v1/namespaces/{namespace}/reservations");
        send("POST", &path, request)
    };
    assert_eq!(reserve("a", "other", "db").0, 201);
    assert_eq!(reserve("b", "second", "web").0, 201);
    let (status, denied) = reserve("c", "third", "web");
    assert_eq!(status, 403, "{denied}");
    assert!(denied.contains("exceeded quota: web"), "{denied}");
    let (_, metrics) = daemon.ask_admin("/metrics");
    for line in [
        r#"openshift_clusterresourcequota_usage{name="web",resource="pods",type="used"} 1"#,
        r#"openshift_clusterresourcequota_usage{name="web",resource="pods",type="reserved"} 1"#,
        r#"openshift_clusterresourcequota_namespace_usage{name="web",resource="pods",type="used",namespace="a"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert_eq!(daemon.stop().code(), Some(0));

    // A label that a group chooses by cannot go.
    let refused = Quotad::try_start(
        directory.path(),
        command(directory.path()).arg("--groups.object_labels="),
    );
    let refused = refused.err().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", refused.said);
    assert!(refused.said.contains("group web chooses objects by app"), "{}", refused.said);
    let daemon = Quotad::start(directory.path(), &["--groups.object_labels=app,tier"]);
    assert_eq!(daemon.get("/v1/groups/web/usage")["resources"][0]["used"], "1");
}
