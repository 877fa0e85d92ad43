//! What is put right because it was found to be wrong, and the listings that it is found by.

use serde::Serialize;

use super::{Observed, Sequence};
use quota_semantics::{Name, object::Footprint, uid::Uid};

/// An object that is there after all, or counts for something else than was believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// The object as it was listed.
    #[serde(flatten)]
    pub object: Observed,
    /// What it was believed to count for; none: it was unknown.
    pub was: Option<Footprint>,
}

/// An object that is not there any more, though its deletion was never seen.
///
/// Not final, as a deletion is: the object counts again as soon as it is seen again.
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
    /// What it counted for.
    pub footprint: Footprint,
    /// How it was found to be gone.
    pub cause: Cause,
}

/// How something was found to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all_fields = "camelCase")]
pub enum Cause {
    /// Somebody compared the ledger with a listing; the entry's actor says who and why.
    Drift,
    /// It was not in a relist of its source.
    Relist {
        /// The entry with which the relist began.
        began: Sequence,
    },
}

/// What a relist lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistScope {
    /// The kind of objects, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// Their namespace; none: those of all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// Whose relist it is: the principal whose events make it up.
    pub source: Name,
}

/// A source began to list all objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistBegin {
    /// What is listed.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// What its end has to bear, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Name>,
    /// Whether there may be none.
    pub allow_empty: bool,
}

/// A source has listed all objects of a kind: what was not among them is going to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistClose {
    /// What is listed.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// The version as of which was listed: what is newer is not ended; 0: unknown.
    pub version: u64,
}

/// A relist is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RelistEnd {
    /// What was listed.
    #[serde(flatten)]
    pub scope: RelistScope,
    /// The entry with which it began.
    pub began: Sequence,
    /// What came of it.
    pub outcome: RelistOutcome,
    /// How many of the listed objects are alive.
    pub listed: u64,
    /// How many objects were ended, since they were not listed.
    pub ended: u64,
}

/// What came of a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RelistOutcome {
    /// What was not listed has been ended.
    Complete,
    /// Nothing was listed, and nothing said that there may be none: nothing was ended.
    Empty,
    /// Something that came in between was lost or not understood, so it may have been an object: nothing was ended.
    Incomplete,
}
