//! Determines the shape of an event, or of an object of a listing, and reads it in that shape.

use quota_core::{
    decide::{Bookmark, Relist, Sighting},
    source::Observation,
};
use quota_semantics::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    Fault, Reader, kubernetes, plain, progress,
    wire::{Change, Wire},
};

/// Reads one event.
pub(super) fn read(
    reader: &Reader,
    text: &str,
    now: Timestamp,
) -> Result<Option<Observation>, Fault> {
    let wire: Wire<'_> = serde_json::from_str(text)?;
    if wire.specversion.is_none() {
        return event(reader, wire, now);
    }
    let event_type = wire.event_type.as_ref().map(|text| &*text.0);
    let event_type = event_type.ok_or_else(|| Fault::field("the CloudEvent has no type"))?;
    if wire.data_base64.is_some() {
        return Err(Fault::shape("the CloudEvent's data is in base64, not JSON"));
    }
    let data = wire.data.ok_or_else(|| Fault::field("the CloudEvent has no data"))?.get();
    if let Some(change) = Change::of_cloud_event(event_type) {
        let sighting = read_object(reader, change, data, now)?;
        return Ok(sighting.map(Observation::Sighting));
    }
    let wire: Wire<'_> = serde_json::from_str(data)?;
    if wire.specversion.is_some() {
        return Err(Fault::shape("a CloudEvent within a CloudEvent"));
    }
    event(reader, wire, now)
}

/// Reads an object without an event around it.
pub(super) fn read_object(
    reader: &Reader,
    change: Change,
    text: &str,
    now: Timestamp,
) -> Result<Option<Sighting>, Fault> {
    kubernetes::sighting(reader, change, None, serde_json::from_str(text)?, now)
}

fn event(
    reader: &Reader,
    mut wire: Wire<'_>,
    now: Timestamp,
) -> Result<Option<Observation>, Fault> {
    let relist = |relist: Relist| Observation::Relist { relist, received: None };
    let bookmark = |bookmark: Bookmark| Observation::Bookmark { bookmark, received: None };
    let event_type =
        wire.event_type.as_ref().ok_or_else(|| Fault::shape("the event has no type"))?;
    let change = match &*event_type.0 {
        "ADDED" | "MODIFIED" => Change::Alive,
        "DELETED" => Change::Deleted,
        "BOOKMARK" if wire.object.is_none() => {
            return Ok(progress::bookmark(reader, &wire)?.map(bookmark));
        }
        "BOOKMARK" => {
            let end =
                |object| progress::end_of_initial_events(reader, wire.resource.as_ref(), &object);
            return Ok(wire.object.map(end).transpose()?.flatten().map(relist));
        }
        "RELIST_BEGIN" => return Ok(Some(relist(progress::begin(reader, &wire)?))),
        "RELIST_END" => return Ok(Some(relist(progress::end(reader, &wire)?))),
        "ERROR" => return Err(Fault::shape("the watch ended with an error")),
        other => return Err(Fault::shape(format!("unknown type {other:?}"))),
    };
    if let Some(object) = wire.object.take() {
        let resource = wire.resource.as_ref();
        let sighting = kubernetes::sighting(reader, change, resource, object, now)?;
        return Ok(sighting.map(Observation::Sighting));
    }
    Ok(Some(Observation::Sighting(plain::sighting(reader, change, &wire)?)))
}

/// The fields that distinguish a Kubernetes object from a plain one.
#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "apiVersion")]
    api_version: Option<IgnoredAny>,
    kind: Option<IgnoredAny>,
    metadata: Option<IgnoredAny>,
}

/// Reads an object of a listing, which stands by itself: a Kubernetes object, or the fields of a plain event.
pub(super) fn read_listed(
    reader: &Reader,
    text: &str,
    now: Timestamp,
) -> Result<Option<Sighting>, Fault> {
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
