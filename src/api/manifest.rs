//! Reads manifests in JSON or YAML.

use quota_semantics::{
    embedded::refuse_embedded,
    field::ERRORS_MAX,
    quantity::{Quantity, exact_numbers},
    quota::Manifest,
};
use serde_json::Value;

use super::{
    body::{JsonText, ObjectText},
    problem::{FieldProblem, Problem, Reason},
};
use crate::parse_errors::in_plain_words;

/// A manifest, and warnings about its unknown fields.
pub(super) struct Read {
    pub(super) manifest: Manifest,
    /// Warnings about ignored unknown fields.
    pub(super) unknown: Vec<String>,
}

/// Reads a manifest.
///
/// # Errors
/// `Malformed` if the text is not a manifest; `Invalid` with every limit that is not a quantity.
pub(super) fn read(text: &ObjectText) -> Result<Read, Problem> {
    let (json, value) = parse(text)?;
    let causes = unreadable(&value, "/spec/hard", "spec.hard");
    if !causes.is_empty() {
        return Err(Problem::invalid(causes));
    }
    let manifest = Manifest::from_json(json.as_bytes()).map_err(|error| malformed(&error))?;
    let top = unknown(&value, "", &TOP).into_iter();
    let unknown = top.chain(unknown(&value, "spec", &SPEC)).collect();
    Ok(Read { manifest, unknown })
}

/// The text as JSON, converted from YAML if necessary; and as a value in which numbers that would lose digits are
/// strings.
///
/// # Errors
/// `Malformed` if it is neither JSON nor YAML.
pub(super) fn parse(text: &ObjectText) -> Result<(JsonText, Value), Problem> {
    let json = text.to_json()?;
    let bytes = json.as_bytes();
    refuse_embedded(bytes).map_err(|error| malformed(&error))?;
    let value = serde_json::from_slice(&exact_numbers(bytes)).map_err(|error| malformed(&error))?;
    Ok((json, value))
}

pub(super) fn malformed(error: &dyn std::fmt::Display) -> Problem {
    let detail = format!("cannot read the manifest: {}", in_plain_words(error));
    Problem::new(Reason::Malformed, detail)
}

/// Limits at this place of a manifest that are not quantities, as causes with this field name.
pub(super) fn unreadable(manifest: &Value, pointer: &str, name: &str) -> Vec<FieldProblem> {
    let hard = manifest.pointer(pointer).and_then(Value::as_object);
    let cause = |(resource, token): (&String, &Value)| {
        let token = token.to_string();
        let error = Quantity::from_json_token(&token).err()?;
        let shown = token.trim_matches('"');
        let field = format!("{name}[{resource}]");
        Some(FieldProblem::invalid(field, shown, &error.to_string()))
    };
    let causes = hard.into_iter().flatten().filter_map(cause);
    // The answer says that there are more than these.
    causes.take(ERRORS_MAX + 1).collect()
}

/// The top-level fields of every manifest. A response can be sent back as a manifest, so fields of responses are
/// included.
pub(super) const TOP: [&str; 7] =
    ["apiVersion", "kind", "metadata", "spec", "status", "asOf", "lagging"];

/// The fields of a quota's spec.
pub(super) const SPEC: [&str; 3] = ["hard", "scopes", "scopeSelector"];

/// Warnings about unknown fields of an object in a manifest (`spec.quota`; empty: the whole manifest), as Kubernetes'
/// `fieldValidation=Warn` words them.
pub(super) fn unknown(manifest: &Value, place: &str, allowed: &[&str]) -> Vec<String> {
    let keys = place.split('.').filter(|key| !key.is_empty());
    let object = keys.fold(manifest, |value, key| &value[key]);
    let fields = object.as_object().into_iter().flatten();
    let strange = fields.filter(|(field, _)| !allowed.contains(&field.as_str()));
    let separator = if place.is_empty() { "" } else { "." };
    strange.map(|(field, _)| format!("unknown field '{place}{separator}{field}'")).collect()
}
