//! Validation of ResourceQuota objects and of the admission configuration.

use quota_semantics::quota::{FieldError, Manifest, limited, validation};
use serde_json::{Value, json};

use super::vectors::{Case, same};

pub(crate) fn run(case: &Case) -> Result<(), String> {
    if case.text("op") == "config" {
        let Ok(limited) = limited::load(case.json("config")) else {
            return same("loadError", &true, &(case.expected["loadError"] == true));
        };
        same("loadError", &false, &(case.expected["loadError"] == true))?;
        return same_errors(&limited::validate(&limited), &case.expected);
    }
    let new = match Manifest::from_json(case.json("object").as_bytes()) {
        Ok(new) => new,
        // The wording is that of Go's JSON library.
        Err(error) if case.expected["decodeError"].is_string() => {
            let quantity = case.expected["decodeError"].as_str().unwrap_or_default();
            return if quantity.starts_with("json:") || error.to_string().contains(quantity) {
                Ok(())
            } else {
                Err(format!("decode error is {error}, expected {quantity}"))
            };
        }
        Err(error) => return Err(format!("does not decode: {error}")),
    };
    if case.expected["decodeError"].is_string() {
        return Err("decodes".to_owned());
    }
    let old = || {
        Manifest::from_json(case.json("oldObject").as_bytes()).map_err(|error| error.to_string())
    };
    match case.text("op").as_str() {
        "create" => {
            same_errors(&validation::validate_create(&new), &case.expected)?;
            let warnings = json!(validation::warnings(&new.spec));
            same("warnings", &warnings, &case.expected["warnings"])
        }
        "update" => same_errors(&validation::validate_update(&new, &old()?), &case.expected),
        "statusUpdate" => {
            same_errors(&validation::validate_status_update(&new, &old()?), &case.expected)
        }
        other => Err(format!("unknown op {other:?}")),
    }
}

/// Compares errors as multisets: Kubernetes reports the entries of a map in any order.
fn same_errors(ours: &[FieldError], expected: &Value) -> Result<(), String> {
    let shown = |error: &FieldError| {
        json!({
            "type": error.kind.reason(),
            "field": error.field,
            "detail": error.detail,
            "message": error.to_string(),
        })
    };
    let mut ours: Vec<Value> = ours.iter().map(shown).collect();
    let mut theirs = expected["errors"].as_array().cloned().unwrap_or_default();
    for list in [&mut ours, &mut theirs] {
        list.sort_by_key(Value::to_string);
    }
    same("errors", &ours, &theirs)
}
