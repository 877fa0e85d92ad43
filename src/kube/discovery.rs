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
    NAMESPACE_KIND, NAMESPACES, RELEASE, accept, applied,
    kind::{Kind, QUOTA_GROUP, QUOTA_GROUP_VERSION},
    reviews,
    services::{SERVICE_KIND, SERVICES},
};

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
        let core = json!({"metadata": {}, "versions": [
            {"version": super::VERSION, "resources": aggregated_resources(), "freshness": "Current"},
        ]});
        return aggregate(&headers, version, &json!([core]));
    }
    let everybody = ServerAddressByClientCIDR {
        client_cidr: "0.0.0.0/0".to_owned(),
        server_address: String::new(),
    };
    Json(APIVersions {
        server_address_by_client_cidrs: vec![everybody],
        versions: vec![super::VERSION.to_owned()],
    })
    .into_response()
}

pub(super) async fn groups(headers: HeaderMap) -> Response {
    match aggregated(&headers) {
        Some(version) => {
            let mut groups = reviews::aggregated();
            groups.push(aggregated_quota_group());
            aggregate(&headers, version, &groups.into())
        }
        None => {
            let mut groups = reviews::groups();
            groups.push(quota_group());
            Json(APIGroupList { groups }).into_response()
        }
    }
}

fn resource(name: &str, singular: &str, kind: &str, verbs: &[&str]) -> APIResource {
    APIResource {
        name: name.to_owned(),
        singular_name: singular.to_owned(),
        kind: kind.to_owned(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..APIResource::default()
    }
}

fn short(name: &str) -> Option<Vec<String>> {
    Some(vec![name.to_owned()])
}

/// The group of ClusterResourceQuota.
fn quota_group() -> APIGroup {
    let version = GroupVersionForDiscovery {
        group_version: Kind::Group.api_version().to_owned(),
        version: QUOTA_GROUP_VERSION.to_owned(),
    };
    APIGroup {
        name: QUOTA_GROUP.to_owned(),
        versions: vec![version.clone()],
        preferred_version: Some(version),
        ..APIGroup::default()
    }
}

/// `GET /apis/quota.openshift.io/v1`
pub(super) async fn quota_resources() -> Json<APIResourceList> {
    let (name, kind) = (Kind::Group.plural(), Kind::Group.name());
    Json(APIResourceList {
        group_version: Kind::Group.api_version().to_owned(),
        resources: vec![
            APIResource {
                short_names: short(GROUP_SHORT),
                ..resource(name, "clusterresourcequota", kind, &QUOTA_VERBS)
            },
            resource(&format!("{name}/status"), "", kind, &["get"]),
            APIResource {
                namespaced: true,
                ..resource(
                    applied::PLURAL,
                    "appliedclusterresourcequota",
                    applied::KIND,
                    &["get", "list"],
                )
            },
        ],
    })
}

/// The same in the aggregated form.
fn aggregated_quota_group() -> Value {
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
    json!({
        "metadata": {"name": QUOTA_GROUP},
        "versions": [{"version": QUOTA_GROUP_VERSION, "resources": resources, "freshness": "Current"}],
    })
}

pub(super) async fn resources() -> Json<APIResourceList> {
    let (name, kind) = (Kind::Quota.plural(), Kind::Quota.name());
    Json(APIResourceList {
        group_version: super::VERSION.to_owned(),
        resources: vec![
            APIResource {
                short_names: short("ns"),
                ..resource(NAMESPACES, "namespace", NAMESPACE_KIND, &["get", "list"])
            },
            APIResource {
                namespaced: true,
                short_names: short("quota"),
                categories: short(ALL),
                ..resource(name, "resourcequota", kind, &QUOTA_VERBS)
            },
            APIResource {
                namespaced: true,
                ..resource(&format!("{name}/status"), "", kind, &["get"])
            },
            APIResource {
                namespaced: true,
                ..resource(SERVICES, "service", SERVICE_KIND, &["list"])
            },
        ],
    })
}

fn aggregated_resources() -> Value {
    let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    json!([
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
    ])
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
    let is_cached = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|cached| cached.as_bytes() == tag.as_bytes());
    let mut response = match is_cached {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let content_type =
                format!("application/json;g={AGGREGATED};v={version};as={AGGREGATED_LIST}");
            ([(header::CONTENT_TYPE, content_type)], body).into_response()
        }
    };
    let answered = response.headers_mut();
    answered.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answered.insert(header::ETAG, tag);
    }
    response
}
