//! Objects that name very many resources. Their authors choose how many.

use quota_semantics::{group, object::Footprint};

use super::*;

/// This many amounts of resources with short names, as JSON.
fn amounts(count: usize) -> String {
    let amounts: Vec<_> = (0..count).map(|number| format!(r#""a/{number:x}":"1""#)).collect();
    amounts.join(",")
}

fn pod_of(count: usize) -> String {
    let amounts = amounts(count);
    let resources = format!(r#"{{"requests":{{"cpu":"1",{amounts}}},"limits":{{{amounts}}}}}"#);
    let spec = format!(r#","spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}"#);
    pod("ADDED", "", &spec)
}

/// 1.5 MiB of etcd hold a pod of about 60,000 such names.
#[test]
fn a_pod_counts_with_all_resources_that_a_server_can_store() {
    let (object, _) = alive(pod_of(60_000));
    let resources = &object.footprint.resources;
    assert!(resources.len() > 60_000, "{}", resources.len());
    for name in ["pods", "requests.cpu", "requests.a/0", "requests.a/ea5f"] {
        assert!(resources.get(name).is_some(), "{name}");
    }
}

#[test]
fn of_more_resources_than_an_entry_holds_some_are_left_out() {
    let (object, _) = alive(pod_of(100_000));
    let resources = &object.footprint.resources;
    assert!(check::size_of(&object, None) <= SIGHTING_MAX_BYTES);
    assert!((60_000..70_000).contains(&resources.len()));
    let cpu = ["pods", "count/pods", "cpu", "requests.cpu", "requests.a/0"];
    for name in cpu {
        assert!(resources.get(name).is_some(), "{name}");
    }
    assert_eq!(resources.get("requests.a/ffff"), None);
    let again = alive(pod_of(100_000)).0;
    assert_eq!(again, object, "always the same");

    let usage = amounts(100_000);
    let (object, _) = alive(plain(&format!(r#","usage":{{{usage}}}"#)));
    assert!(check::size_of(&object, None) <= SIGHTING_MAX_BYTES);
    let own = object.footprint.resources.get("count/widgets.example.com");
    assert!(own.is_some());
}

#[test]
fn a_charged_workload_is_shortened_with_the_pod_of_its_template() {
    let charging = Charging::new(["deployments.apps"]).unwrap();
    let reader = Arc::new(Reader::new(&BTreeMap::new(), true).with_charging(charging));
    let amounts = amounts(60_000);
    let deployment = format!(
        r#"{{"type":"ADDED","object":{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{
            "name":"d","namespace":"team-a","uid":"{UID}","resourceVersion":"1"}},"spec":{{"replicas":2,
            "template":{{"spec":{{"containers":[{{"name":"c","resources":{{"limits":{{{amounts}}}}}}}]}}}}}}}}}}"#
    );
    let event = reader.read(Bytes::from(deployment), NOW).next().unwrap();
    let Some(Sighting::Alive { object, .. }) = sighting(event.unwrap()) else {
        panic!("not alive");
    };
    assert!(check::size_of(&object, None) <= SIGHTING_MAX_BYTES);
    let Footprint { resources, traits, .. } = &object.footprint;
    let Traits::Template { replica, .. } = traits else {
        panic!("{traits:?}");
    };
    assert!(resources.get("pods").is_some() && resources.len() > 30_000);
    assert!(replica.names().all(|name| resources.get(name).is_some()));
}

/// An amount may be a number in JSON, which is far shorter than in an entry.
#[test]
fn a_group_of_more_limits_than_an_entry_holds_is_recorded_without_them() {
    let read = |count: usize| {
        let hard: Vec<_> = (0..count).map(|number| format!(r#""{number:x}":1"#)).collect();
        let group = format!(
            r#"{{"type":"ADDED","object":{{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota","metadata":{{
                "name":"red","uid":"g-1","resourceVersion":"40"}},"spec":{{"selector":{{"labels":{{"matchLabels":{{"team":"red"}}}}}},
                "quota":{{"hard":{{{}}}}}}}}}}}"#,
            hard.join(",")
        );
        match one(&group) {
            Ok(Some(Sighting::Group { record, .. })) => record,
            other => panic!("{other:?}"),
        }
    };
    let spec = |count| read(count).spec.clone();
    assert_eq!(spec(60_000).quota.hard.len(), 60_000);
    assert_eq!(spec(100_000), group::Spec::default());
    assert_eq!(*read(100_000).name, *"red");
}

/// All namespaces are compared with the values, one by one.
#[test]
fn a_group_that_selects_by_very_many_values_is_recorded_without_its_limits() {
    let spec = |count: usize| {
        let values: Vec<_> = (0..count).map(|number| format!(r#""v{number}""#)).collect();
        let group = format!(
            r#"{{"type":"ADDED","object":{{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota","metadata":{{
                "name":"red","uid":"g-1","resourceVersion":"40"}},"spec":{{"selector":{{"labels":{{"matchExpressions":[
                {{"key":"team","operator":"NotIn","values":[{}]}}]}}}},"quota":{{"hard":{{"pods":"3"}}}}}}}}}}"#,
            values.join(",")
        );
        match one(&group) {
            Ok(Some(Sighting::Group { record, .. })) => record.spec.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(spec(10_000).quota.hard.pretty(), "pods=3");
    assert_eq!(spec(10_001), group::Spec::default());
}
