//! Quotas and groups: their annotations, their limits, and specs that the ledger cannot read.

use super::*;

#[test]
fn a_quota_is_kept_but_for_what_changes_by_itself() {
    let quotas = reader("", "resourcequotas", "ResourceQuota");
    let quota = r#"{"metadata":{"name":"q","namespace":"a","uid":"u","resourceVersion":"7","labels":{"x":"y"},"managedFields":[{}]},
        "spec":{"hard":{"pods":"1",
        "count/widgets.x":"2"}},"status":{"used":{}}}"#;
    let alive = quotas.alive("MODIFIED", quota).unwrap();
    assert_eq!(alive.limits, [GroupResource::new("x", "widgets")]);
    let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
    assert_eq!(line["object"]["metadata"]["labels"]["x"], "y");
    assert_eq!(line["object"]["spec"]["hard"]["pods"], "1");
    assert_eq!(line["object"]["kind"], "ResourceQuota");
    assert!(line["object"]["metadata"]["managedFields"].is_null());
    assert!(line["object"]["status"].is_null() && !alive.line.contains(&b'\n'));
    let again = quota.replace("\"7\"", "\"8\"").replace("{}}}", "{\"pods\":\"1\"}}}");
    let again = quotas.alive("MODIFIED", &again).unwrap();
    assert_eq!(again.fingerprint, alive.fingerprint);
    assert_eq!(
        text(&quotas.deleted(quota).unwrap().line),
        r#"{"type":"DELETED","object":{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","namespace":"a","uid":"u","resourceVersion":"7"}}}"#
    );
}

/// The ledger takes no longer texts, and a list of quotas without this one would not be complete.
#[test]
fn limits_of_any_length_are_published() {
    let zeros = "0".repeat(1 << 20);
    let hard = format!(r#""hard":{{"pods":"{zeros}7","memory":"{zeros}1Gi","cpu":"1.500"}}"#);
    for (group, resource, kind, spec) in [
        ("", "resourcequotas", "ResourceQuota", hard.clone()),
        (
            "quota.openshift.io",
            "clusterresourcequotas",
            "ClusterResourceQuota",
            format!(r#""selector":{{}},"quota":{{{hard}}}"#),
        ),
    ] {
        let json =
            format!(r#"{{"metadata":{{"name":"q","namespace":"a","uid":"u"}},"spec":{{{spec}}}}}"#);
        let alive = reader(group, resource, kind).alive("ADDED", &json).unwrap();
        assert_eq!(alive.lacks, None, "{kind}");
        let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
        let spec = &line["object"]["spec"];
        let hard = spec.pointer("/quota/hard").unwrap_or(&spec["hard"]);
        let shown = serde_json::json!({"pods": "7", "memory": "1Gi", "cpu": "1500m"});
        assert_eq!(*hard, shown, "{kind}");
    }
}

/// Names that no kind can have never count, and would make a bookmark unreadable.
#[test]
fn odd_names_of_counted_kinds_limit_nothing() {
    let quotas = reader("", "resourcequotas", "ResourceQuota");
    let quota = r#"{"metadata":{"name":"q","namespace":"a","uid":"u"},"spec":{"hard":{
        "count/Deployments.apps":"1","count/a_b.x":"1","count/a..b":"1","count/*":"1","count/LONG.x":"1",
        "count/widgets.x.y":"1","configmaps":"1","pods":"1"}}}"#;
    let quota = quota.replace("LONG", &"l".repeat(253));
    let limits = quotas.alive("ADDED", &quota).unwrap().limits;
    let names: Vec<_> = limits.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["configmaps", "widgets.x.y"]);
}

/// A quarter of a megabyte is what an API server allows, and its JSON can have six times as many bytes.
fn annotations() -> String {
    let long = "\\u0001".repeat(256 * 1024);
    format!(r#""annotations":{{"short":"s","long":"{long}","quota-ledger.io/soft":"SOFT"}}"#)
}

#[test]
fn long_annotations_are_not_published() {
    let identity = r#""name":"q","uid":"u","resourceVersion":"7""#;
    let soft = "x".repeat(300);
    let annotations = annotations().replace("SOFT", &soft);
    for (group, resource, kind) in [
        ("", "resourcequotas", "ResourceQuota"),
        ("quota.openshift.io", "clusterresourcequotas", "ClusterResourceQuota"),
        ("", "namespaces", "Namespace"),
    ] {
        let reader = reader(group, resource, kind);
        let json =
            format!(r#"{{"metadata":{{{identity},"namespace":"a",{annotations}}},"spec":{{}}}}"#);
        let alive = reader.alive("ADDED", &json).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
        let kept = &line["object"]["metadata"]["annotations"];
        assert_eq!(kept["short"], "s", "{resource}");
        assert!(kept["long"].is_null(), "{resource}");
        let is_kept = resource != "namespaces";
        assert_eq!(kept["quota-ledger.io/soft"] == soft.as_str(), is_kept, "{resource}");
        assert!(alive.line.len() < 1024, "{resource}");
        let deleted = reader.deleted(&json).unwrap();
        assert!(deleted.line.len() < 256, "{resource}: {}", deleted.line.len());
    }
}

/// A thousand short annotations take more than a message as well.
#[test]
fn annotations_that_are_many_do_not_make_an_object_too_long() {
    let value = "\\u0001".repeat(250);
    let many: Vec<_> = (0..1000).map(|number| format!(r#""a{number}":"{value}""#)).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"q","namespace":"a","uid":"u","resourceVersion":"7","annotations":{{{}}}}},"spec":{{}}}}"#,
        many.join(",")
    );
    for (resource, kind) in [("resourcequotas", "ResourceQuota"), ("namespaces", "Namespace")] {
        let alive = reader("", resource, kind).alive("ADDED", &json);
        assert!(alive.is_ok_and(|alive| alive.line.len() < 1024), "{resource}");
    }
}

/// Labels have no bound but that of the whole object. Those of a quota decide nothing.
#[test]
fn a_quota_with_too_much_metadata_is_published_without_it() {
    let many: Vec<_> =
        (0..10_000).map(|number| format!(r#""{}{number}":"x""#, "l".repeat(100))).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"q","namespace":"a","uid":"u","labels":{{{}}},
            "annotations":{{"quota-ledger.io/soft":"s","x":"y"}}}},"spec":{{"hard":{{"pods":"1"}}}}}}"#,
        many.join(",")
    );
    let alive = reader("", "resourcequotas", "ResourceQuota").alive("ADDED", &json);
    assert_eq!(
        text(&alive.unwrap().line),
        r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"annotations":{"quota-ledger.io/soft":"s"},"name":"q","namespace":"a","uid":"u"},"spec":{"hard":{"pods":"1"}}}}"#
    );
}

#[test]
fn a_group_is_kept_as_a_quota_is() {
    let groups = reader("quota.openshift.io", "clusterresourcequotas", "ClusterResourceQuota");
    let group = r#"{"metadata":{"name":"red","uid":"u","resourceVersion":"7","annotations":{"x":"y"},"managedFields":[{}]},
        "spec":{"selector":{"labels":{"matchLabels":{"team":"red"}}},"quota":{"hard":{"pods":"1","count/widgets.x":"2"}}},
        "status":{"total":{"used":{"pods":"1"}}}}"#;
    let alive = groups.alive("ADDED", group).unwrap();
    assert_eq!(alive.limits, [GroupResource::new("x", "widgets")]);
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","object":{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota","metadata":{"annotations":{"x":"y"},"name":"red","resourceVersion":"7","uid":"u"},"spec":{"selector":{"labels":{"matchLabels":{"team":"red"}}},"quota":{"hard":{"pods":"1","count/widgets.x":"2"}}}}}"#
    );
    let of = |from: &str, to: &str| {
        let changed = group.replace(from, to);
        groups.alive("MODIFIED", &changed).unwrap().fingerprint
    };
    assert_eq!(of(r#""used":{"pods":"1"}"#, ""), alive.fingerprint);
    assert_ne!(of(r#""pods":"1","count"#, r#""pods":"2","count"#), alive.fingerprint);
    assert_eq!(
        text(&groups.deleted(group).unwrap().line),
        r#"{"type":"DELETED","object":{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota","metadata":{"name":"red","uid":"u","resourceVersion":"7"}}}"#
    );
    assert!(!groups.needs_metadata_only());
    for wrong in ["{}", r#"{"metadata":{"name":"","uid":"u"},"spec":{}}"#] {
        assert!(groups.alive("ADDED", wrong).is_err(), "{wrong}");
    }
}

/// A quota or group with this spec, and the spec that is published of it.
fn published_spec(resource: &str, spec: &str) -> (Alive, serde_json::Value) {
    let reader = match resource {
        "resourcequotas" => reader("", resource, "ResourceQuota"),
        _ => reader("quota.openshift.io", resource, "ClusterResourceQuota"),
    };
    let json = format!(r#"{{"metadata":{{"name":"q","namespace":"a","uid":"u"}},"spec":{spec}}}"#);
    let alive = reader.alive("ADDED", &json).unwrap();
    let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
    (alive, line["object"]["spec"].clone())
}

/// The ledger rejects such an amount, and no list with a rejected object is complete.
#[test]
fn amounts_that_are_no_quantities_are_left_out() {
    let hard = r#""hard":{"pods":"ten","memory":"10 Gi","count/secrets":"","cpu":"0.50","count/configmaps":2,
        "services":{},"storage":true}"#;
    let quota = format!(r#"{{{hard},"scopes":["Terminating"]}}"#);
    let group = format!(r#"{{"selector":{{"annotations":{{"a":"b"}}}},"quota":{{{hard}}}}}"#);
    for (resource, spec, expected) in [
        (
            "resourcequotas",
            &quota,
            r#"{"hard":{"cpu":"500m","count/configmaps":"2"},"scopes":["Terminating"]}"#,
        ),
        (
            "clusterresourcequotas",
            &group,
            r#"{"selector":{"annotations":{"a":"b"}},"quota":{"hard":{"cpu":"500m","count/configmaps":"2"}}}"#,
        ),
    ] {
        let (alive, published) = published_spec(resource, spec);
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(published, expected, "{resource}");
        assert_eq!(alive.limits, [GroupResource::new("", "configmaps")]);
        let lacks = alive.lacks.unwrap();
        assert!(lacks.starts_with("5 of its limits: "), "{lacks}");
    }
}

/// Another definition of the kind may allow anything.
#[test]
fn a_spec_that_the_ledger_cannot_read_is_left_out() {
    for (resource, spec) in [
        ("resourcequotas", r#"{"hard":7}"#),
        ("resourcequotas", r#"{"hard":{"pods":"1"},"scopes":7}"#),
        ("clusterresourcequotas", "7"),
        ("clusterresourcequotas", r#"{"selector":[7],"quota":{"hard":{"pods":"ten"}}}"#),
        ("clusterresourcequotas", r#"{"quota":{"hard":{"$serde_json::private::RawValue":"1"}}}"#),
    ] {
        let (alive, published) = published_spec(resource, spec);
        assert_eq!(published, serde_json::json!({}), "{spec}");
        assert!(alive.limits.is_empty(), "{spec}");
        let lacks = alive.lacks.unwrap();
        assert!(lacks.starts_with("its limits: "), "{lacks}");
    }
}
