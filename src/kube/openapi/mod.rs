//! The schemas of the API: for `kubectl explain`, for kubectl's validation of manifests, and for this API's own check
//! of unknown fields.
//!
//! `schemas.json` holds Kubernetes' published schemas of ResourceQuota and Namespace, with the list types that
//! server-side apply and strategic merge patches need; OpenShift's ClusterResourceQuota; and the additional status
//! fields of both.

use std::sync::LazyLock;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value, json};

use super::{
    NAMESPACE_KIND, RELEASE, derived, object,
    resource::{Kind, QUOTA_GROUP, QUOTA_GROUP_VERSION},
};

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
    document(&all)
});

static V2_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| encode(&V2));

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
    for range in object::accepted(&headers) {
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
    match kind == Kind::Group.name() || kind == derived::APPLIED_KIND {
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
    let applied = format!("{root}/namespaces/{{namespace}}/{}", derived::APPLIED_PLURAL);
    let applied_group = format!("{applied}/{{name}}");
    json!({
        groups: path(Kind::Group.name(), &WRITTEN, "list"),
        group: path(Kind::Group.name(), &WRITTEN_ONE, "get"),
        applied: path(derived::APPLIED_KIND, &["get"], "list"),
        applied_group: path(derived::APPLIED_KIND, &["get"], "get"),
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

// The same schemas as OpenAPI v2, in JSON and in the protobuf that kubectl before 1.27 requests.
//
// The messages are those of `openapiv2/OpenAPIv2.proto` of google/gnostic, limited to the parts used here.

/// The v2 document of a v3 document.
fn document(v3: &Value) -> Value {
    let paths = v3["paths"].as_object().into_iter().flatten();
    let paths = paths.map(|(path, item)| {
        let operations = item.as_object().into_iter().flatten();
        let operations = operations.map(|(method, of)| (method.clone(), operation(of)));
        (path.clone(), Value::Object(operations.collect::<Map<_, _>>()))
    });
    let schemas = v3["components"]["schemas"].as_object().into_iter().flatten();
    let definitions = schemas.map(|(name, of)| (name.clone(), schema(of)));
    json!({
        "swagger": "2.0",
        "info": v3["info"],
        "paths": paths.collect::<Map<_, _>>(),
        "definitions": definitions.collect::<Map<_, _>>(),
    })
}

fn operation(v3: &Value) -> Value {
    let mut v2 = v3.clone();
    for parameter in v2["parameters"].as_array_mut().into_iter().flatten() {
        parameter["type"] = parameter["schema"]["type"].take();
        if let Some(parameter) = parameter.as_object_mut() {
            parameter.remove("schema");
        }
    }
    if let Some(answer) = v2.pointer_mut("/responses/200").and_then(Value::as_object_mut) {
        let content = answer.remove("content");
        let found =
            content.as_ref().and_then(|content| content.pointer("/application~1json/schema"));
        answer.insert("schema".to_owned(), found.map(schema).unwrap_or_default());
    }
    v2
}

/// In v2 a reference can only be accompanied by a description, and there is no `oneOf`.
fn schema(v3: &Value) -> Value {
    match v3 {
        Value::Object(map) => {
            let mut v2 = Map::new();
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Value::String(reference)) => {
                        let reference =
                            reference.replace("#/components/schemas/", "#/definitions/");
                        v2.insert("$ref".to_owned(), reference.into());
                    }
                    ("allOf", _) => {
                        if let Some(reference) = value.pointer("/0").map(schema) {
                            v2.extend(reference.as_object().cloned().unwrap_or_default());
                        }
                    }
                    ("oneOf", _) => {
                        v2.insert("type".to_owned(), "string".into());
                    }
                    _ => {
                        v2.insert(key.clone(), schema(value));
                    }
                }
            }
            Value::Object(v2)
        }
        Value::Array(items) => items.iter().map(schema).collect(),
        other => other.clone(),
    }
}

/// The protobuf of a v2 document.
fn encode(v2: &Value) -> Vec<u8> {
    let info = Message::default().text(1, &v2["info"]["title"]).text(2, &v2["info"]["version"]);
    let paths = Message::default().named(2, fields(&v2["paths"]), path_item);
    let definitions = Message::default().named(1, fields(&v2["definitions"]), schema_message);
    let document = Message::default()
        .text(1, &v2["swagger"])
        .with(2, [info])
        .with(8, [paths])
        .with(9, [definitions]);
    document.0
}

/// A protobuf message. All fields used here are texts and messages; they are added in the order of their numbers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A text as the content of a field; none if it is empty, as proto3 leaves out empty fields.
    fn of_text(json: &Value) -> Option<Self> {
        let text = json.as_str().filter(|text| !text.is_empty())?;
        Some(Self(text.into()))
    }

    /// Adds a field once for each content.
    fn with(mut self, number: usize, contents: impl IntoIterator<Item = Self>) -> Self {
        for Self(content) in contents {
            // The number and the wire type of bytes, and the length of these bytes, are varints.
            for varint in [(number << 3) | 2, content.len()] {
                prost::encode_length_delimiter(varint, &mut self.0).expect("a vector grows");
            }
            self.0.extend(content);
        }
        self
    }

    /// Adds a text.
    fn text(self, number: usize, json: &Value) -> Self {
        self.with(number, Self::of_text(json))
    }

    /// Adds a map: a message for each of these fields, with its name and its value.
    fn named<'a>(
        self,
        number: usize,
        fields: impl Iterator<Item = (&'a String, &'a Value)>,
        value: impl Fn(&Value) -> Self,
    ) -> Self {
        let entry = |(name, of): (&String, &Value)| {
            let name = Self(name.as_bytes().to_vec());
            Self::default().with(1, [name]).with(2, [value(of)])
        };
        self.with(number, fields.map(entry))
    }

    /// Adds the extensions of an object. They are YAML texts, and JSON is YAML.
    fn extensions(self, number: usize, json: &Value) -> Self {
        let extensions = fields(json).filter(|(name, _)| name.starts_with("x-"));
        self.named(number, extensions, |value| {
            let yaml = Self(value.to_string().into_bytes());
            Self::default().with(2, [yaml])
        })
    }
}

/// `PathItem`
fn path_item(json: &Value) -> Message {
    let methods = [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")];
    let operation = |message: Message, (number, method)| {
        message.with(number, json.get(method).map(operation_message))
    };
    methods.into_iter().fold(Message::default(), operation)
}

/// `Operation`
fn operation_message(json: &Value) -> Message {
    // `QueryParameterSubSchema`, within `NonBodyParameter`, `Parameter` and `ParametersItem`.
    let parameter = |json: &Value| {
        let query =
            Message::default().text(2, &json["in"]).text(4, &json["name"]).text(6, &json["type"]);
        let within = |message, number| Message::default().with(number, [message]);
        [3, 2, 1].into_iter().fold(query, within)
    };
    let parameters = json["parameters"].as_array().into_iter().flatten();
    Message::default()
        .text(3, &json["description"])
        .text(5, &json["operationId"])
        .with(8, parameters.map(parameter))
        .extensions(13, json)
}

/// `Schema`
fn schema_message(json: &Value) -> Message {
    let required = json["required"].as_array().into_iter().flatten();
    let kind = |of| Message::default().text(1, of);
    let schema = |of| Message::default().with(1, [schema_message(of)]);
    let properties = |of| Message::default().named(1, fields(of), schema_message);
    Message::default()
        .text(1, &json["$ref"])
        .text(2, &json["format"])
        .text(4, &json["description"])
        .with(19, required.filter_map(Message::of_text))
        .with(21, json.get("additionalProperties").map(schema))
        .with(22, json.get("type").map(kind))
        .with(23, json.get("items").map(schema))
        .with(25, json.get("properties").map(properties))
        .extensions(31, json)
}

fn fields(json: &Value) -> impl Iterator<Item = (&String, &Value)> {
    json.as_object().into_iter().flatten()
}

// Finds fields that the schema does not define.

/// The paths of the fields of an object that the schema of its kind does not define, in order.
pub(in crate::kube) fn unknown_fields(kind: &str, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(schema) = SCHEMAS.get(schema_of(kind)) {
        walk(schema, object, "", &mut found);
    }
    found.sort();
    found
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let schema = resolve(schema);
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, value) in fields {
                match (
                    properties.and_then(|properties| properties.get(key)),
                    schema.get("additionalProperties"),
                ) {
                    (Some(schema), _) | (None, Some(schema)) => {
                        walk(schema, value, &below(key), found);
                    }
                    (None, None) if properties.is_some() => found.push(below(key)),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else {
                return;
            };
            for (place, item) in items.iter().enumerate() {
                walk(schema, item, &format!("{path}[{place}]"), found);
            }
        }
        _ => {}
    }
}

/// The schema that a reference points to.
fn resolve(schema: &Value) -> &Value {
    let reference =
        schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    let name = reference.and_then(|reference| reference.rsplit('/').next());
    name.and_then(|name| SCHEMAS.get(name)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        for kind in [Kind::Quota.name(), NAMESPACE_KIND, Kind::Group.name(), derived::APPLIED_KIND]
        {
            let expected = json!([{"group": group_of(kind), "version": "v1", "kind": kind}]);
            assert_eq!(SCHEMAS[schema_of(kind)]["x-kubernetes-group-version-kind"], expected);
        }
        assert!(V2_BYTES.len() > 10_000);
    }

    #[test]
    fn fields_are_known_by_the_schema() {
        let object = json!({
            "apiVersion": "v1",
            "kindd": "ResourceQuota",
            "metadata": {"name": "a", "labels": {"any": "label"}, "ownerReferences": [{"uid": "u", "x": 1}],
                "managedFields": [{"fieldsV1": {"f:anything": {}}}]},
            "spec": {"hard": {"example.com/any": "1"}, "hrd": {}, "scopeSelector": {"matchExpressions": [{"y": 1}]}},
            "status": {"used": {}, "reserved": {}, "reservations": [{"reservedBy": {"uid": "u"}}],
                "reservationsOmitted": 1, "conditions": [{"type": "Enforced", "status": "False", "reason": "r", "message": "m"}]},
        });
        let unknown = [
            "kindd",
            "metadata.ownerReferences[0].x",
            "spec.hrd",
            "spec.scopeSelector.matchExpressions[0].y",
        ];
        assert_eq!(unknown_fields("ResourceQuota", &object), unknown);
    }
}
