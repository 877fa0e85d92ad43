//! The webhook's rules: kept by whoever leads.

use serde_json::{Value, json};

use super::{
    certificates::WEBHOOKS,
    scene::{Scene, quota, until_ready},
    until,
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

#[test]
fn they_are_what_quotas_limit_and_are_put_right_again() {
    let scene = Scene::new();
    scene.world.create(
        "resourcequotas",
        "team-a",
        "some",
        quota(json!({"pods": "9", "configmaps": "9"})),
    );
    let install = || {
        let webhook = json!({"webhooks": [{"name": "a", "rules": [{"resources": ["*"]}]}]});
        scene.world.create(WEBHOOKS, "", "quota-ledger", webhook);
    };
    install();
    let bridge = scene.bridge(&[
        "--webhook.rules=quota-ledger",
        "--resources.include=[\"secrets\"]",
        "--resources.charge=[\"deployments.apps\"]",
    ]);
    until_ready(&bridge);
    let charged = ["apps/deployments", "apps/deployments/scale"];
    let expect = |counted: &[&str]| {
        let expected = [counted, &charged].concat();
        until("the rules are kept", || {
            (asked_about(&scene) == expected).then_some(())
        });
    };
    expect(&["/configmaps", "/secrets"]);
    // Another limit.
    scene.world.create(
        "resourcequotas",
        "team-b",
        "more",
        quota(json!({"count/widgets.example.com": "9"})),
    );
    expect(&["/configmaps", "/secrets", "example.com/widgets"]);
}
