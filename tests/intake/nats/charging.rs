//! Charging workloads for their pods is switched on and off while both are there.

use quota_core::event::Event;
use quotad::api::Sources as _;
use serde_json::json;

use super::*;

fn listed(resource: &str, objects: &[serde_json::Value]) -> Vec<String> {
    let mark = |mark: &str| json!({"type": mark, "resource": resource}).to_string();
    let objects =
        objects.iter().map(|object| json!({"type": "ADDED", "object": object}).to_string());
    let mut all = vec![mark("RELIST_BEGIN")];
    all.extend(objects);
    all.push(mark("RELIST_END"));
    all
}

/// A deployment of three replicas, and two of its pods; never in another version.
fn lists() -> Vec<String> {
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a", "uid": "web", "resourceVersion": "5"},
        "spec": {"replicas": 3, "template": template}});
    let pod = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": format!("web-abc-{number}"), "namespace": "team-a", "uid": format!("pod-{number}"),
            "resourceVersion": "7", "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc",
                "uid": "rs", "controller": true}]},
            "spec": template["spec"]})
    };
    let mut all = listed("deployments.apps", &[deployment]);
    all.extend(listed("pods", &[pod(0), pod(1)]));
    all
}

fn pods(state: &State) -> i64 {
    let used = state.totals("team-a").used;
    used.get("pods").map_or(0, quota_semantics::quantity::Quantity::value)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_charged_is_counted_anew_when_the_rule_changes() {
    let mut scene = Scene::new();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    publish(&context, lists()).await;
    let daemon = scene.daemon().await;
    daemon.until("all is seen", |state| position(state) == 7).await;
    daemon.caught_up().await;
    assert_eq!(daemon.ledger.peek(pods), 2);
    assert!(!daemon.status.lag());
    daemon.stop().await;

    let mut last = 7;
    for (charge, expected) in [(vec!["deployments.apps"], 3), (vec![], 2)] {
        scene.config.admission.charge = charge.into_iter().map(str::to_owned).collect();
        let daemon = scene.daemon().await;
        daemon.caught_up().await;
        assert!(daemon.status.lag(), "pods are counted by the other rule");
        let kinds = |event: &Event| match event {
            Event::WorkloadsCharged { kinds } => Some(kinds.len()),
            _ => None,
        };
        assert_eq!(daemon.recorded(kinds).await, [scene.config.admission.charge.len()]);
        publish(&context, lists()).await;
        last += 7;
        daemon
            .until("all is listed", |state| position(state) == last && state.relist_count() == 0)
            .await;
        daemon.caught_up().await;
        assert_eq!(daemon.ledger.peek(pods), expected);
        let quiet = || (!daemon.status.lag()).then_some(());
        crate::support::until("nothing is outdated", quiet).await;
        daemon.stop().await;
    }
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    assert!(!daemon.status.lag(), "nothing was changed");
    daemon.stop().await;
}
