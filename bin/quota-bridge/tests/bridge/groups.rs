//! ClusterResourceQuotas: groups of the ledger that belong to the cluster, with their status written back.

use serde_json::{Value, json};

use super::{
    leaders::{LEASE, leads},
    namespaces::namespace,
    process::Program,
    scene::{Scene, ask, metric, pod, until_ready},
    until,
    world::{Fault, Request},
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const GROUPS: &str = "clusterresourcequotas.quota.openshift.io";

fn define(scene: &Scene) {
    let groups = json!({"spec": {"group": "quota.openshift.io", "scope": "Cluster",
        "names": {"plural": "clusterresourcequotas", "kind": "ClusterResourceQuota"},
        "versions": [{"name": "v1", "subresources": {"status": {}}}]}});
    scene.world.create(DEFINITIONS, "", GROUPS, groups);
}

/// A limit for the namespaces of a team, in the cluster.
fn limit(scene: &Scene, name: &str, team: &str, pods: &str) {
    let group = json!({"spec": {
        "selector": {"labels": {"matchLabels": {"team": team}}}, "quota": {"hard": {"pods": pods}}}});
    scene.world.create(GROUPS, "", name, group);
}

/// What the ledger has in force for a group, and how much of it is used.
fn group_status(scene: &Scene, name: &str) -> Option<(String, String)> {
    let (code, text) = ask(&format!("{}/v1/groups/{name}", scene.quotad.url("api")));
    let group: Value = serde_json::from_str(&text).unwrap_or_default();
    let text = |value: &Value| value["pods"].as_str().unwrap_or_default().to_owned();
    (code == 200).then(|| (text(&group["status"]["hard"]), text(&group["status"]["used"])))
}

fn until_known(scene: &Scene, name: &str, expected: Option<(&str, &str)>) {
    until(&format!("{name} is {expected:?}"), || {
        let group_status = group_status(scene, name);
        let group_status = group_status.as_ref().map(|(hard, used)| (&**hard, &**used));
        (group_status == expected).then_some(())
    });
}

/// Pods that are used of a group, as the cluster shows it.
fn shown(scene: &Scene, name: &str) -> Option<String> {
    let group = scene.world.get(GROUPS, "", name)?;
    let used = &group["status"]["total"]["used"]["pods"];
    used.as_str().map(str::to_owned)
}

fn until_shown(scene: &Scene, name: &str, used: &str) {
    until(&format!("{name} shows {used}"), || {
        (shown(scene, name).as_deref() == Some(used)).then_some(())
    });
}

fn writing(scene: &Scene, more: &[&str]) -> Program {
    let quotad = format!("--status.quotad={}", scene.quotad.url("api"));
    let arguments = [&[&*quotad, "--status.every=100ms"], more].concat();
    let bridge = scene.bridge(&arguments);
    until_ready(&bridge);
    bridge
}

/// A cluster with a red team that has two pods.
fn scene() -> Scene {
    let scene = Scene::new();
    namespace(&scene, "shop", "red");
    for name in ["a", "b"] {
        scene.world.create("pods", "shop", name, pod("100m"));
    }
    scene
}

#[test]
fn they_come_and_go_with_their_objects_and_with_their_definition() {
    let scene = scene();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    // The definition is installed while the bridge runs.
    define(&scene);
    limit(&scene, "red", "red", "5");
    limit(&scene, "blue", "blue", "3");
    until_known(&scene, "red", Some(("5", "2")));
    limit(&scene, "red", "red", "7");
    until_known(&scene, "red", Some(("7", "2")));
    until_known(&scene, "blue", Some(("3", "0")));
    scene.world.delete(GROUPS, "", "blue");
    until_known(&scene, "blue", None);

    // What goes while nobody watches is missing in the next list.
    limit(&scene, "green", "green", "3");
    until_known(&scene, "green", Some(("3", "0")));
    drop(bridge);
    scene.world.delete(GROUPS, "", "green");
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    until_known(&scene, "green", None);
    until_known(&scene, "red", Some(("7", "2")));

    scene.world.delete(DEFINITIONS, "", GROUPS);
    until_known(&scene, "red", None);
    define(&scene);
    limit(&scene, "red", "red", "4");
    until_known(&scene, "red", Some(("4", "2")));
    scene.settle();
}

#[test]
fn a_kind_that_they_limit_is_counted() {
    let scene = scene();
    define(&scene);
    let group = json!({"spec": {"selector": {"labels": {"matchLabels": {"team": "red"}}},
        "quota": {"hard": {"count/secrets": "9"}}}});
    scene.world.create(GROUPS, "", "red", group);
    scene.world.create("secrets", "shop", "s", json!({}));
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    let url = format!("{}/v1/groups/red", scene.quotad.url("api"));
    until("the secret counts", || {
        let group: Value = serde_json::from_str(&ask(&url).1).unwrap_or_default();
        (group["status"]["used"]["count/secrets"] == "1").then_some(())
    });
}

#[test]
fn their_status_is_written_when_it_changes_and_not_else() {
    let scene = scene();
    define(&scene);
    limit(&scene, "red", "red", "5");
    let bridge = writing(&scene, &[]);
    until_shown(&scene, "red", "2");
    scene.world.create("pods", "shop", "c", pod("100m"));
    until_shown(&scene, "red", "3");
    let group = scene.world.get(GROUPS, "", "red").unwrap();
    assert_eq!(group["status"]["total"]["hard"]["pods"], "5");
    let member = &group["status"]["namespaces"][0];
    assert_eq!(member["namespace"], "shop");
    assert_eq!(member["status"]["used"]["pods"], "3");
    assert_eq!(group["spec"]["quota"]["hard"]["pods"], "5");

    // Two others have to be written, so rounds have gone by; nothing else was.
    let version =
        |name| scene.world.get(GROUPS, "", name).unwrap()["metadata"]["resourceVersion"].clone();
    let before = version("red");
    limit(&scene, "one", "one", "5");
    until_shown(&scene, "one", "0");
    limit(&scene, "two", "two", "5");
    until_shown(&scene, "two", "0");
    assert_eq!(version("red"), before);
    let written = metric(&bridge, "quota_bridge_group_status_written_total");
    assert!((4.0..=6.0).contains(&written), "{written}");
    // A status that was written is no news for the ledger.
    scene.settle();
    assert!(scene.outcomes(GROUPS).iter().all(|it| it == "Complete"));
}

/// Somebody else writes the status of a group.
fn tamper(scene: &Scene, name: &str) {
    let mut group = scene.world.get(GROUPS, "", name).unwrap();
    group["status"]["total"]["used"]["pods"] = json!("99");
    scene.world.put(GROUPS, "", group).unwrap();
}

#[test]
fn a_status_that_somebody_else_wrote_is_put_right_when_all_are_compared() {
    let scene = scene();
    define(&scene);
    limit(&scene, "red", "red", "5");
    let bridge = writing(&scene, &[]);
    until_shown(&scene, "red", "2");
    tamper(&scene, "red");
    // Rounds go by: others are written, this one has not changed at quotad.
    for name in ["one", "two"] {
        limit(&scene, name, name, "5");
        until_shown(&scene, name, "0");
    }
    assert_eq!(shown(&scene, "red").as_deref(), Some("99"));
    drop(bridge);

    let _bridge = writing(&scene, &["--status.compare_every=500ms"]);
    until_shown(&scene, "red", "2");
    tamper(&scene, "red");
    until_shown(&scene, "red", "2");
    scene.settle();
}

#[test]
fn their_status_is_written_after_conflicts_and_without_the_definition_nothing_is_wrong() {
    let scene = scene();
    define(&scene);
    limit(&scene, "red", "red", "5");
    limit(&scene, "sick", "red", "9");
    scene.world.plan(GROUPS, Request::Update, Fault::Status(409, 0), 3);
    let bridge = writing(&scene, &[]);
    until_shown(&scene, "red", "2");
    assert!(!scene.world.is_planned());
    // One that the cluster does not take holds up no other.
    scene.world.plan(GROUPS, Request::Update, Fault::Status(422, 0), 1);
    scene.world.create("pods", "shop", "c", pod("100m"));
    until("one was refused", || (!scene.world.is_planned()).then_some(()));
    scene.world.create("pods", "shop", "d", pod("100m"));
    until_shown(&scene, "red", "4");
    until_shown(&scene, "sick", "4");
    let refused = r#"quota_bridge_errors_total{resource="status",code="422"}"#;
    assert!(metric(&bridge, refused) >= 1.0);

    scene.world.delete(DEFINITIONS, "", GROUPS);
    until_known(&scene, "red", None);
    define(&scene);
    limit(&scene, "red", "red", "6");
    until_shown(&scene, "red", "4");
    scene.settle();
}

#[test]
fn their_status_is_written_by_whoever_leads() {
    let scene = scene();
    define(&scene);
    limit(&scene, "red", "red", "5");
    let mut first = writing(&scene, &LEASE);
    until_shown(&scene, "red", "2");
    let second = scene.bridge(
        &[
            &LEASE[..],
            &[&format!("--status.quotad={}", scene.quotad.url("api")), "--status.every=100ms"],
        ]
        .concat(),
    );
    first.kill();
    scene.world.create("pods", "shop", "c", pod("100m"));
    until("the second one leads", || leads(&second).then_some(()));
    until_shown(&scene, "red", "3");
    // A group of the ledger alone is not made in the cluster, and neither is its status.
    let group =
        json!({"selector": {"labels": {"matchLabels": {"team": "red"}}}, "hard": {"pods": "10"}});
    let url = format!("{}/v1/groups/ours", scene.quotad.url("api"));
    assert_eq!(ureq::put(url).send_json(group).unwrap().status(), 201);
    scene.world.create("pods", "shop", "d", pod("100m"));
    until_shown(&scene, "red", "4");
    assert_eq!(scene.world.get(GROUPS, "", "ours"), None);
}
