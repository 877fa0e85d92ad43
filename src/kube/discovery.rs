//! Discovery of versions, groups and resources: aggregated for kubectl 1.26 and later, in parts for older clients.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::{
    Failure, NAMESPACE_KIND, NAMESPACES, RELEASE, Result, VERSION, derived, object,
    request::Params,
    resource::{Kind, QUOTA_GROUP, QUOTA_GROUP_VERSION},
};
use crate::precondition;

const QUOTA_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The short name of groups in `oc`.
const GROUP_SHORT: &str = "clusterquota";

/// The category that `kubectl get all` lists: quotas are the only objects in a namespace.
const ALL: &str = "all";

/// The group and kind of an aggregated response.
const AGGREGATED: &str = "apidiscovery.k8s.io";
const AGGREGATED_LIST: &str = "APIGroupDiscoveryList";

pub(super) async fn version() -> Json<Value> {
    let [major, minor, _] = RELEASE.trim_start_matches('v').split('.').collect::<Vec<_>>()[..]
    else {
        return Json(Value::Null);
    };
    Json(json!({
        "major": major, "minor": minor, "gitVersion": format!("{RELEASE}+quotad-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

pub(super) async fn versions(headers: HeaderMap) -> Response {
    if let Some(version) = aggregated(&headers) {
        return aggregate(&headers, version, &json!([core()]));
    }
    let everybody = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": ""});
    let versions = json!({
        "kind": "APIVersions", "apiVersion": VERSION,
        "serverAddressByClientCIDRs": [everybody], "versions": [VERSION],
    });
    Json(versions).into_response()
}

pub(super) async fn groups(headers: HeaderMap) -> Response {
    let groups = [authentication(), authorization(), quota()];
    match aggregated(&headers) {
        Some(version) => aggregate(&headers, version, &json!(groups)),
        None => {
            let groups: Vec<_> = groups.iter().map(group_of).collect();
            let list = json!({"kind": "APIGroupList", "apiVersion": VERSION, "groups": groups});
            Json(list).into_response()
        }
    }
}

/// `GET /api/v1`
pub(super) async fn core_resources() -> Json<Value> {
    resources_of(&core())
}

/// `GET /apis/authentication.k8s.io/v1`
pub(super) async fn authentication_resources() -> Json<Value> {
    resources_of(&authentication())
}

/// `GET /apis/authorization.k8s.io/v1`
pub(super) async fn authorization_resources() -> Json<Value> {
    resources_of(&authorization())
}

/// `GET /apis/quota.openshift.io/v1`
pub(super) async fn quota_resources() -> Json<Value> {
    resources_of(&quota())
}

/// The core group, in the aggregated form. The separate documents are derived from this form.
fn core() -> Value {
    let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    let resources = json!([
        {
            "resource": NAMESPACES, "responseKind": kind(NAMESPACE_KIND), "scope": "Cluster",
            "singularResource": "namespace", "verbs": ["get", "list"], "shortNames": ["ns"],
        },
        {
            "resource": Kind::Quota.plural(), "responseKind": kind(Kind::Quota.name()), "scope": "Namespaced",
            "singularResource": "resourcequota", "verbs": QUOTA_VERBS, "shortNames": ["quota"],
            "categories": [ALL],
            "subresources": [{"subresource": "status", "responseKind": kind(Kind::Quota.name()), "verbs": ["get"]}],
        },
        {
            "resource": derived::EVENTS, "responseKind": kind(derived::EVENT), "scope": "Namespaced",
            "singularResource": "event", "verbs": ["list"], "shortNames": ["ev"],
        },
        {
            "resource": SERVICES, "responseKind": kind(SERVICE_KIND), "scope": "Namespaced",
            "singularResource": "service", "verbs": ["list"],
        },
    ]);
    group(&json!({}), &resources)
}

fn authentication() -> Value {
    let resources = json!([review("selfsubjectreviews", "SelfSubjectReview")]);
    group(&json!({"name": "authentication.k8s.io"}), &resources)
}

fn authorization() -> Value {
    let resources = json!([
        review("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ]);
    group(&json!({"name": "authorization.k8s.io"}), &resources)
}

/// The group of ClusterResourceQuota.
fn quota() -> Value {
    let kind =
        |kind: &str| json!({"group": QUOTA_GROUP, "version": QUOTA_GROUP_VERSION, "kind": kind});
    let resources = json!([
        {
            "resource": Kind::Group.plural(), "responseKind": kind(Kind::Group.name()), "scope": "Cluster",
            "singularResource": "clusterresourcequota", "verbs": QUOTA_VERBS, "shortNames": [GROUP_SHORT],
            "subresources": [
                {"subresource": "status", "responseKind": kind(Kind::Group.name()), "verbs": ["get"]},
            ],
        },
        {
            "resource": derived::APPLIED_PLURAL, "responseKind": kind(derived::APPLIED_KIND), "scope": "Namespaced",
            "singularResource": "appliedclusterresourcequota", "verbs": ["get", "list"],
        },
    ]);
    group(&json!({"name": QUOTA_GROUP}), &resources)
}

/// A group. All groups have the same version.
fn group(metadata: &Value, resources: &Value) -> Value {
    json!({
        "metadata": metadata,
        "versions": [{"version": VERSION, "resources": resources, "freshness": "Current"}],
    })
}

/// The resource of a review.
fn review(plural: &str, kind: &str) -> Value {
    json!({
        "resource": plural, "singularResource": kind.to_ascii_lowercase(), "scope": "Cluster", "verbs": ["create"],
        "responseKind": {"group": "", "version": "", "kind": kind},
    })
}

/// The document of a group among others.
fn group_of(aggregated: &Value) -> Value {
    let version = json!({"groupVersion": group_version(aggregated), "version": VERSION});
    json!({
        "kind": "APIGroup", "apiVersion": VERSION, "name": aggregated["metadata"]["name"],
        "versions": [version], "preferredVersion": version,
    })
}

/// The document of the resources of a group, each followed by its subresources.
fn resources_of(aggregated: &Value) -> Json<Value> {
    let mut resources = Vec::new();
    for resource in items(&aggregated["versions"][0]["resources"]) {
        let name = text(&resource["resource"]);
        let described = |name: &str, json: &Value| {
            let mut described = json!({
                "name": name, "singularName": text(&json["singularResource"]),
                "namespaced": resource["scope"] == "Namespaced",
                "kind": json["responseKind"]["kind"], "verbs": json["verbs"],
            });
            for field in ["shortNames", "categories"] {
                if let Some(names) = json.get(field) {
                    described[field] = names.clone();
                }
            }
            described
        };
        resources.push(described(name, resource));
        for json in items(&resource["subresources"]) {
            let name = format!("{name}/{}", text(&json["subresource"]));
            resources.push(described(&name, json));
        }
    }
    Json(json!({
        "kind": "APIResourceList", "apiVersion": VERSION,
        "groupVersion": group_version(aggregated), "resources": resources,
    }))
}

/// The version with the name of its group, which only the core group lacks.
fn group_version(aggregated: &Value) -> String {
    match aggregated["metadata"]["name"].as_str() {
        Some(name) => format!("{name}/{VERSION}"),
        None => VERSION.to_owned(),
    }
}

fn items(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> &str {
    json.as_str().unwrap_or_default()
}

/// The version of the aggregated form that the caller prefers to separate documents.
fn aggregated(headers: &HeaderMap) -> Option<&'static str> {
    for range in object::accepted(headers).filter(object::MediaRange::is_json) {
        match (range.get("as"), range.get("g"), range.get("v")) {
            (None, ..) => return None,
            (Some(AGGREGATED_LIST), Some(AGGREGATED), Some("v2")) => return Some("v2"),
            (Some(AGGREGATED_LIST), Some(AGGREGATED), Some("v2beta1")) => return Some("v2beta1"),
            _ => {}
        }
    }
    None
}

fn aggregate(headers: &HeaderMap, version: &str, items: &Value) -> Response {
    let body = json!({
        "kind": AGGREGATED_LIST, "apiVersion": format!("{AGGREGATED}/{version}"), "metadata": {}, "items": items,
    });
    let body = body.to_string();
    let tag = format!("\"{}\"", blake3::hash(body.as_bytes()).to_hex());
    let tag = HeaderValue::try_from(tag).expect("a hash is ASCII");
    let mut response = match precondition::has(headers, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let content_type =
                format!("application/json;g={AGGREGATED};v={version};as={AGGREGATED_LIST}");
            ([(header::CONTENT_TYPE, content_type)], body).into_response()
        }
    };
    let answered = response.headers_mut();
    answered.insert(header::VARY, HeaderValue::from_static("Accept"));
    answered.insert(header::ETAG, tag);
    response
}

/// The kind's plural in paths.
pub(super) const SERVICES: &str = "services";
/// The kind.
pub(super) const SERVICE_KIND: &str = "Service";

/// The empty list, for any selector.
///
/// # Errors
/// For a watch, which would never end.
pub(super) async fn services(params: Params) -> Result<Json<Value>> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    Ok(Json(json!({
        "kind": format!("{SERVICE_KIND}List"), "apiVersion": VERSION, "metadata": {"resourceVersion": ""},
        "items": [],
    })))
}
