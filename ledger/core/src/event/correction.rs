//! Corrections of wrong records, and the listings that reveal them.

use serde::Serialize;

use super::{Observed, Sequence};
use quota_semantics::{Name, object::Footprint, uid::Uid};

/// An object that exists although it was not recorded, or that has another footprint than recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The object as it was listed.
    #[serde(flatten)]
    pub object: Observed,
    /// The recorded footprint; none: the object was not recorded.
    pub was: Option<Footprint>,
}

/// An object that no longer exists, although its deletion was never observed.
///
/// Not final, as a deletion is: the object counts again as soon as it is observed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// Its identity.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its resource and group, as in `pods`.
    pub resource: Name,
    /// Its name.
    pub name: Box<str>,
    /// The recorded footprint.
    pub footprint: Footprint,
    /// How the end was found.
    pub cause: Cause,
}

/// How a wrong record was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all_fields = "camelCase")]
pub enum Cause {
    /// The ledger was compared with a listing; the entry's actor says by whom and why.
    Drift,
    /// The object was not in a relist of its source.
    Relist {
        /// The entry with which the relist began.
        began: Sequence,
    },
}

/// The scope of a relist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistScope {
    /// The kind of objects, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// Their namespace; none: those of all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The source of the relist: the principal that sends its events.
    pub source: Name,
}

impl RelistScope {
    /// Whether the scope holds objects of this kind and namespace. Only a scope of all namespaces holds what has none.
    pub(crate) fn covers(&self, resource: &str, namespace: Option<&str>) -> bool {
        let only = self.namespace.as_deref();
        self.resource == *resource && (only.is_none() || only == namespace)
    }
}

/// A source began to list all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistBegin {
    /// The scope.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// The identifier that the end has to repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Name>,
    /// Whether an empty list is allowed.
    pub allow_empty: bool,
}

/// A source has listed all objects of a kind: recorded objects that were not listed are going to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistClose {
    /// The scope.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// The version of the list: newer objects are not ended; 0: unknown.
    pub version: u64,
}

/// A relist is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistEnd {
    /// The scope.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// The entry with which it began.
    pub began: Sequence,
    /// The result.
    pub outcome: RelistOutcome,
    /// The number of listed objects that are alive.
    pub listed: u64,
    /// The number of objects that were ended because they were not listed.
    pub ended: u64,
}

/// The result of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RelistOutcome {
    /// Objects that were not listed have been ended.
    Complete,
    /// The list was empty without having been announced as possibly empty: nothing was ended.
    Empty,
    /// A message in between was lost or not understood, and may have listed an object: nothing was ended.
    Incomplete,
}
