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
    for json in [r#"{"kind":"Pod"}"#, r#"{"apiVersion":"v2","kind":"ResourceQuota"}"#] {
        assert!(matches!(Manifest::from_json(json.as_bytes()), Err(DecodeError::OtherKind { .. })));
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
            matches!(Manifest::from_json(json.as_bytes()), Err(DecodeError::Json(_))),
            "{json}"
        );
    }
    for json in [
        "[]",
        r#"{"spec":[]}"#,
        r#"{"spec":{"scopeSelector":{"matchExpressions":[["PriorityClass","In",["a"]]]}}}"#,
    ] {
        assert!(
            matches!(Manifest::from_json(json.as_bytes()), Err(DecodeError::Shape(_))),
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
    let errors = metadata_errors(&format!(r#"{{"name":"{}","namespace":"a.b"}}"#, "a".repeat(254)));
    assert!(errors[0].ends_with("must be no more than 253 bytes"), "{errors:?}");
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
    let mut new =
        manifest(r#"{"name":"q","namespace":"a"}"#, r#"{"scopes":["BestEffort","BestEffort"]}"#);
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
    let names: Vec<_> = (0..5_000).map(|number| format!(r#""hugepages-{number}":"1""#)).collect();
    let names = names.join(",");
    let selector =
        |expressions: String| format!(r#""scopeSelector":{{"matchExpressions":[{expressions}]}}"#);
    let values = list(r#""!""#, 50_000);
    let expression =
        format!(r#"{{"scopeName":"PriorityClass","operator":"In","values":[{values}]}}"#);
    let one = selector(expression);
    let many = selector(list(r#"{"scopeName":"BestEffort","operator":"Exists"}"#, 100));
    let owners = list(r#"{"controller":true}"#, 50_000);
    for (metadata, spec) in [
        ("{}".to_owned(), format!(r#"{{"scopes":[{}]}}"#, list(r#""a""#, 200_000))),
        (
            "{}".to_owned(),
            format!(r#"{{"scopes":[{}],"hard":{{{names}}}}}"#, list(r#""BestEffort""#, 100)),
        ),
        ("{}".to_owned(), format!(r#"{{{many},"hard":{{{names}}}}}"#)),
        ("{}".to_owned(), format!("{{{one}}}")),
        (format!(r#"{{"ownerReferences":[{owners}]}}"#), "{}".to_owned()),
    ] {
        let errors = validate_create(&manifest(&metadata, &spec));
        let bytes: usize = messages(&errors).iter().map(String::len).sum();
        assert!(!errors.is_empty() && bytes < 2 << 20, "{bytes}");
    }
    // A cluster may have stored it. It is matched with each pod.
    let stored = manifest("{}", &format!("{{{one}}}"));
    let spec = Spec { selector: stored.spec.selector, ..Spec::default() };
    let pod = crate::object::Traits::Pod(crate::object::PodTraits::default());
    assert!(crate::quota::scopes::matches(&spec, &pod).is_err());
}

/// The bytes of the messages about a new quota, of which there must be some, but no more than can be read.
fn bounded(metadata: &str, spec: &str) -> (usize, Vec<String>) {
    let errors = messages(&validate_create(&manifest(metadata, spec)));
    let bytes = errors.iter().map(String::len).sum();
    assert!(!errors.is_empty());
    assert!(errors.len() <= 100, "{} errors: {:.200}", errors.len(), errors[0]);
    assert!(bytes <= 80 << 10, "{bytes} bytes: {:.200}", errors[0]);
    (bytes, errors)
}

fn named(rest: &str) -> String {
    format!(r#"{{"name":"q","namespace":"a",{rest}}}"#)
}

/// A map with this many keys, of which each ends in its number.
fn map(count: usize, key: &str, value: &str) -> String {
    let entry = |number| format!(r#""{key}{number:0>5}":{value}"#);
    (0..count).map(entry).collect::<Vec<_>>().join(",")
}

#[test]
fn errors_are_bounded_whatever_is_wrong() {
    let list = |item: &str, count: usize| vec![item; count].join(",");
    let annotation = |key: &str, value: String| {
        let value = serde_json::to_string(&value).unwrap();
        named(&format!(r#""annotations":{{"quota-ledger.io/{key}":{value}}}"#))
    };
    let wrong = map(20_000, "-", r#""-1""#);
    for (metadata, spec) in [
        (named(&format!(r#""finalizers":[{}]"#, list(r#""""#, 20_000))), "{}".to_owned()),
        (named(&format!(r#""finalizers":[{}]"#, list(r#""""#, 900))), "{}".to_owned()),
        (named(&format!(r#""labels":{{{wrong}}}"#)), "{}".to_owned()),
        (named(&format!(r#""labels":{{{}}}"#, map(900, "-", r#""-""#))), "{}".to_owned()),
        (named(&format!(r#""annotations":{{{wrong}}}"#)), "{}".to_owned()),
        (
            named(&format!(r#""annotations":{{{}}}"#, map(20_000, "quota-ledger.io/x", r#""""#))),
            "{}".to_owned(),
        ),
        (named(r#""labels":{}"#), format!(r#"{{"hard":{{{wrong}}}}}"#)),
        (annotation("soft", format!("{{{wrong}}}")), "{}".to_owned()),
        (
            annotation(
                "override",
                format!(r#"{{"hard":{{{wrong}}},"until":"2027-01-01T00:00:00Z"}}"#),
            ),
            "{}".to_owned(),
        ),
        (named(&format!(r#""ownerReferences":[{}]"#, list("{}", 1000))), "{}".to_owned()),
    ] {
        bounded(&metadata, &spec);
    }
}

#[test]
fn after_the_errors_that_are_shown_it_is_said_that_there_are_more() {
    let hard = |count| format!(r#"{{"hard":{{{}}}}}"#, map(count, "x", "1"));
    let (_, all) = bounded(&named(r#""labels":{}"#), &hard(50));
    assert_eq!(all.len(), 100, "each name has two errors");
    assert!(all[99].ends_with(": must be a standard resource for quota"));
    let (_, some) = bounded(&named(r#""labels":{}"#), &hard(51));
    assert_eq!(some[..99], all[..99]);
    assert_eq!(
        some[99..],
        ["spec.hard[x00050]: Invalid value: there are further errors, which are not shown"]
    );
}

#[test]
fn what_is_long_is_shown_in_part() {
    let long = "x".repeat(200_000);
    let quotes = "\\\"".repeat(50_000);
    for (metadata, spec) in [
        (format!(r#"{{"name":"{long}","namespace":"{quotes}"}}"#), "{}".to_owned()),
        (named(&format!(r#""labels":{{"{long}":"{long}"}}"#)), "{}".to_owned()),
        (
            named(&format!(
                r#""annotations":{{"quota-ledger.io/{long}":"","quota-ledger.io/soft":"{{{quotes}"}}"#
            )),
            "{}".to_owned(),
        ),
        (named(&format!(r#""finalizers":["{long}","{quotes}"]"#)), "{}".to_owned()),
        (named(r#""labels":{}"#), format!(r#"{{"hard":{{"{long}":"-1"}}}}"#)),
        (
            named(r#""labels":{}"#),
            format!(r#"{{"scopes":["{long}","BestEffort","NotBestEffort"]}}"#),
        ),
    ] {
        let (_, errors) = bounded(&metadata, &spec);
        // A field, a value and an explanation.
        let longest = errors.iter().map(String::len).max();
        assert!(longest.unwrap() <= 3 * 4200, "{longest:?}");
        assert!(errors.iter().any(|error| error.contains('…')));
    }
}

/// Each further controller would repeat the name of the first, and show all owners.
#[test]
fn a_second_controller_is_told_once() {
    let first = format!(
        r#"{{"apiVersion":"v1","kind":"A","name":"{}","uid":"1","controller":true}}"#,
        "n".repeat(50_000)
    );
    let rest =
        vec![r#"{"apiVersion":"v1","kind":"B","name":"b","uid":"2","controller":true}"#; 999];
    let owners = format!("{first},{}", rest.join(","));
    let (bytes, errors) = bounded(&named(&format!(r#""ownerReferences":[{owners}]"#)), "{}");
    assert_eq!(errors.len(), 1);
    assert!(bytes < 3 * 4200, "{bytes}");
    assert!(errors[0].contains("Only one reference can have Controller set to true."));
}

#[test]
fn new_finalizers_of_a_deleted_quota_are_told_in_part() {
    let metadata = named(r#""resourceVersion":"5","deletionTimestamp":"2024-05-01T12:00:00Z""#);
    let old = manifest(&metadata, "{}");
    let mut new = old.clone();
    new.metadata.finalizers = (0..900).map(|n| format!("a.b/{n:0>60}")).collect();
    let errors = messages(&validate_update(&new, &old));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].len() < 4200, "{}", errors[0].len());
}

#[test]
fn metadata_is_bounded_as_a_whole() {
    let too_long = ["metadata: Too long: may not be more than 524288 bytes"];
    let of = |bytes: usize, rest: &str| {
        let name = "n".repeat(bytes);
        let owner = format!(r#"{{"apiVersion":"v1","kind":"A","name":"{name}","uid":"1"}}"#);
        let rest = format!(r#""resourceVersion":"1","ownerReferences":[{owner}]{rest}"#);
        manifest(&named(&rest), "{}")
    };
    let created = |quota: &Manifest| messages(&validate_create(quota));
    assert_eq!(created(&of(524_000, "")), [""; 0]);
    assert_eq!(created(&of(524_288, "")), too_long);
    // All parts count.
    for rest in [
        format!(r#","labels":{{{}}}"#, map(40, "x", r#""y""#)),
        format!(r#","annotations":{{"x":"{}"}}"#, "y".repeat(300)),
        format!(r#","finalizers":[{}]"#, vec![r#""x/y""#; 60].join(",")),
        format!(r#","managedFields":[{{"manager":"{}"}}]"#, "y".repeat(300)),
    ] {
        assert_eq!(created(&of(524_000, &rest)), too_long, "{rest}");
        assert_eq!(created(&of(523_000, &rest)), [""; 0]);
    }
    // What has more, since a cluster has stored it, need not become less.
    let (less, much, more) = (of(529_999, ""), of(530_000, ""), of(530_001, ""));
    assert_eq!(validate_update(&much, &much), []);
    assert_eq!(validate_update(&less, &much), []);
    assert_eq!(messages(&validate_update(&more, &much)), too_long);
    assert_eq!(messages(&validate_update(&much, &of(1, ""))), too_long);
    // The managed fields are known last.
    let mut managed = of(524_000, "");
    managed.metadata.managed_fields = vec![serde_json::json!({"manager": "y".repeat(300)})];
    let error = too_large(&managed.metadata, None);
    assert_eq!(messages(&Vec::from_iter(error)), too_long);
}

#[test]
fn lists_of_metadata_have_so_many_items() {
    let finalizers = vec![r#""""#; 1001].join(",");
    let labels = map(1001, "-", r#""""#);
    let metadata = named(&format!(r#""finalizers":[{finalizers}],"labels":{{{labels}}}"#));
    assert_eq!(
        metadata_errors(&metadata),
        [
            "metadata.labels: Invalid value: 1001: must have at most 1000 items",
            "metadata.finalizers: Invalid value: 1001: must have at most 1000 items"
        ]
    );
}

/// A manifest is checked before it is known whether it is new.
#[test]
fn what_is_checked_beforehand_is_told_alike() {
    let metadata = named(r#""resourceVersion":"5","finalizers":["x"],"labels":{"-":""}"#);
    let new = manifest(&metadata, r#"{"hard":{"pods":"-1"},"scopes":["Terminating"]}"#);
    let old = manifest(&named(r#""resourceVersion":"4","uid":"u""#), "{}");
    let checked = Checked::of(&new);
    let mut later = new.clone();
    later.metadata.generation = 0;
    later.metadata.managed_fields = vec![serde_json::json!({"manager": "m"})];
    later.inherit(&old);
    let updated = validate_update(&later, &old);
    assert_eq!(updated.len(), 4, "{updated:?}");
    assert_eq!(checked.update(&later, &old), updated);
    assert_eq!(Checked::of(&new).create(&later), validate_create(&later));
}
