//! Owner references at a real daemon: whatever a pod says of its owners, limits hold; and pods of a charged workload are
//! not counted twice.

use serde_json::{Value, json};

use super::{
    harness::{pod, recorded},
    tenants::World,
};

/// The recorded deployment: each of its pods needs 100m.
fn deployment(name: &str, replicas: u64) -> Value {
    let mut review = recorded("deployment-create");
    let request = &mut review["request"];
    request["name"] = json!(name);
    let object = &mut request["object"];
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    object["spec"]["replicas"] = json!(replicas);
    review
}

/// A workload of another kind with the deployment's template.
fn workload(plural: &str, group: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut review = deployment(name, 1);
    let request = &mut review["request"];
    for which in ["resource", "requestResource"] {
        request[which] = json!({"group": group, "version": "v1", "resource": plural});
    }
    for which in ["kind", "requestKind"] {
        request[which] = json!({"group": group, "version": "v1", "kind": kind});
    }
    let template = request["object"]["spec"]["template"].clone();
    request["object"]["apiVersion"] = json!(format!("{group}/v1"));
    request["object"]["kind"] = json!(kind);
    request["object"]["spec"] = spec;
    request["object"]["spec"]["template"] = template;
    review
}

/// A pod that says that this controller made it.
fn pod_of(name: &str, (api, kind, controller): (&str, &str, &str), cpu: &str) -> Value {
    let mut review = pod(name);
    let object = &mut review["request"]["object"];
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": api, "kind": kind, "name": controller,
        "uid": format!("uid-of-{controller}"), "controller": true}]);
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    object["spec"] = json!({"containers": [container]});
    review
}

/// One of a deployment, by way of its replica set with this hash.
fn pod_of_deployment(name: &str, deployment: &str, hash: &str, cpu: &str) -> Value {
    let set = format!("{deployment}-{hash}");
    let mut review = pod_of(name, ("apps/v1", "ReplicaSet", &set), cpu);
    review["request"]["object"]["metadata"]["labels"] = json!({"pod-template-hash": hash});
    review
}

fn without_owner(review: &Value) -> Value {
    let mut review = review.clone();
    let metadata = &mut review["request"]["object"]["metadata"];
    metadata["ownerReferences"] = json!([]);
    metadata["labels"] = json!({});
    review
}

/// How many of so many requests are admitted; each second one that is admitted is seen.
fn admitted(world: &World, reviews: impl Iterator<Item = Value>) -> usize {
    let mut admitted = 0;
    for review in reviews {
        if world.admits(&review) {
            admitted += 1;
            if admitted % 2 == 0 {
                world.shows_in("ADDED", &review, 10);
            }
        }
    }
    admitted
}

const CHARGED: &str = "deployments.apps,statefulsets.apps,jobs.batch";

#[test]
fn a_forged_owner_pays_for_nothing_that_it_was_not_charged() {
    let world = World::charging(CHARGED, json!({"requests.cpu": "4"}));
    let small = deployment("small", 1);
    assert!(world.admits(&small));
    world.shows_in("ADDED", &small, 5);
    assert_eq!(world.counted("requests.cpu"), "100m+0");
    // By a controller of a charged kind, by a hash that fits a replica set's name, by one that is not there at all.
    let forged = (0..1000).map(|number| {
        let name = format!("forged-{number}");
        match number % 3 {
            0 => pod_of(&name, ("apps/v1", "Deployment", "small"), "100"),
            1 => pod_of_deployment(&name, "small", "5d4f8", "100"),
            _ => pod_of(&name, ("apps/v1", "StatefulSet", "none"), "100"),
        }
    });
    assert_eq!(admitted(&world, forged), 0);
    assert_eq!(world.counted("requests.cpu"), "100m+0");
    // What was charged and is not claimed by others can be had, and as much as there is room for.
    let forged = (0..20).map(|number| pod_of_deployment(&format!("p-{number}"), "small", "x", "1"));
    assert_eq!(admitted(&world, forged), 4);
    assert_eq!(world.counted("requests.cpu"), "2+2");
}

#[test]
fn a_deployment_with_a_forged_owner_is_charged_nothing_and_pays_for_nothing() {
    let world = World::charging("deployments.apps,replicasets.apps", json!({"requests.cpu": "4"}));
    assert!(world.admits(&deployment("small", 1)));
    let mut large = deployment("large", 1000);
    large["request"]["object"]["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
        "kind": "Deployment", "name": "small", "uid": "uid-of-small", "controller": true}]);
    assert!(world.admits(&large), "it fails where its pods are made");
    world.shows_in("ADDED", &large, 5);
    assert_eq!(world.counted("requests.cpu"), "0+100m");
    let pods = (0..50).map(|number| pod_of_deployment(&format!("p-{number}"), "large", "x", "1"));
    assert_eq!(admitted(&world, pods), 4);
}

/// Says that this controller made a workload.
fn controlled_by(mut review: Value, kind: &str, name: &str, uid: &str) -> Value {
    review["request"]["object"]["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
        "kind": kind, "name": name, "uid": uid, "controller": true}]);
    review
}

#[test]
fn a_controller_that_is_not_recorded_pays_for_nothing() {
    let world = World::charging(CHARGED, json!({"requests.cpu": "1"}));
    let web = deployment("web", 4);
    assert!(world.admits(&web));
    world.shows_in("ADDED", &web, 5);
    // None of these exists, whatever of it is like that of one that does; and nothing pays for itself.
    for (number, (kind, name, uid)) in [
        ("Deployment", "none", "uid-of-none"),
        ("StatefulSet", "none", "uid-of-none"),
        ("Deployment", "web", "uid-of-none"),
        ("Deployment", "large-3", "uid-of-large-3"),
        ("Deployment", "web", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let (large, own) = (format!("large-{number}"), format!("small-{number}"));
        let large = controlled_by(deployment(&large, 7), kind, name, uid);
        assert!(!world.admits(&large), "{kind} {name} {uid}");
        let small = controlled_by(deployment(&own, 6), kind, name, uid);
        assert!(world.admits(&small), "{kind} {name} {uid}");
        assert_eq!(world.counted("requests.cpu"), "400m+600m");
        world.shows_in("ADDED", &small, 5);
        // It is recorded when it names itself.
        let itself = format!("uid-of-{own}");
        let small = controlled_by(deployment(&own, 6), "Deployment", &own, &itself);
        world.shows_in("MODIFIED", &small, 6);
        assert_eq!(world.counted("requests.cpu"), "1+0", "{kind} {name} {uid}");
        world.shows_in("DELETED", &small, 7);
        assert_eq!(world.counted("requests.cpu"), "400m+0");
    }
}

/// Events of two kinds come in any order.
#[test]
fn a_controller_that_is_recorded_later_pays_from_then_on() {
    let both = "deployments.apps,replicasets.apps";
    let world = World::charging(both, json!({"requests.cpu": "1"}));
    let web = deployment("web", 4);
    let set = workload("replicasets", "apps", "ReplicaSet", "web-5d4f8", json!({"replicas": 4}));
    let set = controlled_by(set, "Deployment", "web", "uid-of-web");
    world.shows_in("ADDED", &set, 5);
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    world.shows_in("ADDED", &web, 6);
    assert_eq!(world.counted("requests.cpu"), "800m+0");
    // A listing shows it in the same version.
    world.shows_in("MODIFIED", &set, 5);
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    world.shows_in("MODIFIED", &set, 7);
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    // It is scaled by its controller, which pays.
    let set = workload("replicasets", "apps", "ReplicaSet", "web-6e5f9", json!({"replicas": 40}));
    assert!(world.admits(&controlled_by(set, "Deployment", "web", "uid-of-web")));
}

#[test]
fn a_pod_that_leaves_its_workload_still_takes_what_that_was_charged() {
    let world = World::charging(CHARGED, json!({"requests.cpu": "200m"}));
    let web = deployment("web", 2);
    assert!(world.admits(&web));
    world.shows_in("ADDED", &web, 5);
    let mut made = 0;
    for round in 0..20 {
        let review = pod_of_deployment(&format!("web-{round}"), "web", "5d4f8", "100m");
        if world.admits(&review) {
            made += 1;
            world.shows_in("ADDED", &review, 10);
            // Its user takes the label and the reference away, so that the controller makes another one.
            world.shows_in("MODIFIED", &without_owner(&review), 11);
        }
    }
    assert_eq!(made, 2);
    assert_eq!(world.counted("requests.cpu"), "200m+0");
}

#[test]
fn a_deployment_is_rolled_out_and_scaled_in_a_full_namespace() {
    let world =
        World::charging(CHARGED, json!({"requests.cpu": "400m", "pods": "4", "count/pods": "9"}));
    let web = deployment("web", 4);
    assert!(world.admits(&web));
    assert_eq!(world.counted("requests.cpu"), "0+400m");
    let old: Vec<_> = (0..4)
        .map(|number| pod_of_deployment(&format!("web-a-{number}"), "web", "a", "100m"))
        .collect();
    // Pods may be seen before their deployment is.
    for (number, review) in old.iter().enumerate() {
        assert!(world.admits(review), "{number}");
        world.shows_in("ADDED", review, 10);
    }
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    world.shows_in("ADDED", &web, 5);
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    assert_eq!(world.counted("count/pods"), "4+0");
    assert!(!world.admits(&pod("bare")), "it is full");

    // A roll-out replaces pods as the old ones end: one that comes before that needs room of its own.
    for (number, review) in old.iter().enumerate() {
        let new = pod_of_deployment(&format!("web-b-{number}"), "web", "b", "100m");
        assert!(!world.admits(&new), "a surge");
        world.shows_in("DELETED", review, 20);
        assert!(world.admits(&new), "{number}");
        world.shows_in("ADDED", &new, 10);
        assert_eq!(world.counted("requests.cpu"), "400m+0");
    }

    // Scaled down, the room is free when the pods have ended.
    let fewer = deployment("web", 1);
    world.shows_in("MODIFIED", &fewer, 6);
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    for number in 0..3 {
        let gone = pod_of_deployment(&format!("web-b-{number}"), "web", "b", "100m");
        world.shows_in("DELETED", &gone, 30);
    }
    assert_eq!(world.counted("requests.cpu"), "100m+0");
    assert!(world.admits(&deployment("other", 3)));
    assert!(!world.admits(&deployment("more", 1)));
}

#[test]
fn a_stateful_set_and_a_job_run_in_what_they_were_charged() {
    let world = World::charging(CHARGED, json!({"requests.cpu": "500m"}));
    let set = workload("statefulsets", "apps", "StatefulSet", "db", json!({"replicas": 3}));
    let job =
        workload("jobs", "batch", "Job", "batch", json!({"parallelism": 2, "completions": 4}));
    assert!(world.admits(&set) && world.admits(&job));
    world.shows_in("ADDED", &set, 5);
    world.shows_in("ADDED", &job, 5);
    assert_eq!(world.counted("requests.cpu"), "500m+0");
    for number in 0..3 {
        let review = pod_of(&format!("db-{number}"), ("apps/v1", "StatefulSet", "db"), "100m");
        assert!(world.admits(&review));
        world.shows_in("ADDED", &review, 10);
    }
    // A pod of a stateful set is made anew under its name, before its end was seen.
    let mut again = pod_of("db-0", ("apps/v1", "StatefulSet", "db"), "100m");
    again["request"]["object"]["metadata"]["uid"] = json!("uid-of-db-0-again");
    assert!(world.admits(&again));
    assert_eq!(world.counted("requests.cpu"), "500m+0");
    let mut running: Vec<Value> = Vec::new();
    for number in 0..4 {
        let review = pod_of(&format!("batch-{number}"), ("batch/v1", "Job", "batch"), "100m");
        if running.len() == 2 {
            assert!(!world.admits(&review), "two run");
            let mut done = running.remove(0);
            done["request"]["object"]["status"] = json!({"phase": "Succeeded"});
            world.shows_in("MODIFIED", &done, 20);
        }
        assert!(world.admits(&review), "{number}");
        world.shows_in("ADDED", &review, 10);
        running.push(review);
        assert_eq!(world.counted("requests.cpu"), "500m+0");
    }
}

#[test]
fn a_number_is_explained_without_what_counts_once() {
    let world = World::charging(CHARGED, json!({"requests.cpu": "4"}));
    let web = deployment("web", 2);
    assert!(world.admits(&web));
    world.shows_in("ADDED", &web, 5);
    for number in 0..4 {
        let review = pod_of_deployment(&format!("web-{number}"), "web", "x", "100m");
        assert!(world.admits(&review));
        world.shows_in("ADDED", &review, 10);
    }
    assert_eq!(world.counted("requests.cpu"), "400m+0");
    let path = "/v1/namespaces/team-a/explain?quota=q&resource=requests.cpu";
    let (status, answer) = world.call("root", "GET", path, &json!(null));
    assert_eq!(status, 200, "{answer}");
    let items = answer["items"].as_array().unwrap();
    let parts: Vec<_> = items
        .iter()
        .map(|item| (item["name"].as_str().unwrap(), item["amount"].as_str().unwrap()))
        .collect();
    assert_eq!(parts, [("web", "200m"), ("web-2", "100m"), ("web-3", "100m")]);
}
