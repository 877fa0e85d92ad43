//! Denials that the daemon remembers.

use quota_semantics::{Actor, Name, Timestamp, resource::ResourceList, uid::Uid};
use serde::{Deserialize, Serialize};

use super::{AsOf, QuotaCheck, is_false};

/// A denial: `GET /v1/denials`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// Its number: later ones have higher numbers.
    pub id: u64,
    /// When.
    pub time: Timestamp,
    /// The namespace.
    pub namespace: Name,
    /// The caller.
    pub actor: Actor,
    /// What it was for.
    pub object: DeniedObject,
    /// Why: one of a closed set.
    pub reason: String,
    /// Why, in words.
    pub detail: String,
    /// The limits that something was wanted of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaCheck>,
    /// When there would be room, if the expiry of reservations alone makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether it would fit if nothing else were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_when_empty: Option<bool>,
    /// Whether there was more than is kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shortened: bool,
    /// How far the ledger was when it was decided.
    pub as_of: AsOf,
}

/// What a denied request was for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeniedObject {
    /// Its uid.
    pub uid: Uid,
    /// Its resource, as in `deployments.apps`.
    pub resource: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// What was wanted.
    pub requested: ResourceList,
}
