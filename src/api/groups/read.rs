//! Reading a group: as a ClusterResourceQuota, or as typed fields.

use std::collections::BTreeMap;

use quota_semantics::{
    group::{
        Manifest,
        extension::{
            Carrier, EACH, ENFORCEMENT, Extensions, GUARANTEED, OBJECTS, OVERRIDE, PARENT, PREFIX,
            SOFT,
        },
        validation::typed_field,
    },
    quota::FieldError,
};
use serde_json::{Map, Value, json};

use super::super::{
    body::ObjectText,
    manifest::{SPEC, TOP, malformed, parse, unknown, unreadable},
    problem::{FieldProblem, Problem},
};

/// The extensions: names of the typed fields and of the annotations that hold them.
const EXTENSIONS: [(&str, &str); 7] = [
    ("parent", PARENT),
    ("guaranteed", GUARANTEED),
    ("objects", OBJECTS),
    ("each", EACH),
    ("soft", SOFT),
    ("enforcement", ENFORCEMENT),
    ("override", OVERRIDE),
];

/// Typed fields that belong to the metadata.
const METADATA: [&str; 5] = ["name", "uid", "resourceVersion", "labels", "annotations"];

/// Fields that only responses have.
const OF_ANSWERS: [&str; 4] = ["createdTime", "status", "asOf", "lagging"];

/// The form in which a group was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Typed fields.
    Fields,
    /// A ClusterResourceQuota.
    Manifest,
}

/// A group in the form in which it was sent.
pub(super) struct Sent {
    pub(super) manifest: Manifest,
    pub(super) form: Form,
    /// Warnings about ignored unknown fields.
    pub(super) unknown: Vec<String>,
}

impl Form {
    /// An `Invalid` problem whose causes name fields as this form does.
    pub(super) fn invalid(self, errors: Vec<FieldError>) -> Problem {
        let cause = |error: FieldError| {
            let mut cause = FieldProblem::from(error);
            if self == Self::Fields {
                cause.field = typed_field(&cause.field);
            }
            cause
        };
        Problem::invalid(errors.into_iter().map(cause).collect())
    }
}

/// Reads a group.
///
/// # Errors
/// `Malformed` if the text is not a group; `Invalid` with every limit that is not a quantity.
pub(super) fn read(text: &ObjectText) -> Result<Sent, Problem> {
    let (json, value) = parse(text)?;
    let is_manifest = value.get("spec").is_some() || value.get("apiVersion").is_some();
    match (value, is_manifest) {
        (Value::Object(fields), false) => of_fields(fields),
        (value, _) => of_manifest(json.as_bytes(), &value),
    }
}

fn of_manifest(json: &[u8], value: &Value) -> Result<Sent, Problem> {
    let unknown = unknown(value, "", &TOP)
        .into_iter()
        .chain(unknown(value, "spec", &["selector", "quota"]))
        .chain(unknown(value, "spec.selector", &["labels", "annotations"]))
        .chain(unknown(value, "spec.quota", &SPEC));
    Ok(Sent {
        unknown: unknown.collect(),
        manifest: decode(json, value, "spec.quota.hard")?,
        form: Form::Manifest,
    })
}

fn of_fields(fields: Map<String, Value>) -> Result<Sent, Problem> {
    let (mut metadata, mut quota) = (Map::new(), Map::new());
    let mut extensions = BTreeMap::new();
    let mut selector = Value::Null;
    let mut unknown = Vec::new();
    for (field, value) in fields {
        let extension = EXTENSIONS.iter().find(|(name, _)| *name == field);
        match (extension, field.as_str()) {
            (Some((_, key)), _) => {
                extensions.extend(annotation(value).map(|text| ((*key).to_owned(), text)));
            }
            (None, "selector") => selector = value,
            (None, name) if SPEC.contains(&name) => {
                quota.insert(field, value);
            }
            (None, name) if METADATA.contains(&name) => {
                metadata.insert(field, value);
            }
            (None, name) if OF_ANSWERS.contains(&name) => {}
            (None, name) => unknown.push(format!("unknown field '{name}'")),
        }
    }
    let manifest = json!({
        "metadata": metadata,
        "spec": {"selector": selector, "quota": quota},
    });
    let json = manifest.to_string();
    let mut manifest = decode(json.as_bytes(), &manifest, "hard")?;
    let annotations = &mut manifest.metadata.annotations;
    let stray: Vec<_> = annotations
        .keys()
        .filter(|key| key.starts_with(PREFIX))
        .map(|key| {
            FieldProblem::forbidden(&format!("annotations[{key}]"), "it is a field of the group")
        })
        .collect();
    if !stray.is_empty() {
        return Err(Problem::invalid(stray));
    }
    let (read, errors) = Extensions::from_annotations(&extensions, Carrier::Group);
    if !errors.is_empty() {
        return Err(Form::Fields.invalid(errors));
    }
    annotations.extend(read.to_annotations());
    Ok(Sent { manifest, form: Form::Fields, unknown })
}

/// The annotation's text for a field's value; none for an empty value.
fn annotation(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(value.to_string()),
    }
}

fn decode(json: &[u8], value: &Value, hard: &str) -> Result<Manifest, Problem> {
    let causes = unreadable(value, "/spec/quota/hard", hard);
    if !causes.is_empty() {
        return Err(Problem::invalid(causes));
    }
    Manifest::from_json(json).map_err(|error| malformed(&error))
}
