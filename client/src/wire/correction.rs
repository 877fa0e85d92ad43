//! Drift between the ledger and a listing, and its correction.

use std::borrow::Cow;

use quota_semantics::{Name, quota::Spec, uid::Uid};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::{AsOf, Object, is_false};

/// Objects to be compared with what the ledger believes: `POST /v1/drift`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriftRequest<'a> {
    /// The objects as they were listed.
    #[serde(borrow)]
    pub listing: Vec<&'a RawValue>,
}

/// Where the ledger and the listing disagree: `POST /v1/drift`. The daemon borrows what it writes; what is read is
/// `DriftAnswer<'static>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftAnswer<'a> {
    /// One for each listed object, in their order.
    pub items: Vec<Compared<'a>>,
    /// How far the ledger was.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// A listed object beside what the ledger has of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared<'a> {
    /// How they differ.
    pub difference: Difference,
    /// The object as it was listed; none if it does not count or cannot be read.
    #[serde(flatten)]
    pub object: Option<Object<'a>>,
    /// The object in the ledger, or the one of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<Object<'a>>,
    /// Of a ResourceQuota: its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<ComparedQuota<'a>>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
}

impl<'de, 'a> Deserialize<'de> for Compared<'a> {
    /// Not derived: exact quantities cannot be read out of the buffer in which serde keeps flattened fields.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Beside<'b> {
            difference: Difference,
            #[serde(default)]
            known: Option<Object<'b>>,
            #[serde(default)]
            quota: Option<ComparedQuota<'b>>,
            #[serde(default)]
            reason: Option<String>,
        }
        let json = Value::deserialize(deserializer)?;
        let beside = Beside::<'a>::deserialize(&json).map_err(D::Error::custom)?;
        let object = json.get("uid").map(|_| Object::<'a>::deserialize(&json));
        Ok(Self {
            difference: beside.difference,
            object: object.transpose().map_err(D::Error::custom)?,
            known: beside.known,
            quota: beside.quota,
            reason: beside.reason.map(Cow::Owned),
        })
    }
}

/// Limits that were listed, and those that the ledger has for a quota of this name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedQuota<'a> {
    /// As it was listed.
    pub listed: Cow<'a, Spec>,
    /// As the ledger has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Cow<'a, Spec>>,
    /// The entry that set the one in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// How a listed object differs from the one in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Difference {
    /// Not at all.
    None,
    /// The ledger does not have it.
    Missing,
    /// The ledger does not have it, but another one of its name.
    Recreated,
    /// It counts for something else.
    Changed,
    /// The ledger has a newer version of it.
    Newer,
    /// It is of no concern to quotas.
    Ignored,
    /// It cannot be read.
    Unreadable,
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
    /// The ledger's record of it at the time of the comparison; none: there was no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<ExpectedObject>,
    /// The entry that had set the quota of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_sequence: Option<u64>,
}

/// The ledger's record of an object at the time of the comparison.
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
    /// Whether a source of events lags.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_compared_is_read_with_its_exact_amounts() {
        let written = json!({
            "difference": "changed", "uid": "u", "namespace": "a", "resource": "pods", "name": "web",
            "usage": {"requests.cpu": "500m"},
            "known": {"uid": "u", "namespace": "a", "resource": "pods", "name": "web",
                      "usage": {"requests.cpu": "1"}, "sequence": 7}
        });
        let read: Compared<'static> = serde_json::from_str(&written.to_string()).unwrap();
        assert_eq!(read.object.as_ref().unwrap().name, "web");
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        let none: Compared<'static> = serde_json::from_str(r#"{"difference": "ignored"}"#).unwrap();
        assert_eq!((none.difference, none.object), (Difference::Ignored, None));
    }
}
