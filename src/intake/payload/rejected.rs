//! Determines the kind of a rejected event's object.

use std::{borrow::Cow, sync::Arc};

use quota_semantics::object::TypeMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Reader, kinds::Kind};

/// The fields of an event that determine the kind; all others are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<Cow<'a, str>>,
    specversion: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: quota_semantics::Name,
    kind: quota_semantics::Name,
}

/// The kind of an event's object; none if it is not certain. `is_object`: the text is the object itself.
pub(super) fn kind(reader: &Reader, is_object: bool, text: &[u8]) -> Option<Arc<Kind>> {
    if is_object {
        return of_object(reader, text);
    }
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    if event.specversion.is_some() {
        let data = event.data?.get().as_bytes();
        // The data of a CloudEvent is an event or an object.
        return kind_of_plain(reader, data).or_else(|| of_object(reader, data));
    }
    kind_of_plain(reader, text)
}

fn kind_of_plain(reader: &Reader, text: &[u8]) -> Option<Arc<Kind>> {
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    match (event.resource, event.object) {
        (Some(resource), _) => reader.resource(&resource).ok(),
        (None, object) => of_object(reader, object?.get().as_bytes()),
    }
}

fn of_object(reader: &Reader, text: &[u8]) -> Option<Arc<Kind>> {
    let Object { api_version, kind } = serde_json::from_slice(text).ok()?;
    reader.kind(&TypeMeta { api_version, kind }).ok()
}
