//! Discovery of versions, groups and resources: aggregated for kubectl 1.26 and later, in parts for older clients.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{
        APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions,
        GroupVersionForDiscovery, ServerAddressByClientCIDR,
    },
    version::Info,
};
use serde_json::{Value, json};

use super::{
    NAMESPACE_KIND, NAMESPACES, RELEASE, VERSION, accept, applied,
    kind::{Kind, QUOTA_GROUP, QUOTA_GROUP_VERSION},
    services::{SERVICE_KIND, SERVICES},
};
use crate::api::precondition;

const QUOTA_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The short name of groups in `oc`.
const GROUP_SHORT: &str = "clusterquota";

/// The category that `kubectl get all` lists: quotas are the only objects in a namespace.
const ALL: &str = "all";

/// The group and kind of an aggregated response.
const AGGREGATED: &str = "apidiscovery.k8s.io";
const AGGREGATED_LIST: &str = "APIGroupDiscoveryList";

pub(super) async fn version() -> Json<Info> {
    let [major, minor, _] = RELEASE
        .trim_start_matches('v')
        .split('.')
        .collect::<Vec<_>>()[..]
    else {
        return Json(Info::default());
    };
    Json(Info {
        major: major.to_owned(),
        minor: minor.to_owned(),
        git_version: format!("{RELEASE}+quotad-{}", env!("CARGO_PKG_VERSION")),
        git_tree_state: "clean".to_owned(),
        build_date: "1970-01-01T00:00:00Z".to_owned(),
        compiler: "rustc".to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ..Info::default()
    })
}

pub(super) async fn versions(headers: HeaderMap) -> Response {
    if let Some(version) = aggregated(&headers) {
        return aggregate(&headers, version, &json!([core()]));
    }
    let everybody = ServerAddressByClientCIDR {
        client_cidr: "0.0.0.0/0".to_owned(),
        server_address: String::new(),
    };
    Json(APIVersions {
        server_address_by_client_cidrs: vec![everybody],
        versions: vec![VERSION.to_owned()],
    })
    .into_response()
}

pub(super) async fn groups(headers: HeaderMap) -> Response {
    let groups = [authentication(), authorization(), quota()];
    match aggregated(&headers) {
        Some(version) => aggregate(&headers, version, &json!(groups)),
        None => {
            let groups = groups.iter().map(group_of).collect();
            Json(APIGroupList { groups }).into_response()
        }
    }
}

/// `GET /api/v1`
pub(super) async fn core_resources() -> Json<APIResourceList> {
    resources_of(&core())
}

/// `GET /apis/authentication.k8s.io/v1`
pub(super) async fn authentication_resources() -> Json<APIResourceList> {
    resources_of(&authentication())
}

/// `GET /apis/authorization.k8s.io/v1`
pub(super) async fn authorization_resources() -> Json<APIResourceList> {
    resources_of(&authorization())
}

/// `GET /apis/quota.openshift.io/v1`
pub(super) async fn quota_resources() -> Json<APIResourceList> {
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
            "resource": applied::PLURAL, "responseKind": kind(applied::KIND), "scope": "Namespaced",
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
fn group_of(aggregated: &Value) -> APIGroup {
    let version = GroupVersionForDiscovery {
        group_version: group_version(aggregated),
        version: VERSION.to_owned(),
    };
    APIGroup {
        name: text(&aggregated["metadata"]["name"]),
        versions: vec![version.clone()],
        preferred_version: Some(version),
        ..APIGroup::default()
    }
}

/// The document of the resources of a group, each followed by its subresources.
fn resources_of(aggregated: &Value) -> Json<APIResourceList> {
    let mut resources = Vec::new();
    for resource in items(&aggregated["versions"][0]["resources"]) {
        let name = text(&resource["resource"]);
        let described = |name: String, json: &Value| APIResource {
            name,
            singular_name: text(&json["singularResource"]),
            namespaced: resource["scope"] == "Namespaced",
            kind: text(&json["responseKind"]["kind"]),
            verbs: texts(&json["verbs"]),
            short_names: json.get("shortNames").map(texts),
            categories: json.get("categories").map(texts),
            ..APIResource::default()
        };
        resources.push(described(name.clone(), resource));
        let subresources = items(&resource["subresources"]);
        resources.extend(subresources.map(|json| {
            let name = format!("{name}/{}", text(&json["subresource"]));
            described(name, json)
        }));
    }
    Json(APIResourceList {
        group_version: group_version(aggregated),
        resources,
    })
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

fn texts(json: &Value) -> Vec<String> {
    items(json).map(text).collect()
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

/// The version of the aggregated form that the caller prefers to separate documents.
fn aggregated(headers: &HeaderMap) -> Option<&'static str> {
    for range in accept::accepted(headers).filter(accept::MediaRange::is_json) {
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
