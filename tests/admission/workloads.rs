//! Workloads that are charged for their pods.

use std::{collections::BTreeMap, sync::Arc};

use super::harness::{World, pod, recorded};
use quota_core::{decide::Sighting, source::Observation};
use quota_semantics::admission::Charging;
use quotad::{intake::payload::Reader, now};
use serde_json::{Value, json};

/// A pod of the recorded deployment, by way of its replica set.
fn pod_of_deployment(name: &str, hash: &str) -> Value {
    let mut review = pod(name);
    let metadata = &mut review["request"]["object"]["metadata"];
    metadata["labels"] = json!({"app": "web", "pod-template-hash": hash});
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": "web-5d4f8", "uid": "uid-of-web-5d4f8", "controller": true}]);
    review
}

#[tokio::test]
async fn a_deployment_is_charged_when_it_is_created_and_scaled() {
    let world = World::charging(&["deployments.apps"]);
    world
        .set_quota("q", &[("pods", "4"), ("requests.cpu", "10"), ("count/deployments.apps", "1")])
        .await;
    let create = recorded("deployment-create");
    assert!(world.send(&create).await.allowed());
    assert_eq!(world.counted("q", "pods"), "0+3");
    assert_eq!(world.counted("q", "requests.cpu"), "0+300m");
    world.observe(&create, "object").await;
    assert_eq!(world.counted("q", "pods"), "3+0");

    let mut scale = recorded("deployment-scale");
    assert_eq!(
        world.send(&scale).await.message(),
        "deployments.apps \"web\" is forbidden: exceeded quota: q, requested: pods=2, used: pods=3, limited: pods=4"
    );
    scale["request"]["object"]["spec"]["replicas"] = json!(4);
    assert!(world.send(&scale).await.allowed());
    assert_eq!(world.counted("q", "pods"), "3+1");
    assert_eq!(world.counted("q", "requests.cpu"), "300m+100m");
    scale["request"]["object"]["spec"]["replicas"] = json!(1);
    assert!(world.send(&scale).await.allowed());

    let mut update = create.clone();
    update["request"]["operation"] = json!("UPDATE");
    update["request"]["object"]["metadata"]["resourceVersion"] = json!("7");
    update["request"]["oldObject"] = update["request"]["object"].clone();
    assert!(world.send(&update).await.allowed(), "nothing grows");
    update["request"]["object"]["spec"]["replicas"] = json!(5);
    assert!(
        world.send(&update).await.message().starts_with(
            "deployments.apps \"web\" is forbidden: exceeded quota: q, requested: pods="
        )
    );
}

#[tokio::test]
async fn its_pods_are_not_counted_twice() {
    let world = World::charging(&["deployments.apps"]);
    world.set_quota("q", &[("pods", "3"), ("count/pods", "9")]).await;
    world.send(&recorded("deployment-create")).await;
    for name in ["web-5d4f8-a", "web-5d4f8-b"] {
        let review = pod_of_deployment(name, "5d4f8");
        assert!(world.send(&review).await.allowed());
        world.observe(&review, "object").await;
    }
    assert_eq!(world.counted("q", "pods"), "2+1");
    assert_eq!(world.counted("q", "count/pods"), "2+0");
    assert!(!world.send(&pod("bare")).await.allowed());
    let pretends = pod_of_deployment("x", "other");
    assert!(!world.send(&pretends).await.allowed(), "no deployment of that name");
}

#[tokio::test]
async fn a_workload_is_scaled_once_its_present_version_is_observed() {
    let world = World::charging(&["deployments.apps"]);
    world.set_quota("q", &[("pods", "9")]).await;
    let created = recorded("deployment-create");
    assert!(world.send(&created).await.allowed());
    let unseen = world.send(&recorded("deployment-scale")).await;
    assert_eq!(unseen.code(), 409);
    assert!(unseen.message().contains("not observed yet"), "{unseen:?}");
    world.observe(&created, "object").await;
    let answer = world.send(&recorded("deployment-scale")).await;
    assert!(answer.allowed(), "{answer:?}");
}

#[tokio::test]
async fn workloads_that_are_not_charged_count_as_one_object() {
    let world = World::new();
    world.set_quota("q", &[("pods", "0"), ("count/deployments.apps", "1")]).await;
    assert!(world.send(&recorded("deployment-create")).await.allowed());
    assert_eq!(world.counted("q", "count/deployments.apps"), "0+1");
}

#[test]
fn what_is_observed_is_charged_in_the_same_way() {
    let reader = || Reader::new(&BTreeMap::new(), true);
    let charging = Charging::new(["deployments.apps"]).unwrap();
    let counted = |reader: Reader, review: &Value| {
        let event = json!({"type": "ADDED", "object": review["request"]["object"]});
        let read = Arc::new(reader).read(event.to_string().into(), now()).next();
        match read.unwrap().unwrap().observation {
            Some(Observation::Sighting(Sighting::Alive { object, .. })) => {
                object.footprint.resources.pretty()
            }
            other => panic!("{other:?}"),
        }
    };
    let deployment = recorded("deployment-create");
    assert_eq!(counted(reader(), &deployment), "count/deployments.apps=1");
    let charged = counted(reader().with_charging(charging.clone()), &deployment);
    assert!(charged.contains("pods=3,requests.cpu=300m"), "{charged}");
    let pod = pod_of_deployment("web-5d4f8-a", "5d4f8");
    let of_workload = counted(reader().with_charging(charging), &pod);
    assert_eq!(of_workload, counted(reader(), &pod));
    assert!(counted(reader(), &pod).contains("requests.cpu=500m"));
}
