//! Field errors, with the messages of Kubernetes' API machinery. Errors are for people: what is long is shown in part,
//! and of many errors some are shown.

use std::{borrow::Cow, fmt, io};

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

/// Most errors that are shown of one object.
pub const ERRORS_MAX: usize = 100;

/// Most bytes of the errors that are shown of one object.
pub const ERRORS_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a field's path, of a value, and of an explanation that are shown. Lists are shown as a whole, in each
/// error about them.
pub const SHOWN_BYTES_MAX: usize = 4096;

/// The explanation of the last error that is shown, if there are more.
pub const FURTHER_ERRORS: &str = "there are further errors, which are not shown";

impl FieldError {
    fn new(
        kind: ErrorKind,
        field: impl Into<String>,
        value: Option<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: cut(field.into()), value, detail: cut(detail.into()) }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    /// A field that may not be set; the detail says why.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    pub(crate) fn too_long(field: impl Into<String>, bytes: usize) -> Self {
        let detail = format!("may not be more than {bytes} bytes");
        Self::new(ErrorKind::TooLong, field, None, detail)
    }

    /// An invalid text, shown in the format of Go's `%q`.
    pub(crate) fn invalid_text(
        field: impl Into<String>,
        value: &str,
        detail: impl Into<String>,
    ) -> Self {
        // Quoted, no character is shorter: what is quoted of a longer text is cut.
        let value = cut(quoted(start(value, SHOWN_BYTES_MAX + 4)));
        Self::new(ErrorKind::Invalid, field, Some(value), detail)
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
        Self::new(ErrorKind::Invalid, field, Some(json(value)), detail)
    }

    /// The message without the field.
    pub fn message(&self) -> String {
        let kind = self.kind.to_string();
        let detail = Some(&self.detail).filter(|detail| !detail.is_empty());
        let parts = [Some(&kind), self.value.as_ref(), detail];
        let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join(": ")
    }

    fn bytes(&self) -> usize {
        self.field.len() + self.value.as_ref().map_or(0, String::len) + self.detail.len()
    }
}

/// The longest start of a text that has at most this many bytes.
fn start(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    let end = ends.find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

/// The text as it is shown.
fn cut(text: String) -> String {
    match text.len() <= SHOWN_BYTES_MAX {
        true => text,
        false => shown(&text, SHOWN_BYTES_MAX).into_owned(),
    }
}

/// A text of at most this many bytes, or its start.
pub fn shown(text: &str, most: usize) -> Cow<'_, str> {
    match text.len() <= most {
        true => text.into(),
        false => format!("{}…", start(text, most)).into(),
    }
}

/// Collects the errors of one object, as many as are shown. Iterators of further errors are not read.
#[derive(Debug, Default)]
pub(crate) struct FieldErrors {
    errors: Vec<FieldError>,
    bytes: usize,
    is_full: bool,
}

impl FieldErrors {
    /// Whether further errors are not shown.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        if self.is_full {
            return;
        }
        let bytes = self.bytes + error.bytes();
        if self.errors.len() < ERRORS_MAX && bytes <= ERRORS_BYTES_MAX {
            self.bytes = bytes;
            self.errors.push(error);
            return;
        }
        self.is_full = true;
        self.errors.truncate(ERRORS_MAX - 1);
        self.errors.push(FieldError::new(ErrorKind::Invalid, error.field, None, FURTHER_ERRORS));
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        let mut errors = errors.into_iter();
        while !self.is_full
            && let Some(error) = errors.next()
        {
            self.push(error);
        }
    }
}

impl From<FieldErrors> for Vec<FieldError> {
    fn from(errors: FieldErrors) -> Self {
        errors.errors
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

/// The errors that are shown of these.
pub fn bounded(errors: impl IntoIterator<Item = FieldError>) -> Vec<FieldError> {
    let mut shown = FieldErrors::default();
    shown.extend(errors);
    shown.into()
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
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

/// JSON in Go's format, which escapes the special characters of HTML, as far as it is shown.
fn json(value: &impl Serialize) -> String {
    let mut start = Start(Vec::new());
    let written = serde_json::to_writer(&mut start, value);
    let text = String::from_utf8_lossy(&start.0);
    match written {
        Err(error) if !error.is_io() => cut(quoted(&error.to_string())),
        Ok(()) | Err(_) => shown(&text, SHOWN_BYTES_MAX).into_owned(),
    }
}

/// The start of a text. It fails as soon as it is longer than what is shown, so that the rest is not written.
struct Start(Vec<u8>);

impl io::Write for Start {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        for byte in text {
            if self.0.len() > SHOWN_BYTES_MAX {
                return Err(io::ErrorKind::WriteZero.into());
            }
            match byte {
                b'<' => self.0.extend(br"\u003c"),
                b'>' => self.0.extend(br"\u003e"),
                b'&' => self.0.extend(br"\u0026"),
                byte => self.0.push(*byte),
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

    /// A long list must not cost more with each error that shows it.
    #[test]
    fn a_value_is_read_no_further_than_it_is_shown() {
        struct Item<'a>(&'a std::cell::Cell<usize>);
        impl Serialize for Item<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.set(self.0.get() + 1);
                serializer.serialize_str("a text of some length, <&> and more")
            }
        }
        let read = std::cell::Cell::new(0);
        let list: Vec<_> = (0..10_000).map(|_| Item(&read)).collect();
        let error = FieldError::invalid("f", &list, "d");
        assert!(read.get() < 200, "{} items", read.get());
        let value = error.value.unwrap_or_default();
        assert!(value.starts_with(r#"["a text of some length, \u003c\u0026\u003e and more",""#));
        assert!(value.ends_with('…') && value.len() <= SHOWN_BYTES_MAX + '…'.len_utf8());
    }
}
