//! What a listing has shown to be wrong: asked for, and put right.

use quota_semantics::{Name, uid::Uid};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{AsOf, is_false};

/// Objects to be compared with what the ledger believes: `POST /v1/drift`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriftRequest<'a> {
    /// The objects as they were listed.
    #[serde(borrow)]
    pub listing: Vec<&'a RawValue>,
}

/// What is to be put right: `POST /v1/corrections`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrectionsRequest<'a> {
    /// Why: each entry that this causes holds it. It has to be there.
    pub reason: Option<String>,
    /// One for each object.
    #[serde(borrow)]
    pub items: Vec<CorrectionRequest<'a>>,
}

/// The object is there as it was listed, or that of the uid is not there any more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CorrectionRequest<'a> {
    /// The object as it was listed.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub object: Option<&'a RawValue>,
    /// The uid of the one that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// With the uid: the namespace of the one that is gone. None: no other one bears the uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// What was known of it when it was compared; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<ExpectedObject>,
    /// The entry that had set the quota of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_sequence: Option<u64>,
}

/// What was known of an object when it was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedObject {
    /// The entry that last changed what it counts for.
    pub sequence: u64,
    /// The version that was seen last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// What became of corrections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CorrectionsAnswer {
    /// One for each item, in their order.
    pub items: Vec<Corrected>,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events is known to be behind.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrected {
    /// What.
    pub outcome: CorrectionOutcome,
}

/// What became of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CorrectionOutcome {
    /// It has been put right.
    Corrected,
    /// It was right already.
    Right,
    /// It has changed since it was compared, and was left as it is.
    Conflict,
    /// Its holder said a short while ago that it exists: it was left as it is.
    Awaited,
}

impl CorrectionOutcome {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Corrected => "corrected",
            Self::Right => "right",
            Self::Conflict => "conflict",
            Self::Awaited => "awaited",
        }
    }
}
