//! The syntax of names and labels. Each function returns the errors of a text, with Kubernetes' messages; an empty list
//! means that the text is valid.

use std::{borrow::Borrow, collections::BTreeMap};

use crate::field::FieldError;

/// All keys and values of the annotations together: at most 256 KiB.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// A name within a qualified name, a label value, a DNS label: at most this many bytes.
const MAX_LABEL: usize = 63;
/// A DNS subdomain, and so the name of nearly every object: at most this many bytes.
pub const MAX_SUBDOMAIN: usize = 253;

const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// `[dns.subdomain/]name`, as for labels and resources.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    // Faster than a search for a text, since names are short.
    let slash = text.bytes().position(|byte| byte == b'/');
    let split = slash.map(|slash| (&text[..slash], &text[slash + 1..]));
    let (prefix, name) = match split {
        None => (None, text),
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    match prefix {
        Some("") => wrong.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            wrong.extend(subdomain(prefix).into_iter().map(|what| format!("prefix part {what}")));
        }
        None => {}
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL {
        wrong.push(format!("name part {}", too_long(MAX_LABEL)));
    }
    if !is_label_like(name) {
        wrong.push(format!("name part {QUALIFIED_NAME}"));
    }
    wrong
}

/// A DNS subdomain in lower case, as for names of objects.
pub fn subdomain(text: &str) -> Vec<String> {
    let long = (text.len() > MAX_SUBDOMAIN).then(|| too_long(MAX_SUBDOMAIN));
    let bad = !text.split('.').all(is_dns_label);
    long.into_iter().chain(bad.then(|| SUBDOMAIN.to_owned())).collect()
}

/// A DNS label in lower case, as for namespaces.
pub fn dns_label(text: &str) -> Vec<String> {
    let long = (text.len() > MAX_LABEL).then(|| too_long(MAX_LABEL));
    let bad = !is_dns_label(text);
    long.into_iter().chain(bad.then(|| DNS_LABEL.to_owned())).collect()
}

/// The value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let long = (text.len() > MAX_LABEL).then(|| too_long(MAX_LABEL));
    let bad = !text.is_empty() && !is_label_like(text);
    long.into_iter().chain(bad.then(|| LABEL_VALUE.to_owned())).collect()
}

/// The errors of labels.
pub(crate) fn labels<T: Borrow<str> + Ord>(
    field: &str,
    labels: &BTreeMap<T, T>,
) -> impl Iterator<Item = FieldError> {
    let wrong = move |(key, value): (&T, &T)| {
        let (key, value) = (key.borrow(), value.borrow());
        let mut errors = texts(field, key, qualified_name(key));
        errors.extend(texts(field, value, label_value(value)));
        errors
    };
    labels.iter().flat_map(wrong)
}

/// The errors of annotations.
pub(crate) fn annotations<T: Borrow<str> + Ord>(
    field: &str,
    annotations: &BTreeMap<T, T>,
) -> impl Iterator<Item = FieldError> {
    // Unlike in other keys, capital letters are allowed in the domain.
    let wrong =
        move |key: &T| texts(field, key.borrow(), qualified_name(&key.borrow().to_lowercase()));
    let size: usize =
        annotations.iter().map(|(key, value)| key.borrow().len() + value.borrow().len()).sum();
    let too_long = (size > MAX_ANNOTATIONS).then(|| FieldError::too_long(field, MAX_ANNOTATIONS));
    annotations.keys().flat_map(wrong).chain(too_long)
}

/// One field error for each of these errors of a text.
pub(crate) fn texts(field: &str, value: &str, wrong: Vec<String>) -> Vec<FieldError> {
    wrong.into_iter().map(|detail| FieldError::invalid_text(field, value, detail)).collect()
}

fn too_long(bytes: usize) -> String {
    format!("must be no more than {bytes} bytes")
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_label_like(text: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|byte| IN_LABELS[usize::from(*byte)])
}

/// The bytes of [`is_label_like`] texts.
const IN_LABELS: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        allowed[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        byte += 1;
    }
    allowed
};

fn is_dns_label(text: &str) -> bool {
    let solid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(solid)
        && bytes.last().is_some_and(solid)
        && bytes.iter().all(|byte| solid(byte) || *byte == b'-')
}
