//! What the objects of the API look like: for `kubectl explain`, for kubectl's own checks of a manifest, and for
//! ours of fields that are not known.
//!
//! `schemas.json` holds Kubernetes' published schemas of ResourceQuota and Namespace (as in `k8s-openapi`), with the
//! list types that server-side apply and strategic merge patches go by, and what the status of a quota has here
//! beside Kubernetes' fields.

mod unknown;
mod v2;

use std::sync::LazyLock;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

use super::{KIND, NAMESPACE_KIND, PLURAL, accept, discovery::RELEASE};

pub(super) use unknown::unknown_fields;

/// The protobuf of an OpenAPI v2 document, as clients name it: an older and a newer way.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("schemas.json"))
        .expect("the schemas are part of the program, and tested")
});

/// The document of the core group, version 3.
static V3: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Quota Ledger", "version": RELEASE},
        "paths": paths(),
        "components": {"schemas": &*SCHEMAS},
    })
});

/// Changes with the document, so that clients can keep it.
static V3_HASH: LazyLock<String> =
    LazyLock::new(|| blake3::hash(V3.to_string().as_bytes()).to_hex().to_string());

static V2: LazyLock<Value> = LazyLock::new(|| v2::document(&V3));

static V2_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| v2::encode(&V2));

pub(super) async fn index() -> Json<Value> {
    let url = format!("/openapi/v3/api/v1?hash={}", *V3_HASH);
    Json(json!({"paths": {"api/v1": {"serverRelativeURL": url}}}))
}

pub(super) async fn v3() -> Response {
    let mut response = Json(&*V3).into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", *V3_HASH)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

pub(super) async fn v2(headers: HeaderMap) -> Response {
    for range in accept::accepted(&headers) {
        if let Some(essence) = V2_PROTOBUF.into_iter().find(|essence| range.is(essence)) {
            // The older name's `@` is not allowed in a media type, so the newer one is answered.
            let _ = essence;
            return (
                [(header::CONTENT_TYPE, V2_PROTOBUF[1])],
                V2_BYTES.as_slice(),
            )
                .into_response();
        }
        if range.is_json() {
            break;
        }
    }
    Json(&*V2).into_response()
}

/// The name of a kind's schema.
fn schema_of(kind: &str) -> String {
    format!("io.k8s.api.core.v1.{kind}")
}

fn paths() -> Value {
    let quotas = format!("/api/v1/namespaces/{{namespace}}/{PLURAL}");
    let quota = format!("{quotas}/{{name}}");
    let all = format!("/api/v1/{PLURAL}");
    let read = ["get"].as_slice();
    json!({
        all: path(KIND, read, "list"),
        quotas: path(KIND, &["get", "post", "delete"], "list"),
        quota: path(KIND, &["get", "put", "patch", "delete"], "get"),
        "/api/v1/namespaces": path(NAMESPACE_KIND, read, "list"),
        "/api/v1/namespaces/{name}": path(NAMESPACE_KIND, read, "get"),
    })
}

/// The operations of a path; `reading` is what its `get` does.
fn path(kind: &str, methods: &[&str], reading: &str) -> Value {
    let operation = |method: &&str| {
        let action = match *method {
            "get" => reading,
            method => method,
        };
        let operation = json!({
            "description": format!("{action} {kind}"),
            "operationId": format!("{action}CoreV1{kind}"),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": kind},
            "parameters": parameters(method),
            "responses": {"200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", schema_of(kind))}}},
            }},
        });
        ((*method).to_owned(), operation)
    };
    methods
        .iter()
        .map(operation)
        .collect::<serde_json::Map<_, _>>()
        .into()
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
        _ => &[
            ("dryRun", "string"),
            ("fieldManager", "string"),
            ("fieldValidation", "string"),
        ],
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
        for document in [&*V3, &*V2] {
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
        for kind in [KIND, NAMESPACE_KIND] {
            let expected = json!([{"group": "", "version": "v1", "kind": kind}]);
            assert_eq!(
                SCHEMAS[schema_of(kind)]["x-kubernetes-group-version-kind"],
                expected
            );
        }
        assert!(V2_BYTES.len() > 10_000);
    }
}
