mod quotas;

use quota_semantics::object::Footprint;

use super::{Bookmark, *};

fn reader(group: &str, resource: &str, kind: &str) -> Reader {
    reader_by(group, resource, kind, Charging::default())
}

fn reader_by(group: &str, resource: &str, kind: &str, charging: Charging) -> Reader {
    let served = Served {
        resource: GroupResource::new(group, resource),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        aggregated: false,
    };
    Reader::new(&served, charging)
}

fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap()
}

const POD: &str = r#"{"metadata":{"name":"p","namespace":"a","uid":"u","resourceVersion":"7","labels":{"x":"y"},
    "managedFields":[{}]},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m"}}}]},
    "status":{"phase":"Running","podIP":"1.2.3.4"}}"#;

#[test]
fn a_pod_is_pruned_to_what_counts() {
    let alive = reader("", "pods", "Pod").alive("ADDED", POD).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","uid":"u","resourceVersion":"7"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"100m"}}}]},"status":{"phase":"Running"}}}"#
    );
    assert_eq!(alive.version, 7);
}

#[test]
fn the_fingerprint_changes_with_what_counts() {
    let pods = reader("", "pods", "Pod");
    let of = |json: &str| pods.alive("MODIFIED", json).unwrap().fingerprint;
    let with = |from: &str, to: &str| of(&POD.replacen(from, to, 1));
    let before = of(POD);
    for (from, to) in [("\"7\"", "\"8\""), ("\"y\"", "\"z\""), ("1.2.3.4", "1.2.3.5")] {
        assert_eq!(with(from, to), before, "{to}");
    }
    for (from, to) in [
        ("100m", "200m"),
        ("Running", "Succeeded"),
        ("\"x\"", "\"pod-template-hash\""),
        (
            "\"uid\"",
            r#""deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":3,"uid""#,
        ),
        ("\"uid\"", r#""ownerReferences":[{"kind":"ReplicaSet","controller":true}],"uid""#),
    ] {
        assert_ne!(with(from, to), before, "{to}");
    }
}

#[test]
fn of_a_namespace_is_kept_what_groups_choose_by() {
    let namespaces = reader("", "namespaces", "Namespace");
    let namespace = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{"team":"red"},
        "annotations":{"owner":"ann","long":"LONG"},"managedFields":[{}]},"status":{"phase":"Active"}}"#;
    let namespace = namespace.replace("LONG", &"x".repeat(257));
    let alive = namespaces.alive("ADDED", &namespace).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"annotations":{"owner":"ann"},"labels":{"team":"red"},"name":"a","resourceVersion":"7","uid":"u"}}}"#
    );
    let of = |json: &str| namespaces.alive("MODIFIED", json).unwrap().fingerprint;
    assert_eq!(of(&namespace.replace("\"7\"", "\"8\"")), alive.fingerprint);
    assert_ne!(of(&namespace.replace("red", "blue")), alive.fingerprint);
    let deleted = namespaces.deleted(&namespace).unwrap();
    assert_eq!(
        text(&deleted.line),
        r#"{"type":"DELETED","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","uid":"u","resourceVersion":"7"}}}"#
    );
    assert!(namespaces.is_list("PartialObjectMetadataList"));
}

#[test]
fn other_kinds_are_plain_and_so_are_deletions() {
    let widgets = reader("x.y", "widgetry", "Widget");
    let widget = r#"{"metadata":{"name":"w","namespace":"a","uid":"u","resourceVersion":"7"}}"#;
    let alive = widgets.alive("ADDED", widget).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","namespace":"a","resource":"widgetry.x.y","name":"w","uid":"u","resourceVersion":"7"}"#
    );
    let deleted = reader("", "pods", "Pod").deleted(POD).unwrap();
    assert_eq!(
        text(&deleted.line),
        r#"{"type":"DELETED","namespace":"a","resource":"pods","uid":"u","resourceVersion":"7"}"#
    );
    assert!(widgets.is_list("WidgetList") && widgets.is_list("PartialObjectMetadataList"));
    assert!(!widgets.is_list("PodList") && !reader("", "pods", "Pod").is_list("Status"));
}

/// API servers take any name of a role.
#[test]
fn a_name_of_any_length_is_published_in_its_short_form() {
    let labels = Charging::default().with_object_labels(["x"]);
    for charging in [Charging::default(), labels] {
        let roles = reader_by("rbac.authorization.k8s.io", "roles", "Role", charging);
        for name in [controls(180_000), "x".repeat(2 << 20), controls(1)] {
            let role = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"7"}}}}"#
            );
            let alive = roles.alive("ADDED", &role).unwrap();
            let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
            let shown = match &line["object"]["metadata"] {
                serde_json::Value::Null => &line["name"],
                metadata => &metadata["name"],
            };
            let shown = shown.as_str().unwrap();
            assert!(shown.contains('~') && short_name(shown).is_none(), "{shown}");
            let deleted = roles.deleted(&role).unwrap();
            assert!(deleted.line.len() < 200, "{}", deleted.line.len());
        }
    }
}

#[test]
fn labels_that_groups_choose_by_are_shown() {
    let labels = || Charging::default().with_object_labels(["x"]);
    let widgets = reader_by("x.y", "widgetry", "Widget", labels());
    let widget = r#"{"metadata":{"name":"w","namespace":"a","uid":"u","resourceVersion":"7","labels":{"x":"y","z":"z"}},"spec":{}}"#;
    let alive = widgets.alive("ADDED", widget).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","resource":"widgetry.x.y","object":{"apiVersion":"x.y/v1","kind":"Widget","metadata":{"name":"w","namespace":"a","uid":"u","resourceVersion":"7","labels":{"x":"y"}}}}"#
    );
    assert!(widgets.needs_metadata_only());
    let pods = reader_by("", "pods", "Pod", labels());
    let of = |json: &str| pods.alive("ADDED", json).unwrap();
    assert!(text(&of(POD).line).contains(r#""labels":{"x":"y"}"#));
    assert_ne!(of(&POD.replace("\"y\"", "\"z\"")).fingerprint, of(POD).fingerprint);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let pods = reader("", "pods", "Pod");
    for (from, to) in [("\"a\"", "\"\""), ("\"u\"", "null"), ("\"100m\"", "{}")] {
        assert!(pods.alive("ADDED", &POD.replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn of_a_bookmark_only_the_metadata_are_read() {
    let real = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12746","creationTimestamp":null,
        "annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}"#;
    let expected = Bookmark { version: "12746".to_owned(), ends_list: true };
    assert_eq!(bookmark(real), Ok(expected));
}

/// The amounts of an object.
fn counted(kind: &str, charging: &Charging, json: &str) -> Footprint {
    let kind: GroupResource = kind.parse().unwrap();
    let object = charging.read(&kind, json.as_bytes()).unwrap();
    charging.footprint(&kind, &object, Timestamp::EPOCH, &NoContext)
}

/// The amounts that an object of an API server counts for, however long they are written.
fn counted_anyhow(kind: &str, charging: &Charging, json: &str) -> Footprint {
    of_any_length(|| counted(kind, charging, json))
}

/// The line of an object that an API server can store, and the amounts that count there.
fn published(reader: &Reader, json: &str) -> (Alive, Footprint) {
    let alive = reader.alive("ADDED", json).unwrap();
    assert!(alive.line.len() <= line::MAX_BYTES);
    let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
    let object = line["object"].to_string();
    let footprint = counted(&reader.name, &reader.charging, &object);
    (alive, footprint)
}

/// A field of this many control characters, each of which takes six bytes in JSON.
fn controls(bytes: usize) -> String {
    "\\u0001".repeat(bytes)
}

/// The authors of pods choose all of these fields, and an API server bounds only the size of the whole object.
#[test]
fn a_pod_is_published_however_long_its_fields_are() {
    let metadata = |more: &str| {
        format!(
            r#""metadata":{{"name":"p","namespace":"a","uid":"u","resourceVersion":"7",{more}}}"#
        )
    };
    let plain = metadata(r#""labels":{}"#);
    let annotated =
        |key: &str| metadata(&format!(r#""annotations":{{"{key}":"{}"}}"#, controls(256 << 10)));
    let owned = |uid: &str| {
        metadata(&format!(
            r#""ownerReferences":[{{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"{uid}","controller":true}}]"#
        ))
    };
    let one = r#"{"name":"c","resources":{"requests":{"cpu":"100m"}}}"#;
    let affinity = |terms: &str| {
        format!(
            r#""containers":[{one}],"affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{terms}]}}}}"#
        )
    };
    let owners = r#"{"apiVersion":"v1","kind":"ConfigMap","name":"m","uid":"u"},"#.repeat(20_000);
    let owners = format!(r#""ownerReferences":[{}]"#, owners.trim_end_matches(','));
    let namespaces = r#""n","#.repeat(500_000);
    let namespaces = format!(r#"{{"namespaces":[{}]}}"#, namespaces.trim_end_matches(','));
    let terms = r#"{"topologyKey":"k"},"#.repeat(400_000);
    let containers: Vec<_> = (0..30_000)
        .map(|number| format!(r#"{{"name":"{}{number}","resources":{{"limits":{{"cpu":"1m","memory":"1"}},"requests":{{"cpu":"1m"}}}}}}"#, "c".repeat(40)))
        .collect();
    let containers = containers.join(",");
    let init = format!(
        r#""initContainers":[{containers}],"containers":[{one}],"overhead":{{"cpu":"7m"}}"#
    );
    let zeros = "0".repeat(1 << 20);
    let amount = |text: &str| {
        format!(r#""containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{text}"}}}}}}]"#)
    };
    let spelled = amount(&format!("{zeros}1"));
    let zero_more = amount(&format!("{}1", "0".repeat(64)));
    let many_digits = amount(&format!("{}.5", "9".repeat(100)));
    let extended: Vec<_> =
        (0..3_000).map(|number| format!(r#""{}/{number}":"1""#, "x".repeat(250))).collect();
    let extended = extended.join(",");
    let extended = format!(
        r#""containers":[{{"name":"c","resources":{{"requests":{{{extended}}},"limits":{{{extended}}}}}}}]"#
    );
    let few = format!(r#""containers":[{one}]"#);
    for (what, metadata, spec) in [
        ("an annotation for watches", annotated("k8s.io/initial-events-end"), &few),
        (
            "an annotation for claims",
            annotated("resource.kubernetes.io/extended-resource-claim"),
            &few,
        ),
        ("an annotation for volumes", annotated("volume.beta.kubernetes.io/storage-class"), &few),
        ("the controller", owned(&"u".repeat(1 << 20)), &few),
        ("owners", metadata(&owners), &few),
        ("namespaces", plain.clone(), &affinity(&namespaces)),
        ("terms", plain.clone(), &affinity(&format!("{terms}{namespaces}"))),
        ("containers", plain.clone(), &format!(r#""containers":[{containers}]"#)),
        ("init containers", plain.clone(), &init),
        ("zeros before an amount", plain.clone(), &spelled),
        ("a zero too many", plain.clone(), &zero_more),
        ("too many digits", plain.clone(), &many_digits),
        ("resources", plain.clone(), &extended),
    ] {
        let json = format!("{{{metadata},\"spec\":{{{spec}}}}}");
        for charging in [Charging::default(), Charging::new(["statefulsets.apps"]).unwrap()] {
            let reader = reader_by("", "pods", "Pod", charging.clone());
            let (alive, footprint) = published(&reader, &json);
            assert!(alive.lacks.is_none(), "{what}");
            let counted = counted_anyhow("pods", &charging, &json);
            assert!(footprint == counted, "{what}");
        }
    }
}

#[test]
fn what_does_not_fit_into_a_line_is_left_out() {
    let resources: Vec<_> = (0..20_000)
        .map(|number| format!(r#""deviceclass.resource.kubernetes.io/{number:05}":"1""#))
        .collect();
    let zeros: Vec<_> = (0..20_000).map(|number| format!(r#""a.b/{number}":"0""#)).collect();
    let (resources, zeros) = (resources.join(","), zeros.join(","));
    let json = format!(
        r#"{{"metadata":{{"name":"p","namespace":"a","uid":"u"}},"spec":{{"priorityClassName":"high",
            "containers":[{{"resources":{{"requests":{{{zeros},"cpu":"1","x.y/gpu":"8",{resources}}}}}}}]}}}}"#
    );
    let pods = reader("", "pods", "Pod");
    let (alive, footprint) = published(&pods, &json);
    assert!(alive.lacks.unwrap().contains("of its resources"));
    let whole = counted("pods", &Charging::default(), &json);
    assert!(footprint.resources.len() > 15_000);
    assert_eq!(footprint.traits, whole.traits);
    for name in ["pods", "requests.cpu", "requests.deviceclass.resource.kubernetes.io/00000"] {
        assert_eq!(footprint.resources.get(name), whole.resources.get(name), "{name}");
    }
    assert_eq!(footprint.resources.get("requests.deviceclass.resource.kubernetes.io/19999"), None);
}

/// With a wider range of node ports than usual.
#[test]
fn a_service_of_very_many_ports_is_published_with_its_amounts() {
    let ports: Vec<_> =
        (0..60_000).map(|number| format!(r#"{{"nodePort":{}}}"#, number + 1)).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"s","namespace":"a","uid":"u","resourceVersion":"7"}},"spec":{{"type":"NodePort","ports":[{}]}}}}"#,
        ports.join(",")
    );
    let alive = reader("", "services", "Service").alive("ADDED", &json).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","namespace":"a","resource":"services","name":"s","uid":"u","resourceVersion":"7","usage":{"services":"1","services.loadbalancers":"0","services.nodeports":"60k"}}"#
    );
    assert!(alive.lacks.is_some());
}

/// An API server checks of the requests of a claim only those for storage.
#[test]
fn a_volume_claim_is_published_with_its_storage() {
    let json = format!(
        r#"{{"metadata":{{"name":"p","namespace":"a","uid":"u"}},"spec":{{"volumeAttributesClassName":"v","storageClassName":"s",
            "resources":{{"requests":{{"storage":"01Gi","{}":"1"}}}}}}}}"#,
        controls(1 << 20)
    );
    let claims = reader("", "persistentvolumeclaims", "PersistentVolumeClaim");
    let (alive, footprint) = published(&claims, &json);
    let whole = counted("persistentvolumeclaims", &Charging::default(), &json);
    assert!(footprint == whole && alive.lacks.is_none() && alive.line.len() < 500);
}

#[test]
fn a_charged_workload_is_published_whatever_its_definition_lets_pass() {
    let charging = || Charging::new(["rollouts.argoproj.io"]).unwrap();
    let rollouts = reader_by("argoproj.io", "rollouts", "Rollout", charging());
    let rollout = |spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"r","namespace":"a","uid":"u","resourceVersion":"7"}},"spec":{{"replicas":3,"template":{spec}}}}}"#
        )
    };
    // Many containers, which count as one.
    let container = r#"{"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"1Gi"}}}"#;
    let containers = vec![container; 20_000].join(",");
    let labels: Vec<_> = (0..100_000).map(|number| format!(r#""l{number}":"v""#)).collect();
    let many = rollout(&format!(
        r#"{{"metadata":{{"labels":{{{}}}}},"spec":{{"containers":[{containers}]}}}}"#,
        labels.join(",")
    ));
    let (alive, footprint) = published(&rollouts, &many);
    assert!(
        footprint == counted("rollouts.argoproj.io", &charging(), &many) && alive.lacks.is_none()
    );
    // Templates from which no pod can be made.
    let class = format!(r#"{{"spec":{{"priorityClassName":"{}"}}}}"#, controls(1 << 20));
    for template in [r#"{"spec":{"containers":7}}"#, r#""none""#, &class] {
        let alive = rollouts.alive("ADDED", &rollout(template)).unwrap();
        assert_eq!(
            text(&alive.line),
            r#"{"type":"ADDED","namespace":"a","resource":"rollouts.argoproj.io","name":"r","uid":"u","resourceVersion":"7"}"#
        );
        assert!(alive.lacks.is_some());
    }
}

#[test]
fn a_quota_with_too_many_limits_is_published_without_them() {
    let limits: Vec<_> = (0..100_000).map(|number| format!(r#""a.b/{number}":"1""#)).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"q","namespace":"a","uid":"u","annotations":{{"quota-ledger.io/soft":"s"}}}},"spec":{{"hard":{{{}}}}}}}"#,
        limits.join(",")
    );
    let alive = reader("", "resourcequotas", "ResourceQuota").alive("ADDED", &json).unwrap();
    assert_eq!(
        text(&alive.line),
        r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"annotations":{"quota-ledger.io/soft":"s"},"name":"q","namespace":"a","uid":"u"},"spec":{}}}"#
    );
    assert!(alive.lacks.is_some());
}

#[test]
fn a_namespace_with_too_many_labels_keeps_its_name_and_the_shortest() {
    let many: Vec<_> =
        (0..10_000).map(|number| format!(r#""{}{number:05}":"x""#, "a".repeat(100))).collect();
    let json = format!(
        r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"7","labels":{{{},"team":"red","kubernetes.io/metadata.name":"{}"}},
            "annotations":{{"owner":"ann"}}}}}}"#,
        many.join(","),
        "a".repeat(63)
    );
    let namespaces = reader("", "namespaces", "Namespace");
    let alive = namespaces.alive("ADDED", &json).unwrap();
    assert!(alive.line.len() <= line::MAX_BYTES && alive.lacks.is_some());
    let line: serde_json::Value = serde_json::from_slice(&alive.line).unwrap();
    let metadata = &line["object"]["metadata"];
    assert!(metadata["annotations"].is_null());
    let labels = metadata["labels"].as_object().unwrap();
    assert!((7_000..8_000).contains(&labels.len()), "{}", labels.len());
    assert_eq!(labels["team"], "red");
    assert_eq!(labels["kubernetes.io/metadata.name"], "a".repeat(63).as_str());
    let first = format!("{}00000", "a".repeat(100));
    assert!(labels.contains_key(&first));
}
