//! The schemas of the API: for `kubectl explain`, for kubectl's validation of manifests, and for this API's own check
//! of unknown fields.
//!
//! `schemas.json` holds Kubernetes' published schemas of ResourceQuota and Namespace, with the list types that
//! server-side apply and strategic merge patches need; OpenShift's ClusterResourceQuota; and the additional status
//! fields of both.

mod unknown;
mod v2;

use std::sync::LazyLock;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

use super::{
    NAMESPACE_KIND, RELEASE, accept, applied,
    kind::{Kind, QUOTA_GROUP, QUOTA_GROUP_VERSION},
};

pub(super) use unknown::unknown_fields;

/// The media types of an OpenAPI v2 document in protobuf: the older and the newer name.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("schemas.json"))
        .expect("the schemas are part of the program, and tested")
});

/// The version 3 document of the core group.
static CORE: LazyLock<V3> = LazyLock::new(|| V3::of(paths_of_core()));

/// The version 3 document of the group of ClusterResourceQuota.
static GROUPS: LazyLock<V3> = LazyLock::new(|| V3::of(paths_of_groups()));

/// A document of version 3.
struct V3 {
    document: Value,
    /// Changes with the document, so that clients can cache it.
    hash: String,
}

impl V3 {
    fn of(paths: Value) -> Self {
        let document = json!({
            "openapi": "3.0.0",
            "info": {"title": "Quota Ledger", "version": RELEASE},
            "paths": paths,
            "components": {"schemas": &*SCHEMAS},
        });
        let hash = blake3::hash(document.to_string().as_bytes());
        Self { hash: hash.to_hex().to_string(), document }
    }

    fn answer(&'static self) -> Response {
        let mut response = Json(&self.document).into_response();
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.hash)) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// The version 2 document of all groups.
static V2: LazyLock<Value> = LazyLock::new(|| {
    let mut all = CORE.document.clone();
    let more = GROUPS.document["paths"].as_object().cloned();
    if let Some(paths) = all["paths"].as_object_mut() {
        paths.extend(more.unwrap_or_default());
    }
    v2::document(&all)
});

static V2_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| v2::encode(&V2));

pub(super) async fn index() -> Json<Value> {
    let groups = format!("apis/{}", Kind::Group.api_version());
    let place = |path: &str, document: &V3| {
        let url = format!("/openapi/v3/{path}?hash={}", document.hash);
        json!({"serverRelativeURL": url})
    };
    Json(json!({"paths": {"api/v1": place("api/v1", &CORE), &groups: place(&groups, &GROUPS)}}))
}

pub(super) async fn v3() -> Response {
    CORE.answer()
}

pub(super) async fn v3_groups() -> Response {
    GROUPS.answer()
}

pub(super) async fn v2(headers: HeaderMap) -> Response {
    for range in accept::accepted(&headers) {
        if V2_PROTOBUF.iter().any(|essence| range.is(essence)) {
            // The older name contains an `@`, which a media type must not, so the response uses the newer name.
            return ([(header::CONTENT_TYPE, V2_PROTOBUF[1])], V2_BYTES.as_slice()).into_response();
        }
        if range.is_json() {
            break;
        }
    }
    Json(&*V2).into_response()
}

/// The API group of a kind; empty for the core group.
fn group_of(kind: &str) -> &'static str {
    match kind == Kind::Group.name() || kind == applied::KIND {
        true => QUOTA_GROUP,
        false => "",
    }
}

/// The name of a kind's schema.
fn schema_of(kind: &str) -> String {
    match group_of(kind) {
        "" => format!("io.k8s.api.core.v1.{kind}"),
        // An applied group has the same schema.
        _ => format!("com.github.openshift.api.quota.v1.{kind}"),
    }
}

const WRITTEN: [&str; 3] = ["get", "post", "delete"];
const WRITTEN_ONE: [&str; 4] = ["get", "put", "patch", "delete"];

fn paths_of_groups() -> Value {
    let root = format!("/apis/{QUOTA_GROUP}/{QUOTA_GROUP_VERSION}");
    let groups = format!("{root}/{}", Kind::Group.plural());
    let group = format!("{groups}/{{name}}");
    let applied = format!("{root}/namespaces/{{namespace}}/{}", applied::PLURAL);
    let applied_group = format!("{applied}/{{name}}");
    json!({
        groups: path(Kind::Group.name(), &WRITTEN, "list"),
        group: path(Kind::Group.name(), &WRITTEN_ONE, "get"),
        applied: path(applied::KIND, &["get"], "list"),
        applied_group: path(applied::KIND, &["get"], "get"),
    })
}

fn paths_of_core() -> Value {
    let (kind, plural) = (Kind::Quota.name(), Kind::Quota.plural());
    let quotas = format!("/api/v1/namespaces/{{namespace}}/{plural}");
    let quota = format!("{quotas}/{{name}}");
    let all = format!("/api/v1/{plural}");
    let read = ["get"].as_slice();
    json!({
        all: path(kind, read, "list"),
        quotas: path(kind, &WRITTEN, "list"),
        quota: path(kind, &WRITTEN_ONE, "get"),
        "/api/v1/namespaces": path(NAMESPACE_KIND, read, "list"),
        "/api/v1/namespaces/{name}": path(NAMESPACE_KIND, read, "get"),
    })
}

/// The operations of a path; `reading` is the operation of its `get`.
fn path(kind: &str, methods: &[&str], reading: &str) -> Value {
    let operation = |method: &&str| {
        let action = match *method {
            "get" => reading,
            method => method,
        };
        let operation = json!({
            "description": format!("{action} {kind}"),
            "operationId": format!("{action}{}V1{kind}", if group_of(kind).is_empty() { "Core" } else { "Quota" }),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": group_of(kind), "version": "v1", "kind": kind},
            "parameters": parameters(method),
            "responses": {"200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", schema_of(kind))}}},
            }},
        });
        ((*method).to_owned(), operation)
    };
    methods.iter().map(operation).collect::<serde_json::Map<_, _>>().into()
}

fn parameters(method: &str) -> Value {
    let query =
        |name: &str, kind: &str| json!({"name": name, "in": "query", "schema": {"type": kind}});
    let names: &[(&str, &str)] = match method {
        "get" => &[
            ("limit", "integer"),
            ("continue", "string"),
            ("labelSelector", "string"),
            ("fieldSelector", "string"),
            ("resourceVersion", "string"),
            ("watch", "boolean"),
        ],
        "delete" => &[("dryRun", "string")],
        "patch" => &[
            ("dryRun", "string"),
            ("fieldManager", "string"),
            ("fieldValidation", "string"),
            ("force", "boolean"),
        ],
        _ => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
    };
    names.iter().map(|(name, kind)| query(name, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        for document in [&CORE.document, &GROUPS.document, &*V2] {
            let mut found = Vec::new();
            references(document, &mut found);
            assert!(found.len() > 10);
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn the_kinds_can_be_found() {
        for kind in [Kind::Quota.name(), NAMESPACE_KIND, Kind::Group.name(), applied::KIND] {
            let expected = json!([{"group": group_of(kind), "version": "v1", "kind": kind}]);
            assert_eq!(SCHEMAS[schema_of(kind)]["x-kubernetes-group-version-kind"], expected);
        }
        assert!(V2_BYTES.len() > 10_000);
    }
}
