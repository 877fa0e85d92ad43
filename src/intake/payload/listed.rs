//! Objects of a listing: each stands by itself, without a change type.

use quota_core::decide::Sighting;
use quota_semantics::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use super::{Fault, Reader, plain, shape::read_object, wire::Change};

/// The fields that distinguish a Kubernetes object from a plain one.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "apiVersion")]
    api_version: Option<IgnoredAny>,
    kind: Option<IgnoredAny>,
    metadata: Option<IgnoredAny>,
}

/// Reads an existing object: a Kubernetes object, or the fields of a plain event.
pub(super) fn read(reader: &Reader, text: &str, now: Timestamp) -> Result<Option<Sighting>, Fault> {
    // Serde would accept a list as the fields in their order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::shape("it is no object"));
    }
    let fields: Fields = serde_json::from_str(text)?;
    if fields.api_version.is_some() || fields.kind.is_some() || fields.metadata.is_some() {
        return read_object(reader, Change::Alive, text, now);
    }
    let wire = serde_json::from_str(text)?;
    plain::sighting(reader, Change::Alive, &wire).map(Some)
}
