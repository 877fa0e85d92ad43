//! The same schemas as OpenAPI v2, in JSON and in the protobuf that kubectl before 1.27 requests.
//!
//! The messages are those of `openapiv2/OpenAPIv2.proto` of google/gnostic, limited to the parts used here.

use serde_json::{Map, Value, json};

/// The v2 document of a v3 document.
pub(super) fn document(v3: &Value) -> Value {
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
pub(super) fn encode(v2: &Value) -> Vec<u8> {
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
