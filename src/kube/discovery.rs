//! What there is: versions, groups, resources; aggregated for kubectl from 1.26 on, in parts for older ones.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{
        APIGroupList, APIResource, APIResourceList, APIVersions, ServerAddressByClientCIDR,
    },
    version::Info,
};
use serde_json::{Value, json};

use super::{
    KIND, NAMESPACE_KIND, NAMESPACES, PLURAL, accept, reviews,
    services::{SERVICE_KIND, SERVICES},
};

/// The release of Kubernetes whose API this is.
pub(super) const RELEASE: &str = "v1.36.0";

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

/// The category that `kubectl get all` asks for: quotas are all that there is.
const ALL: &str = "all";

/// The group and kind of an aggregated answer.
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
        Some(version) => aggregate(&headers, version, &reviews::aggregated()),
        None => Json(APIGroupList {
            groups: reviews::groups(),
        })
        .into_response(),
    }
}

pub(super) async fn resources() -> Json<APIResourceList> {
    let resource = |name: &str, singular: &str, kind: &str, verbs: &[&str]| APIResource {
        name: name.to_owned(),
        singular_name: singular.to_owned(),
        kind: kind.to_owned(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..APIResource::default()
    };
    let short = |name: &str| Some(vec![name.to_owned()]);
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
                ..resource(PLURAL, "resourcequota", KIND, &QUOTA_VERBS)
            },
            APIResource {
                namespaced: true,
                ..resource(&format!("{PLURAL}/status"), "", KIND, &["get"])
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
            "resource": PLURAL, "responseKind": kind(KIND), "scope": "Namespaced",
            "singularResource": "resourcequota", "verbs": QUOTA_VERBS, "shortNames": ["quota"],
            "categories": [ALL],
            "subresources": [{"subresource": "status", "responseKind": kind(KIND), "verbs": ["get"]}],
        },
        {
            "resource": SERVICES, "responseKind": kind(SERVICE_KIND), "scope": "Namespaced",
            "singularResource": "service", "verbs": ["list"],
        },
    ])
}

/// The version of the aggregated form that the caller would rather have than parts.
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
    let known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
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
