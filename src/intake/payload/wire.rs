//! The shapes of events, distinguished by their fields.

use std::borrow::Cow;

use quota_semantics::Timestamp;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    Content, Fault, Reader, bookmark, field::Field, kubernetes, plain, relist, watched::Watched,
};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was created, changed, or was there when the watch began.
    Alive,
    /// It was deleted.
    Deleted,
}

impl Change {
    /// What a CloudEvent of this type says about the object in its data. The types are those of Knative's
    /// ApiServerSource in resource mode.
    pub(super) fn of_cloud_event(event_type: &str) -> Option<Self> {
        match event_type.strip_prefix("dev.knative.apiserver.resource.")? {
            "add" | "update" => Some(Self::Alive),
            "delete" => Some(Self::Deleted),
            _ => None,
        }
    }
}

/// A string; borrowed from the payload unless it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The fields of all shapes. Those of plain events may be of any type until it is known to be one: in a CloudEvent
/// they may be extension attributes.
#[derive(Debug, Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    event_type: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "watched")]
    object: Option<Watched<'a>>,
    specversion: Option<IgnoredAny>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    data_base64: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) namespace: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) resource: Option<Field<'a>>,
    #[serde(borrow)]
    name: Option<Field<'a>>,
    #[serde(borrow)]
    uid: Option<Field<'a>>,
    #[serde(borrow, rename = "resourceVersion")]
    pub(super) resource_version: Option<Field<'a>>,
    #[serde(borrow)]
    usage: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Field<'a>>,
    #[serde(borrow, rename = "allowEmpty")]
    pub(super) allow_empty: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) versions: Option<Field<'a>>,
    #[serde(borrow, rename = "clusterUid")]
    pub(super) cluster_uid: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) instance: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<Field<'a>>,
}

fn watched<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Watched<'a>>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads one event.
pub(super) fn read(reader: &Reader, text: &str, now: Timestamp) -> Result<Content, Fault> {
    let wire: Wire<'_> = serde_json::from_str(text)?;
    if wire.specversion.is_none() {
        return event(reader, wire, now);
    }
    let event_type = wire.event_type.as_ref().map(|text| &*text.0);
    let event_type = event_type.ok_or_else(|| Fault::field("the CloudEvent has no type"))?;
    if wire.data_base64.is_some() {
        return Err(Fault::shape("the CloudEvent's data is in base64, not JSON"));
    }
    let data = wire
        .data
        .ok_or_else(|| Fault::field("the CloudEvent has no data"))?
        .get();
    if let Some(change) = Change::of_cloud_event(event_type) {
        return read_object(reader, change, data, now);
    }
    let wire: Wire<'_> = serde_json::from_str(data)?;
    if wire.specversion.is_some() {
        return Err(Fault::shape("a CloudEvent within a CloudEvent"));
    }
    event(reader, wire, now)
}

/// Reads an object that stands by itself.
pub(super) fn read_object(
    reader: &Reader,
    change: Change,
    text: &str,
    now: Timestamp,
) -> Result<Content, Fault> {
    kubernetes::sighting(reader, change, serde_json::from_str(text)?, now).map(Content::of)
}

fn event(reader: &Reader, wire: Wire<'_>, now: Timestamp) -> Result<Content, Fault> {
    let event_type = wire
        .event_type
        .as_ref()
        .ok_or_else(|| Fault::shape("the event has no type"))?;
    let change = match &*event_type.0 {
        "ADDED" | "MODIFIED" => Change::Alive,
        "DELETED" => Change::Deleted,
        "BOOKMARK" if wire.object.is_none() => {
            return Ok(bookmark::read(reader, &wire)?.map_or(Content::Nothing, Content::Bookmark));
        }
        "BOOKMARK" => {
            let bookmark = |object| relist::bookmark(reader, &object);
            let ended = wire.object.map(bookmark).transpose()?.flatten();
            return Ok(ended.map_or(Content::Nothing, Content::Relist));
        }
        "RELIST_BEGIN" => return relist::begin(reader, &wire).map(Content::Relist),
        "RELIST_END" => return relist::end(reader, &wire).map(Content::Relist),
        "ERROR" => return Err(Fault::shape("the watch ended with an error")),
        other => return Err(Fault::shape(format!("unknown type {other:?}"))),
    };
    if let Some(object) = wire.object {
        return kubernetes::sighting(reader, change, object, now).map(Content::of);
    }
    let fields = plain::Fields {
        namespace: wire.namespace,
        resource: wire.resource,
        name: wire.name,
        uid: wire.uid,
        resource_version: wire.resource_version,
        usage: wire.usage,
    };
    plain::sighting(reader, change, &fields).map(Content::Sighting)
}
