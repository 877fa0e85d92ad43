//! Field errors, with the messages of Kubernetes' API machinery.

use std::fmt;

use serde::Serialize;

/// The kinds of field errors, named as in `status.details.causes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A required field is missing.
    Required,
    /// The value is not allowed.
    Invalid,
    /// The field may not be set here.
    Forbidden,
    /// The value is too long.
    TooLong,
}

impl ErrorKind {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
        })
    }
}

/// An error of one field. Prints as Kubernetes' full message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct FieldError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// The invalid value as it is shown, for invalid values only.
    pub value: Option<String>,
    /// The error; may be empty.
    pub detail: String,
}

impl FieldError {
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self {
            kind: ErrorKind::Required,
            field: field.into(),
            value: None,
            detail: detail.to_owned(),
        }
    }

    /// A field that may not be set; the detail says why.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Forbidden,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    pub(crate) fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        let detail = format!("may not be more than {bytes} bytes");
        Self {
            kind: ErrorKind::TooLong,
            field: field.into(),
            value: None,
            detail,
        }
    }

    /// An invalid text, shown in the format of Go's `%q`.
    pub(crate) fn invalid_text(
        field: impl Into<String>,
        value: &str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: ErrorKind::Invalid,
            field: field.into(),
            value: Some(quoted(value)),
            detail: detail.into(),
        }
    }

    pub(crate) fn too_many(field: impl Into<String>, items: usize, most: usize) -> Self {
        let detail = format!("must have at most {most} items");
        Self::invalid(field, &items, detail)
    }

    /// Any other invalid value, shown as JSON.
    pub(crate) fn invalid(
        field: impl Into<String>,
        value: &impl Serialize,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: ErrorKind::Invalid,
            field: field.into(),
            value: Some(cut(json(value))),
            detail: detail.into(),
        }
    }
}

/// Most bytes of a value that is shown: lists are shown as a whole, in each error about them.
const VALUE_BYTES_MAX: usize = 4096;

fn cut(mut value: String) -> String {
    if value.len() > VALUE_BYTES_MAX {
        let mut ends = (0..=VALUE_BYTES_MAX).rev();
        let end = ends.find(|&end| value.is_char_boundary(end));
        value.truncate(end.unwrap_or_default());
        value.push('…');
    }
    value
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.kind)?;
        for part in self
            .value
            .iter()
            .chain(Some(&self.detail).filter(|detail| !detail.is_empty()))
        {
            write!(f, ": {part}")?;
        }
        Ok(())
    }
}

/// Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_ascii() || c.escape_debug().len() == 1 => quoted.push(c),
            c if u32::from(c) < 0x1_0000 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// JSON in Go's format, which escapes the special characters of HTML.
fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|error| quoted(&error.to_string()));
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        assert_eq!(
            quoted("a\"b\\c\n\u{1}é\u{a0}\u{e0001}'"),
            "\"a\\\"b\\\\c\\n\\x01é\\u00a0\\U000e0001'\""
        );
        assert_eq!(json(&["<&>"]), r#"["\u003c\u0026\u003e"]"#);
    }
}
