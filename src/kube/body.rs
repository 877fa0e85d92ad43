//! Request bodies: media type, text, and checks of unknown and duplicate fields.

use std::{collections::HashSet, fmt};

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use quota_semantics::quantity::exact_numbers;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{
    kind::Kind,
    openapi::unknown_fields,
    params::FieldValidation,
    protobuf,
    status::{Failure, Result},
};
use crate::server::{warn, whole};
use quota_semantics::yaml::Object;

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A body and its type.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The media type without parameters, in lower case; JSON if none is given.
    pub(super) media_type: String,
    /// The text.
    pub(super) bytes: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        refuse_foreign_pages(request.headers())?;
        let media_type = media_type(request.headers());
        let bytes = whole(request.into_body())
            .await
            .map_err(|problem| Failure::bad_request(problem.detail()))?;
        Ok(Self { media_type, bytes })
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    if essence.is_empty() {
        JSON.to_owned()
    } else {
        essence.to_ascii_lowercase()
    }
}

/// Refuses requests of web pages of other origins: a page that a user visits must not be able to write to a ledger on
/// the user's machine.
fn refuse_foreign_pages(headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let authority = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .map(|(_, authority)| authority);
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    if authority.is_some() && authority == host {
        return Ok(());
    }
    Err(Failure::forbidden(
        "the request comes from a page of another origin",
    ))
}

/// A received object as JSON, and problems of its fields.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) json: Value,
    odd: Vec<String>,
}

impl Sent {
    /// Reads an object of a kind. As in Kubernetes, kinds of custom resources cannot be sent as protobuf.
    ///
    /// # Errors
    /// The media type is not supported, or the text is not of that type.
    pub(super) fn object(kind: Kind, body: &Body) -> Result<Self> {
        match (body.media_type.as_str(), kind) {
            (JSON, _) => Self::json(&body.bytes),
            (YAML, _) => Self::yaml(&body.bytes),
            (PROTOBUF, Kind::Quota) => {
                let json = protobuf::quota(&body.bytes)
                    .map_err(|error| Failure::bad_request(error.to_string()))?;
                Ok(Self::of(json))
            }
            (_, Kind::Quota) => Err(Failure::unsupported_media_type(
                &[JSON, YAML, PROTOBUF].join(", "),
            )),
            (_, Kind::Group) => Err(Failure::unsupported_media_type(&[JSON, YAML].join(", "))),
        }
    }

    /// An object that this process has made.
    pub(super) fn of(json: Value) -> Self {
        Self {
            json,
            odd: Vec::new(),
        }
    }

    /// Reads JSON, and records duplicate fields.
    pub(super) fn json(text: &[u8]) -> Result<Self> {
        let mut odd = Vec::new();
        let text = exact_numbers(text);
        let mut deserializer = serde_json::Deserializer::from_slice(&text);
        let json = DuplicateFields {
            path: String::new(),
            twice: &mut odd,
        }
        .deserialize(&mut deserializer)
        .and_then(|json| deserializer.end().map(|()| json))
        .map_err(|error| unreadable(&error))?;
        Ok(Self { json, odd })
    }

    /// Reads YAML, in which duplicate fields are an error.
    pub(super) fn yaml(text: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|error| unreadable(&error))?;
        let Object(json) =
            serde_saphyr::from_str(text).map_err(|error| unreadable(&error.without_snippet()))?;
        Ok(Self::of(json))
    }

    /// Reads JSON, or else YAML.
    pub(super) fn yaml_or_json(text: &[u8]) -> Result<Self> {
        match text.trim_ascii_start().starts_with(b"{") {
            true => Self::json(text),
            false => Self::yaml(text),
        }
    }

    /// Checks unknown and duplicate fields: an error, warnings, or nothing.
    pub(super) fn check(
        self,
        kind: Kind,
        validation: FieldValidation,
    ) -> Result<(Value, Warnings)> {
        let Self { json, odd } = self;
        if validation == FieldValidation::Ignore {
            return Ok((json, Warnings::default()));
        }
        let unknown = unknown_fields(kind.name(), &json)
            .into_iter()
            .map(|path| format!("unknown field {path:?}"));
        let odd: Vec<_> = odd.into_iter().chain(unknown).collect();
        if validation == FieldValidation::Strict && !odd.is_empty() {
            let why = format!("strict decoding error: {}", odd.join(", "));
            return Err(undecodable(kind, &why));
        }
        Ok((json, Warnings(odd)))
    }
}

/// The failure for a body that is not an object of a kind.
pub(super) fn undecodable(kind: Kind, why: &dyn fmt::Display) -> Failure {
    let (name, api_version) = (kind.name(), kind.api_version());
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Failure::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {name}: {why}"
    ))
}

/// The failure for a body that is neither JSON nor YAML, although its type says so.
fn unreadable(why: &dyn fmt::Display) -> Failure {
    Failure::bad_request(format!("the body cannot be read: {why}"))
}

/// Warnings to the caller of a successful request.
#[derive(Clone, Debug, Default)]
pub(super) struct Warnings(pub(super) Vec<String>);

impl Warnings {
    /// Adds the warnings to a response.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        warn(headers, &self.0);
    }
}

/// Builds a JSON value, and records the paths of duplicate fields.
struct DuplicateFields<'a> {
    path: String,
    twice: &'a mut Vec<String>,
}

impl DuplicateFields<'_> {
    fn below(&mut self, path: String) -> DuplicateFields<'_> {
        DuplicateFields {
            path,
            twice: self.twice,
        }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateFields<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFields<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(
        mut self,
        mut items: A,
    ) -> std::result::Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            let Some(item) = items.next_element_seed(self.below(path))? else {
                return Ok(list.into());
            };
            list.push(item);
        }
    }
    fn visit_map<A: MapAccess<'de>>(
        mut self,
        mut fields: A,
    ) -> std::result::Result<Value, A::Error> {
        let (mut map, mut seen) = (Map::new(), HashSet::new());
        while let Some(key) = fields.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            if !seen.insert(key.clone()) {
                self.twice.push(format!("duplicate field {path:?}"));
            }
            let value = fields.next_value_seed(self.below(path))?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_fields_are_refused_named_or_passed_over() {
        let text = br#"{"spec":{"hard":{"pods":"1","pods":"2"},"hrd":{}}}"#;
        let sent = || Sent::json(text).unwrap();
        let failure = sent()
            .check(Kind::Quota, FieldValidation::Strict)
            .unwrap_err()
            .to_json();
        assert_eq!(
            failure["message"],
            "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: strict decoding error: \
             duplicate field \"spec.hard.pods\", unknown field \"spec.hrd\""
        );
        let (json, warnings) = sent().check(Kind::Quota, FieldValidation::Warn).unwrap();
        assert_eq!(json["spec"]["hard"]["pods"], "2");
        let mut headers = HeaderMap::new();
        warnings.add_to(&mut headers);
        let values: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(
            values,
            [
                "299 - \"duplicate field \\\"spec.hard.pods\\\"\"",
                "299 - \"unknown field \\\"spec.hrd\\\"\""
            ]
        );
        assert!(
            sent()
                .check(Kind::Quota, FieldValidation::Ignore)
                .unwrap()
                .1
                .0
                .is_empty()
        );
    }

    #[test]
    fn deep_and_broken_texts_are_refused() {
        assert!(Sent::json("[".repeat(100_000).as_bytes()).is_err());
        assert!(Sent::json(b"{} x").is_err());
        assert!(Sent::yaml(b"a: 1\na: 2").is_err());
    }
}
