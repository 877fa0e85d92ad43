//! The objects and reservations behind a number.

use quota_semantics::{Name, Timestamp, quantity::Quantity, uid::Uid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// A number, and a page of the objects and reservations behind it: `GET /v1/namespaces/{namespace}/explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The namespace.
    pub namespace: Name,
    /// The quota or group of the number; absent for the sum of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Name>,
    /// The resource.
    pub resource: Name,
    /// The limit; absent for the sum of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The parts of `used` and `reserved`, the largest first.
    pub items: Vec<Contribution>,
    /// The `continue` token of the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// A number of a group, and a page of the objects and reservations behind it: `GET /v1/groups/{name}/explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupExplanation {
    /// The group.
    pub group: Name,
    /// The resource.
    pub resource: Name,
    /// The limit; of a group that limits each member alone, that of one member.
    pub hard: Quantity,
    /// The amount of observed objects and commits of all members.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The amount that is guaranteed to descendants of the group, and not used or reserved by them.
    #[serde(default)]
    pub guaranteed_to_others: Quantity,
    /// The parts of `used` and `reserved` in the namespaces that the caller may read, the largest first.
    pub items: Vec<Contribution>,
    /// The number of namespaces whose parts are left out, since there are too many: those with the smallest amounts.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub namespaces_omitted: usize,
    /// The `continue` token of the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

fn is_none_left_out(count: &usize) -> bool {
    *count == 0
}

/// The part of a number that one object, commit or reservation accounts for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct Contribution {
    /// The namespace; absent if the answer is about one namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The kind of the part.
    pub kind: Kind,
    /// The uid of the object, or of the object that the reservation is for.
    pub uid: Uid,
    /// The resource of the object, as in `deployments.apps`.
    pub resource: Box<str>,
    /// The name of the object; empty if the reservation has none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The amount of the part.
    pub amount: Quantity,
    /// The sequence of the entry that last changed the object's amounts, or granted the reservation.
    pub sequence: u64,
    /// The time at which a pending reservation expires; absent for objects and commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_time: Option<Timestamp>,
}

/// The kind of a part of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An observed object: a part of `used`.
    Object,
    /// A commit whose object no source has reported yet: a part of `used`.
    Commit,
    /// A pending reservation: a part of `reserved`.
    Reservation,
}
