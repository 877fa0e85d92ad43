//! Version, health and discovery.

use std::collections::BTreeSet;

use axum::response::{IntoResponse as _, Response};
use http::header;
use serde_json::{Value, json};

use super::{json_answer, status};
use crate::fake_api::world::{Fault, Inner, Kind, Request, World};

const VERBS: [&str; 6] = ["create", "delete", "get", "list", "update", "watch"];

/// The answer to a request that is about the server itself.
pub(super) fn about(world: &World, path: &str) -> Option<Response> {
    let mut inner = world.lock();
    match path {
        "/version" => {
            let minor = inner.minor;
            let version = json!({"major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0")});
            return Some(json_answer(&version));
        }
        "/readyz" | "/livez" | "/healthz" => return Some("ok".into_response()),
        _ => {}
    }
    let answer = match path {
        "/api" | "/apis" => aggregated(&inner, path),
        _ => return None,
    };
    let fault = inner.fault("discovery", Request::Discovery);
    if let Some(Fault::Status(code, wait)) = fault {
        let why = "discovery is broken";
        return Some(status(code, "ServiceUnavailable", why, wait));
    }
    let content = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    Some(([(header::CONTENT_TYPE, content)], answer.to_string()).into_response())
}

fn shown(inner: &Inner) -> impl Iterator<Item = &Kind> {
    let kinds = inner.kinds.iter();
    let shown = kinds.filter(|(name, _)| !inner.hidden.contains(*name));
    shown.map(|(_, kind)| kind)
}

fn named(inner: &Inner) -> BTreeSet<&str> {
    let groups = shown(inner).map(|kind| kind.group.as_str());
    groups.filter(|group| !group.is_empty()).collect()
}

fn of<'a>(inner: &'a Inner, group: &str) -> Vec<&'a Kind> {
    shown(inner).filter(|kind| kind.group == group).collect()
}

fn version<'a>(kinds: &[&'a Kind]) -> &'a str {
    kinds.first().map_or("v1", |kind| &kind.version)
}

/// All groups, with their resources.
fn aggregated(inner: &Inner, path: &str) -> Value {
    let groups = match path {
        "/api" => BTreeSet::from([""]),
        _ => named(inner),
    };
    let groups = groups.into_iter().map(|group| {
        let kinds = of(inner, group);
        let resource = |kind: &&Kind| {
            json!({
                "resource": kind.plural, "singularResource": kind.kind.to_lowercase(),
                "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
                "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
                "verbs": VERBS,
            })
        };
        let resources: Vec<_> = kinds.iter().map(resource).collect();
        let versions =
            json!([{"version": version(&kinds), "freshness": "Current", "resources": resources}]);
        json!({"metadata": {"name": group}, "versions": versions})
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups.collect::<Vec<_>>(),
    })
}
