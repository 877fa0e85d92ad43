use super::*;

fn errors(json: &str) -> Vec<String> {
    let manifest = Manifest::from_json(json.as_bytes()).unwrap();
    let errors = validate_create(&manifest);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn openshifts_manifests_are_taken_as_they_are() {
    let manifest = r#"{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota",
        "metadata":{"name":"for-user"},"spec":{"quota":{"hard":{"pods":"10","secrets":"20"}},
        "selector":{"annotations":{"openshift.io/requester":"alice"},"labels":null}},
        "status":{"namespaces":null,"total":{}}}"#;
    assert_eq!(errors(manifest), Vec::<String>::new());
    let other = r#"{"apiVersion":"v1","kind":"ResourceQuota"}"#;
    assert!(Manifest::from_json(other.as_bytes()).is_err());
    assert!(Manifest::from_json(br#"{"spec":{"selector":[]}}"#).is_err());
}

#[test]
fn every_error_is_told_with_its_field() {
    let manifest = r#"{"metadata":{"name":"G","namespace":"n","annotations":{
            "quota-ledger.io/each":"true","quota-ledger.io/parent":"p","quota-ledger.io/what":"",
            "quota-ledger.io/guaranteed":"{\"pods\":\"11\",\"nonsense\":\"1\"}",
            "quota-ledger.io/soft":"{\"pods\":\"12\"}",
            "quota-ledger.io/objects":"{}",
            "quota-ledger.io/override":"{\"hard\":{\"services\":\"1\"},\"until\":\"2027-01-01T00:00:00Z\"}"}},
        "spec":{"quota":{"hard":{"pods":"10","secrets":"-1","foo":"1"},"scopes":["Whatever"]},
        "selector":{"annotations":{"":"x"},"labels":{"matchExpressions":[
            {"key":"!","operator":"In"},{"key":"k","operator":"Near"},{"key":"k","operator":"Exists","values":["v"]}]}}}}"#;
    let errors = errors(manifest);
    for expected in [
        "metadata.name: Invalid value: \"G\": a lowercase RFC 1123 subdomain",
        "metadata.namespace: Forbidden: not allowed on this type",
        "metadata.annotations[quota-ledger.io/what]: Forbidden: not supported here",
        "spec.selector.labels.matchExpressions[0].values: Required value",
        "spec.selector.labels.matchExpressions[0].key: Invalid value: \"!\"",
        "spec.selector.labels.matchExpressions[1].operator: Invalid value: \"Near\"",
        "spec.selector.labels.matchExpressions[2].values: Forbidden",
        "spec.selector.annotations: Invalid value: \"\"",
        "spec.quota.hard[secrets]: Invalid value: \"-1\"",
        "spec.quota.hard[foo]: Invalid value: \"foo\": must be a standard resource type",
        "spec.quota.scopes: Invalid value: [\"Whatever\"]: unsupported scope",
        "metadata.annotations[quota-ledger.io/guaranteed][pods]: Invalid value: \"11\": the guarantee must not be above",
        "metadata.annotations[quota-ledger.io/guaranteed][nonsense]: Invalid value",
        "metadata.annotations[quota-ledger.io/soft][pods]: Invalid value: \"12\"",
        "metadata.annotations[quota-ledger.io/override].hard[services]: Invalid value: \"1\"",
        "metadata.annotations[quota-ledger.io/objects]: Required value: must select some objects",
        "metadata.annotations[quota-ledger.io/parent]: Forbidden",
        "metadata.annotations[quota-ledger.io/guaranteed]: Forbidden",
    ] {
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{expected}\n{errors:#?}");
    }
}

#[test]
fn fields_are_called_as_they_are_written() {
    for (field, typed) in [
        ("metadata.annotations[quota-ledger.io/guaranteed][pods]", "guaranteed[pods]"),
        ("metadata.annotations[quota-ledger.io/parent]", "parent"),
        ("spec.quota.hard[pods]", "hard[pods]"),
        ("spec.selector.labels", "selector.labels"),
        ("metadata.name", "metadata.name"),
    ] {
        assert_eq!(typed_field(field), typed);
    }
}

#[test]
fn what_is_kept_of_the_stored_group_counts_as_its_metadata() {
    let with = |annotation: usize, owners: usize| {
        let owner = |number: usize| {
            let name = format!("{number:0300}");
            serde_json::json!({"apiVersion": "v1", "kind": "Team", "name": name, "uid": "u"})
        };
        let owners: Vec<_> = (0..owners).map(owner).collect();
        let manifest = serde_json::json!({
            "metadata": {
                "name": "g", "resourceVersion": "1", "ownerReferences": owners,
                "annotations": {"a": "x".repeat(annotation)},
            },
            "spec": {
                "selector": {"labels": {"matchLabels": {"team": "a"}}},
                "quota": {"hard": {"pods": "1"}},
            },
        });
        Manifest::from_json(manifest.to_string().as_bytes()).unwrap()
    };
    // All of the metadata may have 512 KiB.
    for (annotation, expected) in [(10_000, None), (250_000, Some("metadata"))] {
        let (mut new, old) = (with(annotation, 0), with(0, 1000));
        let mut checked = Checked::of(&new);
        checked.keep_owners_and_finalizers(&mut new.metadata, &old.metadata);
        assert_eq!(new.metadata, with(annotation, 1000).metadata);
        let errors = checked.update(&new, &old).err().unwrap_or_default();
        assert_eq!(errors, validate_update(&new, &old));
        assert_eq!(errors.first().map(|error| &*error.field), expected);
    }
}
