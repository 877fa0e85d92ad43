use super::*;

fn read(kind: &str, json: &str) -> Object {
    Object::from_json(&kind.parse().unwrap(), json.as_bytes()).unwrap()
}

#[test]
fn an_object_that_cannot_be_read_says_why() {
    let pods = GroupResource::new("", "pods");
    let error = Object::from_json(&pods, br#"{"spec":{"activeDeadlineSeconds":"1"}}"#).unwrap_err();
    assert!(error.to_string().starts_with("cannot read pods: invalid type: string"), "{error}");
    assert!(Object::from_json(&pods, b"[").is_err());
}

#[test]
fn only_a_pod_that_is_being_deleted_lapses() {
    let deleting = |phase: &str| {
        let json = format!(
            r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30}},
                "status":{{"phase":"{phase}"}}}}"#
        );
        read("pods", &json)
    };
    let lapse = "2026-01-01T00:00:30Z".parse().unwrap();
    assert_eq!(deleting("Running").lapse(), Some(lapse));
    assert_eq!(deleting("Failed").lapse(), None);
    assert_eq!(read("pods", "{}").lapse(), None);

    let pods = GroupResource::new("", "pods");
    let counts = |now| deleting("Running").footprint(&pods, now, &NoContext).resources.len();
    assert_eq!(counts(lapse), 2);
    assert_eq!(counts(lapse.plus(crate::Span::from_nanoseconds(1))), 1);
}

#[test]
fn what_counts_under_a_name_belongs_to_the_kind() {
    let claim = r#"{"spec":{"devices":{"requests":[{"exactly":{"deviceClassName":"gpu","allocationMode":"All"}}]}}}"#;
    let volume =
        r#"{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"1Gi"}}}}"#;
    let pod = r#"{"spec":{"containers":[{"resources":{
        "requests":{"cpu":"1","nvidia.com/gpu":"1","hugepages-2Mi":"2Mi","deviceclass.resource.kubernetes.io/gpu":"1"},
        "limits":{"memory":"1Gi","ephemeral-storage":"1Gi"}}}]}}"#;
    for (kind, json) in [
        ("pods", pod),
        ("services", r#"{"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}"#),
        ("persistentvolumeclaims", volume),
        ("resourceclaims.resource.k8s.io", claim),
        ("secrets", "{}"),
        ("deployments.apps", "{}"),
    ] {
        let kind: GroupResource = kind.parse().unwrap();
        let evaluator = Evaluator::of(&kind);
        let object = Object::from_json(&kind, json.as_bytes()).unwrap();
        let resources = object.footprint(&kind, Timestamp::EPOCH, &NoContext).resources;
        for name in resources.names() {
            assert!(
                evaluator.owns(name, &EveryClass) && is_countable_by_anyone(name),
                "{kind}: {name}"
            );
        }
        let names = resources.names().map(crate::Name::as_str);
        assert_eq!(evaluator.matching(names, &EveryClass).len(), resources.len(), "{kind}");
    }
    for name in ["nvidia.com/gpu", "limits.nvidia.com/gpu", "count/", "storage"] {
        assert!(!is_countable_by_anyone(name), "{name}");
    }
    for group in ["extensions", ""] {
        let kind = GroupResource::new(group, "deployments");
        assert!(!Evaluator::of(&kind).owns("count/deployments.apps", &EveryClass));
    }
}

#[test]
fn a_claim_leaves_out_what_its_own_pod_pays() {
    struct Cluster {
        older_claim: bool,
    }
    impl Context for Cluster {
        fn extended_resource(&self, device_class: &str) -> Option<crate::Name> {
            (device_class == "gpu").then(|| crate::Name::from("example.com/gpu"))
        }
        fn is_device_class_resource(&self, extended_resource: &str) -> bool {
            extended_resource == "example.com/gpu"
        }
        fn pod(&self, _namespace: &str, name: &str) -> Option<OwningPod> {
            let pod =
                r#"{"spec":{"containers":[{"resources":{"requests":{"example.com/gpu":"2"}}}]}}"#;
            let pods = GroupResource::new("", "pods");
            let footprint = read("pods", pod).footprint(&pods, Timestamp::EPOCH, &NoContext);
            (name == "owner").then(|| OwningPod {
                uid: crate::Name::from("u1"),
                extended_resource_claim: None,
                resources: footprint.resources,
            })
        }
        fn has_older_claim(&self, _: &str, pod_uid: &str, _: (Timestamp, &str)) -> bool {
            assert_eq!(pod_uid, "u1");
            self.older_claim
        }
    }
    let kind: GroupResource = "resourceclaims.resource.k8s.io".parse().unwrap();
    let claim = read(
        "resourceclaims.resource.k8s.io",
        r#"{"metadata":{"name":"c","annotations":{"resource.kubernetes.io/extended-resource-claim":"true"},
                "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"owner","uid":"u1","controller":true}]},
            "spec":{"devices":{"requests":[{"exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":3}}]}}}"#,
    );
    let counted = |older_claim, name: &str| {
        let cluster = Cluster { older_claim };
        let resources = claim.footprint(&kind, Timestamp::EPOCH, &cluster).resources;
        resources.get(name).map(ToString::to_string)
    };
    assert_eq!(counted(false, "requests.example.com/gpu").as_deref(), Some("1"));
    assert_eq!(counted(true, "requests.example.com/gpu").as_deref(), Some("3"));
    assert_eq!(counted(false, "gpu.deviceclass.resource.k8s.io/devices").as_deref(), Some("3"));
}

#[test]
fn a_claim_of_an_older_version_counts_the_same() {
    let devices = |request: &str| {
        let kind: GroupResource = "resourceclaims.resource.k8s.io".parse().unwrap();
        let claim = format!(r#"{{"spec":{{"devices":{{"requests":[{request}]}}}}}}"#);
        let claim = read("resourceclaims.resource.k8s.io", &claim).with_api_defaults();
        claim.footprint(&kind, Timestamp::EPOCH, &NoContext).resources
    };
    let now = devices(r#"{"name":"a","exactly":{"deviceClassName":"gpu"}}"#);
    assert_eq!(now.get("gpu.deviceclass.resource.k8s.io/devices").unwrap().value(), 1);
    assert_eq!(devices(r#"{"name":"a","deviceClassName":"gpu"}"#), now);
}

/// Sums of devices are exact, as all others are.
#[test]
fn devices_of_one_claim_do_not_saturate() {
    let requests = r#"{"exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":9223372036854775807}},"#;
    let requests = requests.repeat(3);
    let json =
        format!(r#"{{"spec":{{"devices":{{"requests":[{}]}}}}}}"#, requests.trim_end_matches(','));
    let kind = GroupResource::new("resource.k8s.io", "resourceclaims");
    let claim = Object::from_json(&kind, json.as_bytes()).unwrap();
    let resources = claim.footprint(&kind, Timestamp::EPOCH, &NoContext).resources;
    for name in [
        "gpu.deviceclass.resource.k8s.io/devices",
        "requests.deviceclass.resource.kubernetes.io/gpu",
    ] {
        let devices = resources.get(name).unwrap();
        assert_eq!(devices.exact().to_string(), "27670116110564327421", "{name}");
    }
}
