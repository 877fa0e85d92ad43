//! Request bodies: media type, text, and checks of unknown and duplicate fields.

use std::fmt;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, Uri};
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
use crate::{
    foreign_page::is_foreign_page, log_limiter::cut, parse_errors::in_plain_words,
    request_headers::media_type, whole_body::whole_body,
};
use quota_semantics::yaml;

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Most duplicate fields of a body that are named; the others are counted. Clients accept fewer warnings.
const DUPLICATES_MAX: usize = 32;
/// Longest path of a duplicate field, in bytes. Those of valid objects are shorter.
const PATH_BYTES_MAX: usize = 512;

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
        refuse_foreign_pages(request.uri(), request.headers())?;
        let media_type = Some(media_type(request.headers())).filter(|given| !given.is_empty());
        let bytes = whole_body(request.into_body())
            .await
            .map_err(|problem| Failure::bad_request(problem.detail()))?;
        Ok(Self { media_type: media_type.unwrap_or_else(|| JSON.to_owned()), bytes })
    }
}

fn refuse_foreign_pages(uri: &Uri, headers: &HeaderMap) -> Result<()> {
    match is_foreign_page(uri, headers) {
        true => Err(Failure::forbidden("the request comes from a page of another origin")),
        false => Ok(()),
    }
}

/// A received object as JSON, and problems of its fields.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) json: Value,
    pub(super) odd: Vec<String>,
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
            (_, Kind::Quota) => {
                Err(Failure::unsupported_media_type(&[JSON, YAML, PROTOBUF].join(", ")))
            }
            (_, Kind::Group) => Err(Failure::unsupported_media_type(&[JSON, YAML].join(", "))),
        }
    }

    /// An object that this process has made.
    pub(super) fn of(json: Value) -> Self {
        Self { json, odd: Vec::new() }
    }

    /// Reads JSON, and records duplicate fields.
    pub(super) fn json(text: &[u8]) -> Result<Self> {
        let mut twice = Duplicates::default();
        let json = parsed(text, &mut |path| twice.add(path))?;
        let odd = twice.texts().collect();
        Ok(Self { json, odd })
    }

    /// Reads YAML, in which duplicate fields are an error.
    pub(super) fn yaml(text: &[u8]) -> Result<Self> {
        let json = yaml::object(text).map_err(|error| unreadable(&error))?;
        Ok(Self::of(json))
    }

    /// Reads JSON, or else YAML.
    pub(super) fn yaml_or_json(text: &[u8]) -> Result<Self> {
        match Self::json(text) {
            Ok(sent) => Ok(sent),
            Err(unread) if text.trim_ascii_start().starts_with(b"{") => {
                Self::yaml(text).map_err(|_| unread)
            }
            Err(_) => Self::yaml(text),
        }
    }

    /// Checks that an apply patch says what it is, and has only fields of its kind: a field that is misspelled would take
    /// away the one that its manager has applied before.
    pub(super) fn check_typed(&self, kind: Kind) -> Result<()> {
        let said = self.json["apiVersion"].as_str().unwrap_or_default();
        if said != kind.api_version() {
            return Err(Failure::bad_request(format!(
                "Incorrect version specified in apply patch. Specified patch version: {said}, expected: {}",
                kind.api_version()
            )));
        }
        match unknown_fields(kind.name(), &self.json).first() {
            None => Ok(()),
            Some(path) => Err(Failure::bad_request(format!(
                "failed to create typed patch object: .{path}: field not declared in schema"
            ))),
        }
    }

    /// Checks unknown and duplicate fields: an error, warnings, or nothing.
    pub(super) fn check(
        self,
        kind: Kind,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>)> {
        let Self { json, odd } = self;
        if validation == FieldValidation::Ignore {
            return Ok((json, Vec::new()));
        }
        let unknown = unknown_fields(kind.name(), &json)
            .into_iter()
            .map(|path| format!("unknown field {path:?}"));
        let odd: Vec<_> = odd.into_iter().chain(unknown).collect();
        if validation == FieldValidation::Strict && !odd.is_empty() {
            let why = format!("strict decoding error: {}", odd.join(", "));
            return Err(undecodable(kind, &why));
        }
        Ok((json, odd))
    }
}

/// Reads JSON; of duplicate fields the last one counts.
pub(super) fn json(text: &[u8]) -> Result<Value> {
    parsed(text, &mut |_| ())
}

/// Reads JSON, and reports the path of each duplicate field.
fn parsed(text: &[u8], report: &mut dyn FnMut(&Path<'_>)) -> Result<Value> {
    let text = exact_numbers(text);
    let mut deserializer = serde_json::Deserializer::from_slice(&text);
    let path = Path::Root;
    Reader { path, report }
        .deserialize(&mut deserializer)
        .and_then(|json| deserializer.end().map(|()| json))
        .map_err(|error| unreadable(&error))
}

/// The failure for a body that is not an object of a kind.
pub(super) fn undecodable(kind: Kind, why: &dyn fmt::Display) -> Failure {
    let (name, api_version) = (kind.name(), kind.api_version());
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Failure::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {name}: {}",
        in_plain_words(why)
    ))
}

/// The failure for a body that is neither JSON nor YAML, although its type says so.
fn unreadable(why: &dyn fmt::Display) -> Failure {
    Failure::bad_request(format!("the body cannot be read: {}", in_plain_words(why)))
}

/// The place of a value in a body. It has no text before one is needed: a body can have many values below a long key.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// The text, cut to the most bytes.
    fn text(&self) -> String {
        let mut text = String::new();
        self.append_to(&mut text);
        text
    }

    fn append_to(&self, text: &mut String) {
        match self {
            Path::Root => {}
            Path::Field(above, key) => {
                above.append_to(text);
                if !text.is_empty() {
                    append(text, ".");
                }
                append(text, key);
            }
            Path::Item(above, place) => {
                above.append_to(text);
                append(text, &format!("[{place}]"));
            }
        }
    }
}

fn append(text: &mut String, piece: &str) {
    text.push_str(cut(piece, PATH_BYTES_MAX - text.len()));
}

/// The duplicate fields of a body: texts about the first ones, and the number of the others.
#[derive(Default)]
struct Duplicates {
    named: Vec<String>,
    others: usize,
}

impl Duplicates {
    fn add(&mut self, path: &Path<'_>) {
        if self.named.len() == DUPLICATES_MAX {
            self.others += 1;
        } else {
            self.named.push(format!("duplicate field {:?}", path.text()));
        }
    }

    fn texts(self) -> impl Iterator<Item = String> {
        let others =
            (self.others > 0).then(|| format!("further duplicate fields: {}", self.others));
        self.named.into_iter().chain(others)
    }
}

/// Builds a JSON value, and reports the paths of duplicate fields.
struct Reader<'a> {
    path: Path<'a>,
    report: &'a mut dyn FnMut(&Path<'_>),
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
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
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let Self { path, report } = self;
        let mut list = Vec::new();
        loop {
            let path = Path::Item(&path, list.len());
            let Some(item) = items.next_element_seed(Reader { path, report })? else {
                return Ok(list.into());
            };
            list.push(item);
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Value, A::Error> {
        let Self { path, report } = self;
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = Path::Field(&path, &key);
            if map.contains_key(&key) {
                report(&path);
            }
            let value = fields.next_value_seed(Reader { path, report })?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use http::header;

    use super::*;
    use crate::server::warn;

    #[test]
    fn odd_fields_are_refused_named_or_passed_over() {
        let text = br#"{"spec":{"hard":{"pods":"1","pods":"2"},"hrd":{}}}"#;
        let sent = || Sent::json(text).unwrap();
        let failure = sent().check(Kind::Quota, FieldValidation::Strict).unwrap_err().to_json();
        assert_eq!(
            failure["message"],
            "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: strict decoding error: \
             duplicate field \"spec.hard.pods\", unknown field \"spec.hrd\""
        );
        let (json, warnings) = sent().check(Kind::Quota, FieldValidation::Warn).unwrap();
        assert_eq!(json["spec"]["hard"]["pods"], "2");
        let mut headers = HeaderMap::new();
        warn(&mut headers, &warnings);
        let values: Vec<_> = headers.get_all(header::WARNING).iter().collect();
        assert_eq!(
            values,
            [
                "299 - \"duplicate field \\\"spec.hard.pods\\\"\"",
                "299 - \"unknown field \\\"spec.hrd\\\"\""
            ]
        );
        assert!(sent().check(Kind::Quota, FieldValidation::Ignore).unwrap().1.is_empty());
    }

    /// The warnings about a body.
    fn warnings(text: &str) -> Vec<String> {
        let sent = Sent::json(text.as_bytes()).unwrap();
        let checked = sent.check(Kind::Quota, FieldValidation::Warn);
        checked.unwrap().1
    }

    #[test]
    fn duplicate_fields_are_named_with_their_paths() {
        let text = r#"{"metadata":{"finalizers":[{"a":{}},{"b.c":[[{"d":1,"d":2}]],"b.c":0}],"\"":1,"\"":2}}"#;
        let duplicates = [
            r#"duplicate field "metadata.finalizers[1].b.c[0][0].d""#,
            r#"duplicate field "metadata.finalizers[1].b.c""#,
            r#"duplicate field "metadata.\"""#,
        ];
        assert_eq!(warnings(text)[..3], duplicates);
        let text = r#"{"":{"a":0,"a":1},"":2}"#;
        let duplicates = [r#"duplicate field "a""#, r#"duplicate field """#];
        assert_eq!(warnings(text)[..2], duplicates);
    }

    #[test]
    fn texts_about_many_duplicate_fields_are_few_and_short() {
        let key = "K".repeat(10_000);
        let fields = vec![r#""a":0"#; 1001].join(",");
        let many =
            warnings(&format!(r#"{{"metadata":{{"annotations":{{"{key}":[{{{fields}}}]}}}}}}"#));
        assert_eq!(many.len(), DUPLICATES_MAX + 1);
        let shown = &key[..PATH_BYTES_MAX - "metadata.annotations.".len()];
        assert_eq!(many[0], format!("duplicate field \"metadata.annotations.{shown}\""));
        assert_eq!(many[DUPLICATES_MAX], "further duplicate fields: 968");
    }

    #[test]
    fn deep_and_broken_texts_are_refused() {
        assert!(Sent::json("[".repeat(100_000).as_bytes()).is_err());
        assert!(Sent::json(b"{} x").is_err());
        assert!(Sent::yaml(b"a: 1\na: 2").is_err());
    }
}
