use super::*;
use crate::quota::manifest::DecodeError;

fn manifest(metadata: &str, spec: &str) -> Manifest {
    let json = format!(r#"{{"kind":"ResourceQuota","metadata":{metadata},"spec":{spec}}}"#);
    Manifest::from_json(json.as_bytes()).unwrap()
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The errors of a quota that has only metadata.
fn metadata_errors(metadata: &str) -> Vec<String> {
    messages(&validate_create(&manifest(metadata, "{}")))
}

#[test]
fn null_is_absent_and_unknown_fields_are_passed_over() {
    let quota = manifest(
        r#"{"name":"q","labels":{"a":null},"annotations":null,"creationTimestamp":null,"selfLink":"/q"}"#,
        r#"{"hard":{"cpu":null,"memory":0.0001},"scopes":null,"scopeSelector":null,"soft":{}}"#,
    );
    assert_eq!(quota.metadata.labels["a"], "");
    assert_eq!(quota.spec.hard.pretty(), "cpu=0,memory=1m");
    assert_eq!(quota.api_version, "v1");
    let again = Manifest::from_json(&serde_json::to_vec(&quota).unwrap()).unwrap();
    assert_eq!(again, quota);
}

#[test]
fn other_kinds_and_broken_fields_do_not_decode() {
    for json in [
        r#"{"kind":"Pod"}"#,
        r#"{"apiVersion":"v2","kind":"ResourceQuota"}"#,
    ] {
        assert!(matches!(
            Manifest::from_json(json.as_bytes()),
            Err(DecodeError::OtherKind { .. })
        ));
    }
    for json in [
        "",
        r#"{"metadata":{"name":1}}"#,
        r#"{"metadata":{"labels":{"a":1}}}"#,
        r#"{"metadata":{"creationTimestamp":"now"}}"#,
        r#"{"spec":{"hard":["cpu"]}}"#,
        r#"{"spec":{"scopeSelector":{"matchExpressions":{}}}}"#,
        r#"{"status":{"used":{"cpu":"x"}}}"#,
    ] {
        assert!(
            matches!(
                Manifest::from_json(json.as_bytes()),
                Err(DecodeError::Json(_))
            ),
            "{json}"
        );
    }
    for json in [
        "[]",
        r#"{"spec":[]}"#,
        r#"{"spec":{"scopeSelector":{"matchExpressions":[["PriorityClass","In",["a"]]]}}}"#,
    ] {
        assert!(
            matches!(
                Manifest::from_json(json.as_bytes()),
                Err(DecodeError::Shape(_))
            ),
            "{json}"
        );
    }
}

#[test]
fn names_and_namespaces_are_needed_and_checked() {
    assert_eq!(metadata_errors(r#"{"name":"q","namespace":"a"}"#), [""; 0]);
    assert_eq!(
        metadata_errors("{}"),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value"
        ]
    );
    let errors = metadata_errors(&format!(
        r#"{{"name":"{}","namespace":"a.b"}}"#,
        "a".repeat(254)
    ));
    assert!(
        errors[0].ends_with("must be no more than 253 bytes"),
        "{errors:?}"
    );
    assert!(
        errors[1]
            .starts_with(r#"metadata.namespace: Invalid value: "a.b": a lowercase RFC 1123 label"#)
    );
    let errors =
        metadata_errors(r#"{"name":"q","namespace":"a","generateName":"Q-","generation":-1}"#);
    assert!(errors[0].starts_with(r#"metadata.generateName: Invalid value: "Q-": a lowercase"#));
    assert_eq!(
        errors[1],
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0"
    );
}

#[test]
fn annotations_finalizers_and_owners_are_checked() {
    let errors = metadata_errors(
        r#"{"name":"q","namespace":"a","annotations":{"Example.com/a":"any ü","b c":""},
        "finalizers":["mine","a.b/c","orphan","foregroundDeletion"],
        "ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"e","uid":"1","controller":true},
        {"apiVersion":"apps/","kind":"X","name":"x","controller":true}]}"#,
    );
    let expected = [
        r#"metadata.annotations: Invalid value: "b c": name part must consist"#,
        r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"1","controller":true}: /v1, Kind=Event is disallowed"#,
        r#"metadata.ownerReferences.apiVersion: Invalid value: "apps/": version must not be empty"#,
        r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#,
        "metadata.ownerReferences: Invalid value: [",
        r#"metadata.finalizers[0]: Invalid value: "mine": name is neither"#,
        r#"metadata.finalizers: Invalid value: ["mine","a.b/c","orphan","foregroundDeletion"]: finalizer foregroundDeletion and orphan cannot be both set"#,
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error}");
    }
    let big = format!(
        r#"{{"name":"q","namespace":"a","annotations":{{"a":"{}"}}}}"#,
        "x".repeat(256 << 10)
    );
    assert_eq!(
        metadata_errors(&big),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn what_an_update_leaves_out_is_inherited_and_what_it_may_not_change_is_refused() {
    let time = "2024-05-01T12:00:00Z";
    let old = manifest(
        &format!(
            r#"{{"name":"q","namespace":"a","uid":"1","resourceVersion":"5","creationTimestamp":"{time}"}}"#
        ),
        r#"{"scopes":["BestEffort"]}"#,
    );
    let mut new = manifest(
        r#"{"name":"q","namespace":"a"}"#,
        r#"{"scopes":["BestEffort","BestEffort"]}"#,
    );
    assert_eq!(
        messages(&validate_update(&new, &old)),
        [
            r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#,
            r#"metadata.uid: Invalid value: "": field is immutable"#,
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
        ]
    );
    new.inherit(&old);
    assert_eq!(validate_update(&new, &old), []);
    new.metadata.uid = "2".to_owned();
    assert_eq!(
        messages(&validate_update(&new, &old)),
        [r#"metadata.uid: Invalid value: "2": field is immutable"#]
    );
}

#[test]
fn nothing_is_finalized_anew_while_it_is_deleted() {
    let old = manifest(
        r#"{"name":"q","namespace":"a","resourceVersion":"5","deletionTimestamp":"2024-05-01T12:00:00Z"}"#,
        "{}",
    );
    let mut new = old.clone();
    new.metadata.finalizers = vec!["a.b/c".to_owned()];
    let errors = validate_update(&new, &old);
    assert_eq!(errors[0].kind.reason(), "FieldValueForbidden");
    assert_eq!(
        errors[0].to_string(),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
         found new finalizers []string{\"a.b/c\"}"
    );
}

#[test]
fn a_status_without_a_version_is_refused_twice() {
    let old = manifest(r#"{"name":"q","namespace":"a"}"#, "{}");
    assert_eq!(
        messages(&validate_status_update(&old, &old)),
        [
            r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#,
            "resourceVersion: Required value",
        ]
    );
}

/// Each error about scopes or owners shows all of them.
#[test]
fn errors_about_long_lists_are_few_and_short() {
    let list = |item: &str, count: usize| vec![item; count].join(",");
    let names: Vec<_> = (0..5_000)
        .map(|number| format!(r#""hugepages-{number}":"1""#))
        .collect();
    let names = names.join(",");
    let selector =
        |expressions: String| format!(r#""scopeSelector":{{"matchExpressions":[{expressions}]}}"#);
    let values = list(r#""!""#, 50_000);
    let expression =
        format!(r#"{{"scopeName":"PriorityClass","operator":"In","values":[{values}]}}"#);
    let one = selector(expression);
    let many = selector(list(
        r#"{"scopeName":"BestEffort","operator":"Exists"}"#,
        100,
    ));
    let owners = list(r#"{"controller":true}"#, 50_000);
    for (metadata, spec) in [
        (
            "{}".to_owned(),
            format!(r#"{{"scopes":[{}]}}"#, list(r#""a""#, 200_000)),
        ),
        (
            "{}".to_owned(),
            format!(
                r#"{{"scopes":[{}],"hard":{{{names}}}}}"#,
                list(r#""BestEffort""#, 100)
            ),
        ),
        ("{}".to_owned(), format!(r#"{{{many},"hard":{{{names}}}}}"#)),
        ("{}".to_owned(), format!("{{{one}}}")),
        (
            format!(r#"{{"ownerReferences":[{owners}]}}"#),
            "{}".to_owned(),
        ),
    ] {
        let errors = validate_create(&manifest(&metadata, &spec));
        let bytes: usize = messages(&errors).iter().map(String::len).sum();
        assert!(!errors.is_empty() && bytes < 2 << 20, "{bytes}");
    }
    // A cluster may have stored it. It is matched with each pod.
    let stored = manifest("{}", &format!("{{{one}}}"));
    let spec = Spec {
        selector: stored.spec.selector,
        ..Spec::default()
    };
    let pod = crate::object::Traits::Pod(crate::object::PodTraits::default());
    assert!(crate::quota::scopes::matches(&spec, &pod).is_err());
}
