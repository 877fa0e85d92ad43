//! The webhook's certificate: kept by whoever leads.

use serde_json::{Value, json};

use super::{
    leaders::{LEASE, leads},
    scene::Scene,
    until,
};

pub(crate) const WEBHOOKS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";

const CERTIFICATES: [&str; 4] = [
    "--certificates.secret=quotad-tls",
    "--certificates.webhook=quota-ledger",
    "--certificates.names=[\"quotad.quota.svc\"]",
    "--certificates.every=200ms",
];

/// What an installation makes, and what somebody may make of it again.
fn install(scene: &Scene) {
    let webhook =
        json!({"webhooks": [{"name": "a", "clientConfig": {"service": {"name": "quotad"}}}]});
    scene.world.create("secrets", "quota", "quotad-tls", json!({"type": "Opaque"}));
    scene.world.create(WEBHOOKS, "", "quota-ledger", webhook);
}

/// The Secret's data and the caBundle, once what is served is from a CA that is trusted.
fn kept(scene: &Scene) -> Option<(Value, String)> {
    let secret = scene.world.list("secrets").remove(0);
    let webhook = scene.world.list(WEBHOOKS).remove(0);
    let data = secret["data"].clone();
    let bundle = webhook["webhooks"][0]["clientConfig"]["caBundle"].as_str()?;
    let is_whole = ["ca.key", "tls.crt", "tls.key"]
        .iter()
        .all(|key| data[key].as_str().is_some_and(|text| !text.is_empty()));
    (is_whole && data["ca.crt"] == bundle).then(|| (data, bundle.to_owned()))
}

#[test]
fn the_leader_makes_it_and_makes_it_again() {
    let scene = Scene::new();
    install(&scene);
    let arguments: Vec<&str> = LEASE.into_iter().chain(CERTIFICATES).collect();
    let mut first = scene.bridge(&arguments);
    let (data, bundle) = until("there is a certificate", || kept(&scene));
    let second = scene.bridge(&arguments);

    first.kill();
    install(&scene);
    until("the second one leads", || leads(&second).then_some(()));
    let (again, trusted) = until("there is another certificate", || kept(&scene));
    assert_ne!(again["tls.key"], data["tls.key"]);
    assert_ne!(trusted, bundle);
    assert_eq!(until("nothing changes any more", || kept(&scene)), (again, trusted));
}
