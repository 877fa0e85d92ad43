//! Kinds that come and go, discovery that fails, credentials that change.

use std::fs;

use serde_json::json;

use super::{
    process::Program,
    scene::{Scene, quota, until_ready},
    until,
    world::{Fault, Request},
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const WIDGETS: &str = "widgets.example.com";

fn define(scene: &Scene) {
    let widgets = json!({"spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1"}]}});
    scene.world.create(DEFINITIONS, "", WIDGETS, widgets);
}

fn widgets(scene: &Scene, prefix: &str, count: usize) {
    for number in 0..count {
        scene.world.create(WIDGETS, "team-a", &format!("{prefix}-{number}"), json!({}));
    }
}

#[test]
fn a_kind_comes_with_a_quota_and_its_definition_and_goes_with_it() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    // A quota limits a kind that is not there yet.
    scene.world.create(
        "resourcequotas",
        "team-a",
        "more",
        quota(json!({"count/widgets.example.com": "9"})),
    );
    define(&scene);
    widgets(&scene, "w", 5);
    scene.settle();
    scene.until_used("team-a", "count/widgets.example.com", "5");

    // Its definition goes, and its objects without a word.
    scene.world.delete(DEFINITIONS, "", WIDGETS);
    scene.until_used("team-a", "count/widgets.example.com", "0");
    scene.settle();
    assert_eq!(scene.ended().len(), 5);

    define(&scene);
    widgets(&scene, "again", 3);
    scene.until_used("team-a", "count/widgets.example.com", "3");
    scene.settle();
}

/// Its objects go without a word while no bridge is there to see it. Of a kind that only quotas name the next bridge cannot
/// know that it was in the cluster.
#[test]
fn a_definition_of_an_included_kind_that_goes_while_nobody_leads_takes_its_objects_with_it() {
    let scene = Scene::new();
    define(&scene);
    widgets(&scene, "w", 5);
    let limits = quota(json!({"count/widgets.example.com": "9"}));
    scene.world.create("resourcequotas", "team-a", "more", limits);
    let include = ["--resources.include=widgets.example.com"];
    let mut bridge = scene.bridge(&include);
    scene.until_used("team-a", "count/widgets.example.com", "5");
    bridge.kill();
    scene.world.delete(DEFINITIONS, "", WIDGETS);
    let bridge = scene.bridge(&include);
    until_ready(&bridge);
    scene.until_used("team-a", "count/widgets.example.com", "0");
    scene.settle();
    assert_eq!(scene.ended().len(), 5);
}

/// While API servers are updated one by one, one of them may not serve what another one does.
#[test]
fn a_kind_of_kubernetes_that_discovery_leaves_out_keeps_its_objects() {
    const CLAIMS: &str = "resourceclaims.resource.k8s.io";
    let scene = Scene::new();
    let limits =
        quota(json!({"count/deployments.apps": "9", "count/resourceclaims.resource.k8s.io": "9"}));
    scene.world.create("resourcequotas", "team-a", "more", limits);
    scene.world.create(CLAIMS, "team-a", "c", json!({"spec": {"devices": {"requests": []}}}));
    scene.world.create("deployments.apps", "team-a", "d", json!({}));
    let bridge = scene.bridge(&[]);
    scene.until_used("team-a", "count/resourceclaims.resource.k8s.io", "1");
    scene.until_used("team-a", "count/deployments.apps", "1");
    scene.world.hide(CLAIMS);
    scene.world.hide("deployments.apps");
    // Two requests each time, of which the first ones may have been answered before.
    let discoveries = || scene.world.requests("discovery", "Discovery");
    let before = discoveries();
    until("discovery is read several times", || (discoveries() >= before + 8).then_some(()));
    scene.settle();
    assert!(scene.ended().is_empty(), "{}", bridge.log());
    assert_eq!(scene.used("team-a", "count/deployments.apps").as_deref(), Some("1"));
}

/// Its objects are shown whole for their labels, and counted under the name that the quota and the relists have.
#[test]
fn a_kind_of_an_unusual_plural_counts_under_its_name() {
    const SHEEP: &str = "sheep.example.com";
    let scene = Scene::new();
    let definition = json!({"spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "sheep", "kind": "Sheep"}, "versions": [{"name": "v1"}]}});
    scene.world.create(DEFINITIONS, "", SHEEP, definition);
    let limits = quota(json!({"count/sheep.example.com": "9"}));
    scene.world.create("resourcequotas", "team-a", "more", limits);
    for name in ["a", "b"] {
        scene.world.create(SHEEP, "team-a", name, json!({}));
    }
    let bridge = scene.bridge(&["--resources.object_labels=app"]);
    until_ready(&bridge);
    scene.until_used("team-a", "count/sheep.example.com", "2");
    assert!(scene.outcomes(SHEEP).contains(&"Complete".to_owned()));
}

#[test]
fn discovery_that_fails_takes_no_kind_away() {
    let scene = Scene::new();
    define(&scene);
    widgets(&scene, "w", 3);
    scene.world.plan("discovery", Request::Discovery, Fault::Status(503, 0), 3);
    let bridge = scene.bridge(&["--resources.include=widgets.example.com"]);
    until_ready(&bridge);
    scene.settle();
    scene.world.plan("discovery", Request::Discovery, Fault::Status(503, 0), 6);
    scene.churn("meanwhile");
    until("discovery fails", || (!scene.world.is_planned()).then_some(()));
    scene.settle();
    assert!(scene.ended().is_empty());
}

#[test]
fn a_token_that_is_renewed_is_read_again() {
    let scene = Scene::new();
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    let config = directory.path().join("kubeconfig");
    fs::write(&token, "one").unwrap();
    let server = &scene.api;
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{tokenFile: token}}}}]\n"
    );
    fs::write(&config, text).unwrap();
    scene.world.require_token("one");
    let config = config.to_str().unwrap();
    let mut command = scene.command_between(&["--kubeconfig", config], &scene.nats.url());
    let bridge = Program::start(&mut command);
    until_ready(&bridge);
    scene.settle();
    scene.world.require_token("two");
    scene.world.cut();
    scene.churn("renewed");
    fs::write(&token, "two").unwrap();
    scene.settle();
}

#[test]
fn in_some_namespaces_only_those_are_listed_and_ended() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--namespaces=team-a"]);
    until_ready(&bridge);
    scene.until_used("team-a", "pods", "7");
    scene.world.delete("pods", "team-a", "first-3");
    scene.until_used("team-a", "pods", "6");
    assert_eq!(scene.used("team-b", "services"), None);
}
