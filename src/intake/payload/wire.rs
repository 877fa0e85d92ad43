//! The shapes of events, distinguished by their fields.

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{field::Field, text::Text, watched::Watched};

/// The change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The object was created, changed, or existed when the watch began.
    Alive,
    /// The object was deleted.
    Deleted,
}

impl Change {
    /// The change that a CloudEvent of this type reports for the object in its data. The types are those of Knative's
    /// ApiServerSource in resource mode.
    pub(super) fn of_cloud_event(event_type: &str) -> Option<Self> {
        match event_type.strip_prefix("dev.knative.apiserver.resource.")? {
            "add" | "update" => Some(Self::Alive),
            "delete" => Some(Self::Deleted),
            _ => None,
        }
    }
}

/// The fields of all shapes. Fields of plain events may have any type until the event proves to be plain: in a
/// CloudEvent they may be extension attributes.
#[derive(Debug, Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) event_type: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "watched")]
    pub(super) object: Option<Watched<'a>>,
    pub(super) specversion: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    pub(super) data_base64: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) namespace: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) resource: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Field<'a>>,
    #[serde(borrow, rename = "resourceVersion")]
    pub(super) resource_version: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<Field<'a>>,
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
