//! Reading ResourceQuota manifests, in JSON or YAML.

use quota_semantics::{
    quantity::{Quantity, exact_numbers},
    quota::Manifest,
};
use serde_json::Value;

use super::{
    body::{ManifestText, from_yaml},
    problem::{Cause, Problem, Reason},
};

/// A manifest, and what it says that nobody understands.
pub(super) struct Read {
    pub(super) manifest: Manifest,
    /// Warnings about fields that were passed over.
    pub(super) unknown: Vec<String>,
}

/// Reads a manifest.
///
/// # Errors
/// `Malformed` if it is none; `Invalid` with every limit that is no quantity.
pub(super) fn read(text: &ManifestText) -> Result<Read, Problem> {
    let json = match text.yaml {
        false => text.text.clone(),
        true => from_yaml(&text.text)?,
    };
    let value: Value =
        serde_json::from_slice(&exact_numbers(&json)).map_err(|error| malformed(&error))?;
    let causes = unreadable(&value);
    if !causes.is_empty() {
        return Err(Problem::invalid(causes));
    }
    let manifest = Manifest::from_json(&json).map_err(|error| malformed(&error))?;
    let unknown = unknown(&value);
    Ok(Read { manifest, unknown })
}

fn malformed(error: &dyn std::fmt::Display) -> Problem {
    let detail = format!("cannot read the manifest: {error}");
    Problem::new(Reason::Malformed, detail)
}

/// Limits that are no quantities.
fn unreadable(manifest: &Value) -> Vec<Cause> {
    let hard = manifest.pointer("/spec/hard").and_then(Value::as_object);
    let cause = |(name, token): (&String, &Value)| {
        let token = token.to_string();
        let error = Quantity::from_json_token(&token).err()?;
        let shown = token.trim_matches('"');
        let field = format!("spec.hard[{name}]");
        Some(Cause::invalid(field, shown, &error.to_string()))
    };
    hard.into_iter().flatten().filter_map(cause).collect()
}

/// Fields that are passed over, as Kubernetes' `fieldValidation=Warn` tells them. The answer to a manifest is one,
/// so what is only in answers is known too.
fn unknown(manifest: &Value) -> Vec<String> {
    const TOP: [&str; 7] = [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "status",
        "asOf",
        "lagging",
    ];
    const SPEC: [&str; 3] = ["hard", "scopes", "scopeSelector"];
    let of = |place: &str, value: Option<&Value>, known: &[&str]| -> Vec<String> {
        let fields = value.and_then(Value::as_object).into_iter().flatten();
        let strange = fields.filter(|(field, _)| !known.contains(&field.as_str()));
        strange
            .map(|(field, _)| format!("unknown field '{place}{field}'"))
            .collect()
    };
    let mut unknown = of("", Some(manifest), &TOP);
    unknown.extend(of("spec.", manifest.get("spec"), &SPEC));
    unknown
}
