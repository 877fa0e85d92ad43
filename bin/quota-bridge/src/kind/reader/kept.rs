//! The labels and annotations that are published: those that the ledger uses, within bounds.

use std::collections::BTreeMap;

use quota_semantics::{
    Name,
    quota::{extension, manifest::LAST_APPLIED, selector::NAME_LABEL},
};
use serde_json::value::RawValue;

use super::read;

pub(super) type Annotations = BTreeMap<Name, String>;

/// The maximum length of a published annotation, in bytes, except for settings of the ledger.
const ANNOTATION_MAX_BYTES: usize = 256;

/// The maximum size of a namespace's labels, in bytes of JSON.
const LABELS_MAX_BYTES: usize = 800 * 1024;

/// Removes the longest labels of a namespace beyond [`LABELS_MAX_BYTES`], but never the name label that Kubernetes
/// sets. Returns the number of removed labels. So long labels cannot displace short ones, by which groups select.
pub(super) fn shorten(labels: &mut BTreeMap<Name, Name>) -> usize {
    /// `"":"",`
    const PUNCTUATION: usize = 6;
    let before = labels.len();
    let mut by_length: Vec<Name> = labels.keys().cloned().collect();
    by_length.sort_by_key(|key| (*key != *NAME_LABEL, key.len() + labels[key].len()));
    let mut room = LABELS_MAX_BYTES;
    for key in by_length {
        room = room.saturating_sub(key.len() + labels[&key].len() + PUNCTUATION);
        if room == 0 {
            labels.remove(&key);
        }
    }
    before - labels.len()
}

/// The annotations that are kept, as JSON.
pub(super) fn kept(
    annotations: &RawValue,
    is_kept: impl Fn(&str, &str) -> bool,
) -> Result<Box<RawValue>, String> {
    let annotations: Option<Annotations> = read(annotations.get())?;
    let mut annotations = annotations.unwrap_or_default();
    annotations.retain(|key, value| is_kept(key, value) && is_plain(value));
    serde_json::value::to_raw_value(&annotations).map_err(|error| error.to_string())
}

/// Whether an annotation is a setting of the ledger, which may have any length.
pub(super) fn is_setting(key: &str) -> bool {
    key.starts_with(extension::PREFIX)
}

/// Whether an annotation that is no setting is published.
pub(super) fn is_short(key: &str, value: &str) -> bool {
    value.len() <= ANNOTATION_MAX_BYTES && key != LAST_APPLIED && is_plain(value)
}

/// Whether a value has no control characters but tabs and line breaks. Others take six times as many bytes in JSON, and
/// the annotations that an API server accepts would not fit into a message.
fn is_plain(value: &str) -> bool {
    !value.contains(|c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r'))
}
