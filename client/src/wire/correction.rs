//! Drift between the ledger and a listing, and its correction.

use std::borrow::Cow;

use quota_semantics::{Name, quota::Spec, uid::Uid};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::{AsOf, Object, is_false};

/// Listed objects to compare with the ledger's record: `POST /v1/drift`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriftRequest<'a> {
    /// The listed objects, at most 500: Kubernetes objects, or objects with their own usage.
    #[serde(borrow)]
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub listing: Vec<&'a RawValue>,
}

/// How listed objects differ from the ledger's record: one comparison per object, in order.
///
/// The daemon writes it from borrowed data; clients read `DriftAnswer<'static>`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftAnswer<'a> {
    /// One comparison per listed object, in the order of the request.
    pub items: Vec<Compared<'a>>,
    /// The last entry that the response includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// A listed object, and how it differs from the ledger's record (`known`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Compared<'a> {
    /// The difference between the two.
    pub difference: Difference,
    /// The listed object; absent if it is not relevant to quotas or cannot be parsed.
    #[serde(flatten)]
    pub object: Option<Object<'a>>,
    /// The ledger's record of the object, or of another object with its name; absent if there is none, or no
    /// difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<Object<'a>>,
    /// The limits, if the object is a ResourceQuota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<ComparedQuota<'a>>,
    /// The parse error, if the object cannot be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
}

impl<'de, 'a> Deserialize<'de> for Compared<'a> {
    /// Not derived: exact quantities cannot be read out of the buffer in which serde keeps flattened fields.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields<'b> {
            difference: Difference,
            #[serde(default)]
            known: Option<Object<'b>>,
            #[serde(default)]
            quota: Option<ComparedQuota<'b>>,
            #[serde(default)]
            reason: Option<String>,
        }
        let json = Value::deserialize(deserializer)?;
        let fields = Fields::<'a>::deserialize(&json).map_err(D::Error::custom)?;
        let object = json.get("uid").map(|_| Object::<'a>::deserialize(&json));
        Ok(Self {
            difference: fields.difference,
            object: object.transpose().map_err(D::Error::custom)?,
            known: fields.known,
            quota: fields.quota,
            reason: fields.reason.map(Cow::Owned),
        })
    }
}

/// The listed limits of a quota, and those of the ledger's quota with the same name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ComparedQuota<'a> {
    /// The listed spec.
    pub listed: Cow<'a, Spec>,
    /// The spec in the ledger; absent if the ledger has no quota with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Cow<'a, Spec>>,
    /// The sequence of the entry that last set the quota in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// The difference between a listed object and the ledger's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub enum Difference {
    /// The record matches the listed object.
    None,
    /// The ledger has no such object.
    Missing,
    /// The ledger has no such object, but another one with its name.
    Recreated,
    /// The amounts differ, or the time until which the object counts, or the limits of a quota.
    Changed,
    /// The ledger has a later version of the object, or its deletion.
    Newer,
    /// The object is not relevant to quotas.
    Ignored,
    /// The object cannot be parsed.
    Unreadable,
}

/// Corrections of the ledger's record: `POST /v1/corrections`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CorrectionRequest")]
#[serde(deny_unknown_fields)]
pub struct CorrectionsRequest<'a> {
    /// The reason of the corrections, recorded in each entry that they cause.
    #[schemars(required)]
    pub reason: Option<String>,
    /// One correction per object, at most 1,000.
    #[serde(borrow)]
    pub items: Vec<CorrectionRequest<'a>>,
}

/// A correction: `object` exists as listed, or the object `uid` no longer exists.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Correction")]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CorrectionRequest<'a> {
    /// The listed object.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    pub object: Option<&'a RawValue>,
    /// The uid of the object that no longer exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// The namespace of the object `uid`; needed if several objects have this uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The ledger's record of the object at the time of the comparison; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<ExpectedObject>,
    /// The sequence of the entry that had set the quota of this name at the time of the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_sequence: Option<u64>,
}

/// The ledger's record of an object at the time of the comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Known")]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedObject {
    /// The sequence of the entry that last changed the object's amounts.
    pub sequence: u64,
    /// The latest observed resourceVersion; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// The outcomes of corrections: one per item, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CorrectionAnswer")]
#[serde(rename_all = "camelCase")]
pub struct CorrectionsAnswer {
    /// One outcome per item, in the order of the request.
    pub items: Vec<Corrected>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The outcome of one correction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Corrected {
    /// The outcome.
    pub outcome: CorrectionOutcome,
}

/// The outcome of one correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub enum CorrectionOutcome {
    /// The record was corrected.
    Corrected,
    /// The record was already correct.
    Right,
    /// The object or the quota has changed since the comparison; nothing was corrected.
    Conflict,
}

impl CorrectionOutcome {
    /// The outcome as it appears in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Corrected => "corrected",
            Self::Right => "right",
            Self::Conflict => "conflict",
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
