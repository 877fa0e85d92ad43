//! Reservations.

use std::borrow::Cow;

use quota_semantics::{Timestamp, resource::ResourceList, uid::Uid};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// A reservation. The daemon borrows what it writes; what is read is `Reservation<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation<'a> {
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The object that it is for.
    pub reserved_by: Holder<'a>,
    /// What it holds, or held.
    pub reserved: Cow<'a, ResourceList>,
    /// `pending`, `observed`, `committed`, `released` or `expired`.
    pub state: Cow<'a, str>,
    /// More about the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// When it was granted.
    pub created_time: Timestamp,
    /// When it ends by itself.
    pub expiration_time: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// How far the ledger was; none in a list, which says it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events is known to be behind.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The object that a reservation is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder<'a> {
    /// Its apiVersion.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub api_version: Cow<'a, str>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    /// Its name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    /// Its uid.
    pub uid: Cow<'a, Uid>,
}
