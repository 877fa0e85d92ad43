//! Entries of the ledger, and the ingestion of events.

use quota_semantics::{Name, Timestamp, resource::ResourceList};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Actor, AsOf, is_false};

/// An entry of the ledger: `GET /v1/entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The sequence of the entry: from 1, without gaps.
    pub sequence: u64,
    /// The ledger time of the entry: never before that of an earlier entry.
    pub time: Timestamp,
    /// The principal that caused the entry, with its request.
    pub actor: Actor,
    /// The event: `type` and the fields of that type, as listed in `docs/storage-format.md`.
    #[schemars( with = "serde_json::Map<String, Value>", extend("required" = ["type"], "properties" = {"type": {"type": "string"}}), )]
    pub event: Value,
    /// The object of an event that has only a uid, such as a deletion: as an earlier entry names it. Absent if the event
    /// names its object, and if that entry is not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<EntrySubject>,
}

/// The object, or the object of a reservation, that an entry is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntrySubject {
    /// Its kind, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// Its name; absent if it is not known.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The amounts that it counted for.
    pub amounts: ResourceList,
}

impl Entry {
    /// The type of the event, as in `ReservationGranted`.
    pub fn event_type(&self) -> &str {
        let name = self.event.get("type").and_then(Value::as_str);
        name.unwrap_or_default()
    }
}

/// A rejected event: `GET /v1/dead-letters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The sequence of the entry that records the rejection.
    pub sequence: u64,
    /// The ledger time of that entry.
    pub time: Timestamp,
    /// The source of the event; `http` for `POST /v1/events`.
    pub source: String,
    /// The position of the event in the source; over HTTP, its line.
    pub position: u64,
    /// The parse error.
    pub reason: String,
    /// The event as received, cut to 16 KiB.
    pub payload: String,
}

/// The numbers of recorded and ignored events, and the rejected events: `POST /v1/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsAnswer {
    /// The number of recorded events.
    pub accepted: u64,
    /// The number of events that change nothing: repeated, outdated, or not relevant to quotas.
    pub ignored: u64,
    /// The events that cannot be parsed.
    #[serde(default)]
    pub rejected: Vec<RejectedEvent>,
    /// The last entry that the response includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// An event that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RejectedEvent {
    /// The line of the event in the body, from 1; in an array, its number.
    pub line: u64,
    /// The parse error.
    pub reason: String,
}

/// A request for a relist: `POST /v1/relist`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RelistRequest {
    /// The resources to relist, as in `deployments.apps`; empty: all.
    pub resources: Vec<String>,
}

/// The clusters whose publishers receive a request for a relist, and the delay until it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelistAnswer {
    /// The clusters whose publishers receive the request.
    pub clusters: Vec<Name>,
    /// The requested resources; empty: all.
    #[serde(default)]
    pub resources: Vec<Name>,
    /// The delay in seconds until the request is sent; 0 if no other was sent recently.
    #[serde(default)]
    pub wait_seconds: u64,
}
