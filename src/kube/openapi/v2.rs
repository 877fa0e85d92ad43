//! The same schemas as OpenAPI v2, in JSON and in the protobuf that kubectl before 1.27 requests.
//!
//! The messages are those of `openapiv2/OpenAPIv2.proto` of google/gnostic, limited to the parts used here.

use prost::Message;
use serde_json::{Map, Value, json};

/// The v2 document of a v3 document.
pub(super) fn document(v3: &Value) -> Value {
    let paths = v3["paths"].as_object().into_iter().flatten();
    let paths = paths.map(|(path, item)| {
        let operations = item.as_object().into_iter().flatten();
        let operations = operations.map(|(method, of)| (method.clone(), operation(of)));
        (
            path.clone(),
            Value::Object(operations.collect::<Map<_, _>>()),
        )
    });
    let schemas = v3["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten();
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
    if let Some(answer) = v2
        .pointer_mut("/responses/200")
        .and_then(Value::as_object_mut)
    {
        let content = answer.remove("content");
        let found = content
            .as_ref()
            .and_then(|content| content.pointer("/application~1json/schema"));
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
pub(super) fn encode(v2: &Value) -> Vec<u8> {
    let document = Document {
        swagger: text(&v2["swagger"]),
        info: Some(Info {
            title: text(&v2["info"]["title"]),
            version: text(&v2["info"]["version"]),
        }),
        paths: Some(Paths {
            path: entries(&v2["paths"], |name, value| NamedPathItem {
                name,
                value: Some(path_item(value)),
            }),
        }),
        definitions: Some(Properties {
            properties: entries(&v2["definitions"], |name, value| NamedSchema {
                name,
                value: Some(Schema::of(value)),
            }),
        }),
    };
    document.encode_to_vec()
}

#[derive(Clone, PartialEq, Message)]
struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Properties>,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedPathItem {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<PathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "5")]
    operation_id: String,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, repeated, tag = "13")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(message, optional, tag = "2")]
    non_body_parameter: Option<NonBodyParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query: Option<QueryParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct QueryParameter {
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

#[derive(Clone, PartialEq, Message)]
struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct Properties {
    #[prost(message, repeated, tag = "1")]
    properties: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<AdditionalProperties>>,
    #[prost(message, optional, tag = "22")]
    kind: Option<Strings>,
    #[prost(message, optional, tag = "23")]
    items: Option<Items>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Properties>,
    #[prost(message, repeated, tag = "31")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct AdditionalProperties {
    #[prost(message, optional, boxed, tag = "1")]
    schema: Option<Box<Schema>>,
}

#[derive(Clone, PartialEq, Message)]
struct Strings {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Items {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

impl Schema {
    fn of(json: &Value) -> Self {
        let required = json["required"].as_array().into_iter().flatten();
        let schema = |json: &Value| Box::new(Self::of(json));
        Self {
            reference: text(&json["$ref"]),
            format: text(&json["format"]),
            description: text(&json["description"]),
            required: required.map(text).collect(),
            additional_properties: json.get("additionalProperties").map(|of| {
                Box::new(AdditionalProperties {
                    schema: Some(schema(of)),
                })
            }),
            kind: json.get("type").map(|kind| Strings {
                value: vec![text(kind)],
            }),
            items: json.get("items").map(|of| Items {
                schema: vec![Self::of(of)],
            }),
            properties: json.get("properties").map(|of| Properties {
                properties: entries(of, |name, value| NamedSchema {
                    name,
                    value: Some(Self::of(value)),
                }),
            }),
            vendor_extension: extensions(json),
        }
    }
}

fn path_item(json: &Value) -> PathItem {
    let operation = |method: &str| json.get(method).map(operation_message);
    PathItem {
        get: operation("get"),
        put: operation("put"),
        post: operation("post"),
        delete: operation("delete"),
        patch: operation("patch"),
    }
}

fn operation_message(json: &Value) -> Operation {
    let parameter = |json: &Value| {
        let query = QueryParameter {
            place: text(&json["in"]),
            name: text(&json["name"]),
            kind: text(&json["type"]),
        };
        let non_body_parameter = Some(NonBodyParameter { query: Some(query) });
        ParametersItem {
            parameter: Some(Parameter { non_body_parameter }),
        }
    };
    Operation {
        description: text(&json["description"]),
        operation_id: text(&json["operationId"]),
        parameters: json["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(parameter)
            .collect(),
        vendor_extension: extensions(json),
    }
}

/// Extensions are YAML texts, and JSON is YAML.
fn extensions(json: &Value) -> Vec<NamedAny> {
    let fields = json.as_object().into_iter().flatten();
    let extensions = fields.filter(|(name, _)| name.starts_with("x-"));
    extensions
        .map(|(name, value)| NamedAny {
            name: name.clone(),
            value: Some(Any {
                yaml: value.to_string(),
            }),
        })
        .collect()
}

fn entries<T>(json: &Value, entry: impl Fn(String, &Value) -> T) -> Vec<T> {
    json.as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| entry(name.clone(), value))
        .collect()
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}
