//! Requests: query parameters (the selected objects, their version, and how to write), and bodies.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::{HeaderMap, Uri, header, request::Parts};
use quota_core::event::Sequence;
use quota_semantics::{Name, quantity::exact_numbers, yaml};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{Failure, Result, openapi::unknown_fields, protobuf, resource::Kind};
use crate::{
    auth::is_foreign_page,
    fairness::BYTES_PER_AMOUNT,
    label_selector::{LabelSelector, check_length},
    log_limiter::cut,
    problem::{self, in_plain_words},
    server::{body::whole_body, guard::media_type},
};

/// Longer names of field managers are refused, as Kubernetes does.
const MANAGER_MAX_BYTES: usize = 128;

/// Most objects of one list; the rest is left for `continue`, regardless of `limit`.
const LIST_MAX: usize = 10_000;

/// The kinds of the parameters in messages, with their API group.
const LIST_OPTIONS: &str = "ListOptions.meta.k8s.io";
pub(super) const PATCH_OPTIONS: &str = "PatchOptions.meta.k8s.io";

/// All parameters of all requests; unknown ones are ignored, as in Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params {
    limit: Option<i64>,
    #[serde(rename = "continue")]
    pub(super) after: String,
    field_selector: String,
    label_selector: String,
    resource_version: String,
    resource_version_match: String,
    #[serde(deserialize_with = "flag")]
    pub(super) watch: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) allow_watch_bookmarks: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) send_initial_events: bool,
    pub(super) timeout_seconds: Option<u64>,
    dry_run: Option<String>,
    field_manager: String,
    field_validation: String,
    #[serde(deserialize_with = "flag")]
    pub(super) force: bool,
    pub(super) include_object: String,
}

/// The handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        problem::query(&parts.uri).map_err(Failure::bad_request)
    }
}

impl Params {
    /// Most objects of the response.
    pub(super) fn limit(&self) -> usize {
        match self.limit.and_then(|limit| usize::try_from(limit).ok()) {
            None | Some(0) => LIST_MAX,
            Some(limit) => limit.min(LIST_MAX),
        }
    }

    pub(super) fn labels(&self) -> Result<LabelSelector> {
        LabelSelector::parse(&self.label_selector).map_err(Failure::bad_request)
    }

    pub(super) fn fields(&self) -> Result<FieldSelector> {
        FieldSelector::parse(&self.field_selector).map_err(Failure::bad_request)
    }

    /// How many amounts it costs as much as to compare an object with the selectors.
    pub(super) fn selector_weight(&self) -> usize {
        1 + (self.label_selector.len() + self.field_selector.len()) / BYTES_PER_AMOUNT
    }

    /// The requested version; none for any.
    pub(super) fn version(&self) -> Result<Option<Sequence>> {
        match self.resource_version.as_str() {
            "" | "0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let why = format!("Invalid value: {text:?}: a resourceVersion is a number");
                Failure::wrong_field(LIST_OPTIONS, "", "FieldValueInvalid", "resourceVersion", why)
            }),
        }
    }

    /// Checks the requested version against the ledger: this API always serves the newest version.
    ///
    /// # Errors
    /// The ledger has not reached the version yet; or the request wants exactly that version, and it is not the newest.
    pub(super) fn check_version(&self, head: Sequence) -> Result<()> {
        let version = self.version()?;
        let exact = match self.resource_version_match.as_str() {
            "" => false,
            _ if self.resource_version.is_empty() => {
                return Err(forbidden(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            "Exact" if version.is_none() => {
                return Err(forbidden(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            "Exact" => true,
            "NotOlderThan" => false,
            _ => return Err(forbidden("supported values: \"Exact\", \"NotOlderThan\"")),
        };
        match version {
            Some(version) if version > head => Err(Failure::not_yet(version, head)),
            Some(version) if exact && version < head => Err(Failure::expired(version, head)),
            _ => Ok(()),
        }
    }

    /// Checks the parameters of a watch.
    pub(super) fn check_watch(&self) -> Result<()> {
        let wrong = match (self.send_initial_events, self.resource_version_match.as_str()) {
            (false, "") | (true, "NotOlderThan") => return Ok(()),
            (false, _) => {
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            }
            (true, _) => "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        };
        Err(forbidden(wrong))
    }

    /// Whether the request is a dry run.
    pub(super) fn dry_run(&self) -> Result<bool> {
        match self.dry_run.as_deref() {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(unsupported("dryRun", other, "\"All\"")),
        }
    }

    pub(super) fn field_validation(&self) -> Result<FieldValidation> {
        match self.field_validation.as_str() {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => Err(unsupported("fieldValidation", other, "\"Ignore\", \"Strict\", \"Warn\"")),
        }
    }

    /// The manager of the written fields: as the request says, or else the program that sent the request.
    pub(super) fn manager(&self, headers: &HeaderMap) -> Result<String> {
        let name = &self.field_manager;
        if name.len() > MANAGER_MAX_BYTES || name.chars().any(char::is_control) {
            let why = format!(
                "Invalid value: {name:?}: should be at most {MANAGER_MAX_BYTES} printable characters"
            );
            return Err(Failure::wrong_field(
                "CreateOptions.meta.k8s.io",
                "",
                "FieldValueInvalid",
                "fieldManager",
                why,
            ));
        }
        if !name.is_empty() {
            return Ok(name.clone());
        }
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let program = agent.and_then(|agent| agent.split('/').next()).unwrap_or_default();
        let program = program.get(..MANAGER_MAX_BYTES).unwrap_or(program);
        Ok(if program.is_empty() { "unknown" } else { program }.to_owned())
    }

    /// Checks that server-side apply names its manager.
    pub(super) fn has_manager(&self) -> bool {
        !self.field_manager.is_empty()
    }
}

/// The failure for a version match that does not fit the other parameters.
fn forbidden(why: &str) -> Failure {
    let (field, why) = ("resourceVersionMatch", format!("Forbidden: {why}"));
    Failure::wrong_field(LIST_OPTIONS, "", "FieldValueForbidden", field, why)
}

fn unsupported(field: &str, value: &str, supported: &str) -> Failure {
    let why = format!("Unsupported value: {value:?}: supported values: {supported}");
    Failure::wrong_field(PATCH_OPTIONS, "", "FieldValueNotSupported", field, why)
}

/// As in Kubernetes, every value except `false` and `0` counts as true, the empty one included.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<bool, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.is_some_and(|text| !text.eq_ignore_ascii_case("false") && text != "0"))
}

/// Requirements on name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSelector(Vec<(Field, bool, Name)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
}

impl FieldSelector {
    /// Parses `metadata.name=x,metadata.namespace!=y`.
    ///
    /// # Errors
    /// The text is not a selector, or a long one.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        check_length("fieldSelector", text)?;
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let requirements: std::result::Result<_, _> = parts.map(Self::requirement).collect();
        requirements.map(Self)
    }

    fn requirement(text: &str) -> std::result::Result<(Field, bool, Name), String> {
        let (field, equal, value) = if let Some((field, value)) = text.split_once("!=") {
            (field, false, value)
        } else if let Some((field, value)) = text.split_once("==").or_else(|| text.split_once('='))
        {
            (field, true, value)
        } else {
            return Err(format!("invalid selector: {text:?}; can't understand {text:?}"));
        };
        let field = match field.trim() {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            other => return Err(format!("field label not supported: {other}")),
        };
        Ok((field, equal, value.trim().into()))
    }

    pub(super) fn matches(&self, namespace: &str, name: &str) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let actual = match field {
                Field::Name => name,
                Field::Namespace => namespace,
            };
            (*value == *actual) == *equal
        })
    }

    /// The one namespace that can match, if there is only one.
    pub(super) fn namespace(&self) -> Option<&Name> {
        let one = |(field, equal, value): &'_ &(Field, bool, Name)| {
            *field == Field::Namespace && *equal && !value.is_empty()
        };
        self.0.iter().find(one).map(|(_, _, value)| value)
    }
}

// Request bodies: media type, text, and checks of unknown and duplicate fields.

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
    fn only_name_and_namespace_are_selectable_fields() {
        let selector = FieldSelector::parse("metadata.name=q,metadata.namespace!=b").unwrap();
        assert!(
            selector.matches("a", "q")
                && !selector.matches("b", "q")
                && !selector.matches("a", "r")
        );
        assert_eq!(
            FieldSelector::parse("spec.hard=1").unwrap_err(),
            "field label not supported: spec.hard"
        );
        let one = FieldSelector::parse("metadata.namespace=a").unwrap();
        assert_eq!(one.namespace(), Some(&"a".into()));
    }

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
