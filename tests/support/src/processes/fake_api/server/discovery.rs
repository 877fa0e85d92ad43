//! Version, health and discovery.

use std::collections::BTreeSet;

use axum::response::{IntoResponse as _, Response};
use http::header;
use serde_json::{Value, json};

use super::{json_answer, status};
use crate::fake_api::world::{Fault, Inner, Kind, Request, World};

/// Servers before this minor version have no aggregated discovery.
const AGGREGATED_SINCE: u32 = 26;

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
    let is_aggregated = inner.minor >= AGGREGATED_SINCE;
    let answer = match path {
        "/api" | "/apis" if is_aggregated => aggregated(&inner, path),
        _ if is_aggregated => return None,
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => groups(&inner),
        _ => resources(&inner, path)?,
    };
    let fault = inner.fault("discovery", Request::Discovery);
    if let Some(Fault::Status(code, wait)) = fault {
        let why = "discovery is broken";
        return Some(status(code, "ServiceUnavailable", why, wait));
    }
    if !is_aggregated {
        return Some(json_answer(&answer));
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

/// The names of groups, as older servers answer.
fn groups(inner: &Inner) -> Value {
    let groups = named(inner).into_iter().map(|group| {
        let version = version(&of(inner, group));
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    });
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>()})
}

/// The resources of one version of a group, as older servers answer.
fn resources(inner: &Inner, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let group = match parts.as_slice() {
        ["api", "v1"] => "",
        ["apis", group, _] => group,
        _ => return None,
    };
    let kinds = of(inner, group);
    let resource = |kind: &&Kind| json!({"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced, "verbs": VERBS});
    let mut resources: Vec<_> = kinds.iter().map(resource).collect();
    if group.is_empty() {
        let verbs = ["get", "patch", "update"];
        resources.push(
            json!({"name": "pods/status", "kind": "Pod", "namespaced": true, "verbs": verbs}),
        );
    }
    let has_any = !kinds.is_empty();
    has_any.then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}))
}
