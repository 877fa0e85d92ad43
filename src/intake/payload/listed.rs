//! Objects of a listing: each stands by itself, without a change type.

use quota_semantics::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use super::{Content, Fault, Reader, field::Field, plain, shape::read_object, wire::Change};

/// The fields that distinguish a Kubernetes object from a plain one, and the fields of a plain one.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "apiVersion")]
    api_version: Option<IgnoredAny>,
    kind: Option<IgnoredAny>,
    metadata: Option<IgnoredAny>,
    #[serde(borrow)]
    namespace: Option<Field<'a>>,
    #[serde(borrow)]
    resource: Option<Field<'a>>,
    #[serde(borrow)]
    name: Option<Field<'a>>,
    #[serde(borrow)]
    uid: Option<Field<'a>>,
    #[serde(borrow, rename = "resourceVersion")]
    resource_version: Option<Field<'a>>,
    #[serde(borrow)]
    usage: Option<Field<'a>>,
}

/// Reads an existing object: a Kubernetes object, or the fields of a plain event.
pub(super) fn read(reader: &Reader, text: &str, now: Timestamp) -> Result<Content, Fault> {
    // Serde would accept a list as the fields in their order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Fault::shape("it is no object"));
    }
    let fields: Fields<'_> = serde_json::from_str(text)?;
    if fields.api_version.is_some() || fields.kind.is_some() || fields.metadata.is_some() {
        return read_object(reader, Change::Alive, text, now);
    }
    let fields = plain::Fields {
        namespace: fields.namespace,
        resource: fields.resource,
        name: fields.name,
        uid: fields.uid,
        resource_version: fields.resource_version,
        usage: fields.usage,
    };
    plain::sighting(reader, Change::Alive, &fields).map(Content::Sighting)
}
