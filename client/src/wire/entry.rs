//! What the ledger holds: entries, objects, what is behind a number, and corrections. And the ingestion of events.

use std::borrow::Cow;

use quota_semantics::{
    Name, Timestamp, quantity::Quantity, quota::Spec, resource::ResourceList, uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, value::RawValue};

use super::{Actor, AsOf, is_false};

/// An entry of the ledger: `GET /v1/entries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The sequence of the entry: from 1, without gaps.
    pub sequence: u64,
    /// The ledger time of the entry: never before that of an earlier entry.
    pub time: Timestamp,
    /// The principal that caused the entry, with its request.
    pub actor: Actor,
    /// The event: `type` and the fields of that type, as listed in `docs/storage-format.md`.
    #[schemars( with = "serde_json::Map<String, Value>", extend("required" = ["type"], "properties" = {"type": {"type": "string"}}), )]
    pub event: Value,
    /// The object of an event that has only a uid, such as a deletion: as an earlier entry names it. Absent if the event
    /// names its object, and if that entry is not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<EntrySubject>,
}

/// The object, or the object of a reservation, that an entry is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntrySubject {
    /// Its kind, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// Its name; absent if it is not known.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The amounts that it counted for.
    pub amounts: ResourceList,
}

impl Entry {
    /// The type of the event, as in `ReservationGranted`.
    pub fn event_type(&self) -> &str {
        let name = self.event.get("type").and_then(Value::as_str);
        name.unwrap_or_default()
    }
}

/// A rejected event: `GET /v1/dead-letters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The sequence of the entry that records the rejection.
    pub sequence: u64,
    /// The ledger time of that entry.
    pub time: Timestamp,
    /// The source of the event; `http` for `POST /v1/events`.
    pub source: String,
    /// The position of the event in the source; over HTTP, its line.
    pub position: u64,
    /// The parse error.
    pub reason: String,
    /// The event as received, cut to 16 KiB.
    pub payload: String,
}

/// The numbers of recorded and ignored events, and the rejected events: `POST /v1/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsAnswer {
    /// The number of recorded events.
    pub accepted: u64,
    /// The number of events that change nothing: repeated, outdated, or not relevant to quotas.
    pub ignored: u64,
    /// The events that cannot be parsed.
    #[serde(default)]
    pub rejected: Vec<RejectedEvent>,
    /// The last entry that the response includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// An event that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct RejectedEvent {
    /// The line of the event in the body, from 1; in an array, its number.
    pub line: u64,
    /// The parse error.
    pub reason: String,
}

/// A request for a relist: `POST /v1/relist`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RelistRequest {
    /// The resources to relist, as in `deployments.apps`; empty: all.
    pub resources: Vec<String>,
}

/// The clusters whose publishers receive a request for a relist, and the delay until it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelistAnswer {
    /// The clusters whose publishers receive the request.
    pub clusters: Vec<Name>,
    /// The requested resources; empty: all.
    #[serde(default)]
    pub resources: Vec<Name>,
    /// The delay in seconds until the request is sent; 0 if no other was sent recently.
    #[serde(default)]
    pub wait_seconds: u64,
}

/// An object in the ledger, or in a listing: `GET /v1/namespaces/{namespace}/objects`.
///
/// The daemon writes it from borrowed data; clients read `Object<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Object<'a> {
    /// The uid of the object.
    pub uid: Cow<'a, Uid>,
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The resource, as in `deployments.apps`.
    pub resource: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The latest observed resourceVersion; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The amounts that the object counts for.
    pub usage: Cow<'a, ResourceList>,
    /// The sequence of the entry that last changed these amounts; absent for a listed object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The time at which the object stops counting without an event, such as the end of a pod's deletion grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_until: Option<Timestamp>,
}

// The objects and reservations behind a number.

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

// Drift between the ledger and a listing, and its correction.

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
