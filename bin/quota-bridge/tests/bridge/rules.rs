//! The webhook's rules: kept by whoever leads.

use serde_json::{Value, json};

use super::{
    certificates::WEBHOOKS,
    scene::{Scene, ask, quota, until_ready},
    until,
    world::{Fault, Request},
};

/// What the API server asks about besides what it always asks about.
fn asked_about(scene: &Scene) -> Vec<String> {
    let webhook = scene.world.list(WEBHOOKS).remove(0);
    let rules = webhook["webhooks"][0]["rules"].as_array().cloned();
    let kind = |rule: &Value| {
        let text = |key: &str| rule[key][0].as_str().unwrap().to_owned();
        format!("{}/{}", text("apiGroups"), text("resources"))
    };
    let rules = rules.unwrap_or_default();
    rules.iter().skip(3).map(kind).collect()
}

fn until_asked_about(scene: &Scene, expected: &[&str]) {
    until("the rules are kept", || (asked_about(scene) == expected).then_some(()));
}

fn install(scene: &Scene) {
    let webhook = json!({"webhooks": [{"name": "a", "rules": [{"resources": ["*"]}]}]});
    scene.world.create(WEBHOOKS, "", "quota-ledger", webhook);
}

/// A quota of this namespace.
fn limit(scene: &Scene, namespace: &str, hard: Value) {
    let kind = "resourcequotas";
    scene.world.create(kind, namespace, "more", quota(hard));
}

#[test]
fn they_are_what_quotas_limit_and_are_put_right_again() {
    let scene = Scene::new();
    limit(&scene, "team-a", json!({"pods": "9", "configmaps": "9"}));
    install(&scene);
    let bridge = scene.bridge(&[
        "--webhook.rules=quota-ledger",
        "--resources.include=[\"secrets\"]",
        "--resources.charge=[\"deployments.apps\"]",
    ]);
    until_ready(&bridge);
    let charged = ["apps/deployments", "apps/deployments/scale"];
    let expect = |counted: &[&str]| until_asked_about(&scene, &[counted, &charged].concat());
    expect(&["/configmaps", "/secrets"]);
    // Another limit.
    let more = json!({"count/widgets.example.com": "9"});
    limit(&scene, "team-b", more);
    expect(&["/configmaps", "/secrets", "example.com/widgets"]);
}

/// Whoever writes a quota may name a kind that the bridge may not list.
#[test]
fn a_kind_that_may_not_be_listed_keeps_no_other_limits_out_of_force() {
    let scene = Scene::new();
    for request in [Request::List, Request::WatchList] {
        let forbidden = Fault::Status(403, 0);
        scene.world.plan("secrets", request, forbidden, 1_000);
    }
    limit(&scene, "team-a", json!({"count/secrets": "9"}));
    install(&scene);
    let bridge = scene.bridge(&["--webhook.rules=quota-ledger"]);
    until_asked_about(&scene, &["/configmaps", "/secrets"]);
    let more = json!({"count/widgets.example.com": "9"});
    limit(&scene, "team-b", more);
    until_asked_about(&scene, &["/configmaps", "/secrets", "example.com/widgets"]);
    let url = format!("{}/readyz", bridge.url("admin"));
    until("the bridge is ready, and names the kind", || {
        let (status, text) = ask(&url);
        (status == 200 && text.contains("no watermark yet: secrets")).then_some(())
    });
}
