//! Errors of a requirement of a label selector, with the messages of Kubernetes' conversion.

use crate::{Name, field::FieldError, syntax::label_value};

/// Most invalid values that are named: a selector is checked with each object.
const ERRORS_MAX: usize = 64;

/// The errors of the values of a requirement on `key`.
pub(crate) fn value_errors(key: &str, operator: &str, values: &[Name]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid("values", &(), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "values set must be empty for exists and does not exist";
            errors.push(FieldError::invalid("values", &values, detail));
        }
        _ => {}
    }
    for (place, value) in values.iter().enumerate() {
        if errors.len() == ERRORS_MAX {
            break;
        }
        let wrong = label_value(value);
        if !wrong.is_empty() {
            let field = format!("values[{place}][{key}]");
            errors.push(FieldError::invalid_text(field, value, wrong.join("; ")));
        }
    }
    errors
}

/// All errors as one text, as Go's aggregate prints them.
pub(crate) fn aggregate(errors: impl IntoIterator<Item = FieldError>) -> Result<(), String> {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => Ok(()),
        1 => Err(texts.remove(0)),
        _ => Err(format!("[{}]", texts.join(", "))),
    }
}
