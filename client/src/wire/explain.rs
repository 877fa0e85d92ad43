//! What makes a number.

use quota_semantics::{Name, Timestamp, quantity::Quantity, uid::Uid};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// A number, and a page of what makes it: `GET /v1/namespaces/{namespace}/explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The namespace.
    pub namespace: Name,
    /// The quota whose number it is; none: all that counts in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Name>,
    /// The resource.
    pub resource: Name,
    /// The quota's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    /// What objects count for.
    pub used: Quantity,
    /// What pending reservations hold beside that.
    pub reserved: Quantity,
    /// What makes these sums, the largest first.
    pub items: Vec<Contribution>,
    /// What to ask with for the next page; none: this is the last one.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// What an object or a reservation adds to a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contribution {
    /// An object, a commit, or a reservation.
    pub kind: Kind,
    /// Its uid.
    pub uid: Uid,
    /// The object's resource, as in `deployments.apps`.
    pub resource: Box<str>,
    /// The object's name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// What it adds.
    pub amount: Quantity,
    /// The entry that caused it.
    pub sequence: u64,
    /// When a reservation ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<Timestamp>,
}

/// What contributes to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An object that a source has shown.
    Object,
    /// What the holder of a reservation has committed, and no source has shown yet.
    Commit,
    /// A pending reservation.
    Reservation,
}
