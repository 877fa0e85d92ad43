//! Simulations: what other limits would have done.

use quota_client::wire::Simulation;
use serde_json::{Value, json};

use crate::world::{World, pods, widget};

const SIMULATE: &str = "/v1/simulate";
const EVER: &str = "2020-01-01T00:00:00Z";

fn quota(name: &str, hard: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "a"},
        "spec": {"hard": hard},
    })
}

/// Five reservations of two pods each, of which two are released, and a widget.
async fn history(world: &World) {
    world.quota(json!({"pods": "10"})).await;
    for number in 1..=5 {
        let body = pods(&format!("u{number}"), 2);
        let path = "/v1/namespaces/a/reservations";
        world.post(path, &body).await.is(201);
        if number == 3 {
            world.delete(&format!("{path}/u1")).await.is(204);
        }
    }
    world.events(&[widget("w1", 1, "4")]).await;
}

async fn simulated(world: &World, body: &Value) -> Simulation {
    let reply = world.post(SIMULATE, body).await;
    serde_json::from_value(reply.is(200).body.clone()).unwrap()
}

#[tokio::test]
async fn a_lower_limit_refuses_what_it_has_no_room_for() {
    let world = World::new();
    history(&world).await;
    let candidate = quota("q", json!({"pods": "4", "requests.example.com/units": "1"}));
    let body = json!({"from": EVER, "quotas": [candidate]});
    let simulation = simulated(&world, &body).await;
    assert_eq!(simulation.identity.decisions, 5);
    // The third one is refused; then the first one is released, and the fourth one fits.
    assert_eq!((simulation.granted, simulation.refused), (3, 2));
    assert_eq!(simulation.first_sequence, 1);
    assert_eq!(simulation.last_sequence, 8);
    let refused: Vec<_> = simulation.refusals.iter().map(|it| it.object.uid.to_string()).collect();
    assert_eq!(refused, ["u3", "u5"]);
    assert_eq!(simulation.refusals[0].limits[0].resource.as_deref(), Some("pods"));
    let [pods, units] = simulation.limits.as_slice() else {
        panic!("{simulation:?}");
    };
    assert_eq!(
        [&pods.hard.clone().unwrap(), &pods.peak, &pods.least_refusing_none]
            .map(ToString::to_string),
        ["4", "8", "8"]
    );
    assert_eq!((pods.grants, pods.refused), (5, 2));
    assert_eq!(pods.first_refused, Some(simulation.refusals[0].time));
    // Nobody asked for the widget.
    assert_eq!((units.grants, units.refused, units.peak.to_string()), (0, 0, "4".to_owned()));
    assert_ne!(units.time_full, "0s");
    assert!(!simulation.unknown.is_empty());
}

#[tokio::test]
async fn the_recorded_limits_and_no_limits_refuse_nothing() {
    let world = World::new();
    history(&world).await;
    for body in [
        json!({"from": EVER}),
        json!({"from": EVER, "quotas": [quota("q", json!({"pods": "10"}))]}),
        json!({"from": EVER, "delete": [{"kind": "ResourceQuota", "namespace": "a", "name": "q"}]}),
        json!({"from": EVER, "quotas": [quota("other", json!({"pods": "8"}))]}),
    ] {
        let simulation = simulated(&world, &body).await;
        assert_eq!((simulation.granted, simulation.refused), (5, 0), "{body}");
    }
    // No entry is written for the question.
    assert_eq!(world.get("/v1/usage").await.body["asOf"]["sequence"], 8);
}

#[tokio::test]
async fn a_group_is_simulated_for_all_of_its_namespaces() {
    let world = World::new();
    history(&world).await;
    let path = "/v1/namespaces/b/reservations";
    world.post(path, &pods("u9", 3)).await.is(201);
    let group = json!({
        "apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota", "metadata": {"name": "all"},
        "spec": {
            "selector": {"labels": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]}},
            "quota": {"hard": {"pods": "9"}},
        },
    });
    let body = json!({"from": EVER, "groups": [group]});
    let simulation = simulated(&world, &body).await;
    assert_eq!((simulation.granted, simulation.refused), (5, 1));
    assert_eq!(simulation.refusals[0].namespace, "b");
    let limit = &simulation.limits[0];
    assert_eq!((limit.namespace.as_ref(), &*limit.name), (None, "all"));
    assert_eq!([&limit.peak, &limit.least_refusing_none].map(ToString::to_string), ["11", "11"]);
}

#[tokio::test]
async fn a_period_has_only_its_own_entries() {
    let world = World::new();
    history(&world).await;
    let entries = world.get("/v1/entries").await;
    let third = &entries.items()[3];
    assert_eq!(third["event"]["type"], "ReservationGranted", "{third}");
    let body = json!({"from": third["time"], "to": third["time"], "quotas": [quota("q", json!({"pods": "0"}))]});
    let simulation = simulated(&world, &body).await;
    assert_eq!(simulation.identity.decisions, 0);
    assert_eq!(simulation.limits[0].peak.to_string(), "4");
    let refused = json!({"from": "2999-01-01T00:00:00Z"});
    world.post(SIMULATE, &refused).await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn all_that_is_wrong_with_limits_is_named() {
    let world = World::new();
    let body = json!({
        "from": EVER,
        "quotas": [
            quota("q", json!({"pods": "x", "requests.cpu": "y"})),
            quota("Q", json!({"pods": "-1"})),
            quota("twice", json!({"pods": "1"})),
            quota("twice", json!({"pods": "2"})),
            {"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota", "metadata": {"name": "g"},
             "spec": {"selector": {"labels": {"matchLabels": {"a": "b"}}}, "quota": {"hard": {"pods": "1"}}}},
        ],
        "delete": [{"kind": "ResourceQuota", "name": "q"}],
    });
    let reply = world.post(SIMULATE, &body).await;
    reply.is_refused(422, "Invalid");
    let fields: Vec<_> =
        reply.body["errors"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(
        fields,
        [
            "quotas[0].spec.hard[pods]",
            "quotas[0].spec.hard[requests.cpu]",
            "quotas[1].metadata.name",
            "quotas[1].spec.hard[pods]",
            "quotas[3].metadata.name",
            "quotas[4].kind",
            "delete[0].namespace",
        ]
    );
    // What is right alone may not fit into the tree.
    let group = json!({
        "kind": "ClusterResourceQuota",
        "metadata": {"name": "g", "annotations": {"quota-ledger.io/parent": "g"}},
        "spec": {"selector": {"labels": {"matchLabels": {"a": "b"}}}, "quota": {"hard": {"pods": "1"}}},
    });
    let reply = world.post(SIMULATE, &json!({"from": EVER, "groups": [group]})).await;
    reply.is_refused(422, "Invalid");
    let field = reply.body["errors"][0]["field"].as_str().unwrap();
    assert!(field.starts_with("groups[0].metadata.annotations"), "{field}");
    let unknown = json!({"kind": "ResourceQuota", "namespace": "a", "name": "nobody"});
    let reply = world.post(SIMULATE, &json!({"from": EVER, "delete": [unknown]})).await;
    reply.is_refused(404, "NotFound");
    let detail = reply.body["detail"].as_str().unwrap();
    assert!(detail.contains("quota nobody of namespace a"), "{detail}");
    for (wrong, reason) in
        [(json!({}), "Malformed"), (json!({"from": EVER, "quota": []}), "Malformed")]
    {
        world.post(SIMULATE, &wrong).await.is_refused(400, reason);
    }
}
