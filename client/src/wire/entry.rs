//! Entries of the ledger, and events for it.

use quota_semantics::{Name, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Actor, AsOf, is_false};

/// An entry of the ledger: `GET /v1/entries`. The daemon writes its own entries in this form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place: from 1, without gaps.
    pub sequence: u64,
    /// Ledger time: never before that of an earlier entry.
    pub time: Timestamp,
    /// Who caused it.
    pub actor: Actor,
    /// What happened: `type` says which of the events of `docs/storage-format.md`, whose fields stand beside it.
    pub event: Value,
}

impl Entry {
    /// Which event it is, as in `ReservationGranted`.
    #[must_use]
    pub fn event_type(&self) -> &str {
        let name = self.event.get("type").and_then(Value::as_str);
        name.unwrap_or_default()
    }
}

/// Rejected events: `GET /v1/dead-letters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The entry.
    pub sequence: u64,
    /// When it came.
    pub time: Timestamp,
    /// The source that gave it.
    pub source: String,
    /// Its position in the source.
    pub position: u64,
    /// Why it cannot be understood.
    pub reason: String,
    /// What came, as much as is kept.
    pub payload: String,
}

/// What became of events: `POST /v1/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsAnswer {
    /// How many were recorded.
    pub accepted: u64,
    /// How many change nothing: seen before, or of no concern to quotas.
    pub ignored: u64,
    /// Those that cannot be understood.
    #[serde(default)]
    pub rejected: Vec<RejectedEvent>,
    /// How far the ledger was.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// An event that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedEvent {
    /// Its line, from 1; in an array its place.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// The kinds of which a relist is requested: `POST /v1/relist`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelistRequest {
    /// The resources, as in `deployments.apps`; none: all.
    pub resources: Vec<String>,
}

/// The publishers from which a relist is requested: `POST /v1/relist`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistAnswer {
    /// The clusters whose publishers get the request.
    pub clusters: Vec<Name>,
    /// The requested resources; empty: all.
    #[serde(default)]
    pub resources: Vec<Name>,
    /// The delay until the request is sent, since another one was sent recently.
    #[serde(default)]
    pub wait_seconds: u64,
}
