//! Bodies in Kubernetes' protobuf, for the kinds that clients send here. Field numbers are those of `generated.proto`
//! of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg`; fields that a quota does not use are left out.

use std::collections::HashMap;

use prost::Message;
use quota_semantics::embedded::plain_value;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{resource::Kind, write};

/// The prefix of every such body.
const MAGIC: &[u8] = b"k8s\0";

/// The envelope of every object.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceQuota {
    #[prost(message, required, tag = "1")]
    metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    spec: Spec,
    #[prost(message, required, tag = "3")]
    status: Status,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    generate_name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(int64, tag = "7")]
    generation: i64,
    #[prost(message, required, tag = "8")]
    #[serde(skip_serializing_if = "Time::is_none")]
    creation_timestamp: Time,
    #[prost(map = "string, string", tag = "11")]
    labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "12")]
    annotations: HashMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl Time {
    /// A zero time means no time.
    fn timestamp(self) -> Option<jiff::Timestamp> {
        let time = jiff::Timestamp::new(self.seconds, self.nanos).ok();
        time.filter(|_| self != Self::default())
    }

    fn is_none(&self) -> bool {
        self.timestamp().is_none()
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.timestamp().map(|time| time.to_string());
        text.serialize(serializer)
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFieldsEntry {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(string, tag = "2")]
    operation: String,
    #[prost(string, tag = "3")]
    api_version: String,
    #[prost(message, required, tag = "4")]
    #[serde(skip_serializing_if = "Time::is_none")]
    time: Time,
    #[prost(string, tag = "6")]
    fields_type: String,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<FieldsV1>,
    #[prost(string, tag = "8")]
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

#[derive(Clone, PartialEq, Message)]
struct FieldsV1 {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

impl Serialize for FieldsV1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = plain_value(&self.raw).unwrap_or_default();
        json.serialize(serializer)
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[prost(map = "string, message", tag = "1")]
    hard: HashMap<String, Quantity>,
    #[prost(string, repeated, tag = "2")]
    scopes: Vec<String>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    scope_selector: Option<ScopeSelector>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Status {
    #[prost(map = "string, message", tag = "1")]
    hard: HashMap<String, Quantity>,
    #[prost(map = "string, message", tag = "2")]
    used: HashMap<String, Quantity>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(transparent)]
struct Quantity {
    #[prost(string, tag = "1")]
    string: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeSelector {
    #[prost(message, repeated, tag = "1")]
    match_expressions: Vec<ScopeExpression>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeExpression {
    #[prost(string, tag = "1")]
    scope_name: String,
    #[prost(string, tag = "2")]
    operator: String,
    #[prost(string, repeated, tag = "3")]
    values: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct DeleteOptions {
    #[prost(message, optional, tag = "2")]
    preconditions: Option<Preconditions>,
    #[prost(string, repeated, tag = "5")]
    dry_run: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Preconditions {
    #[prost(string, optional, tag = "1")]
    uid: Option<String>,
    #[prost(string, optional, tag = "2")]
    resource_version: Option<String>,
}

/// A review: the field number of the spec is the same in all. The kind determines the type of the spec.
#[derive(Clone, PartialEq, Message)]
struct Review {
    #[prost(bytes = "vec", tag = "2")]
    spec: Vec<u8>,
}

/// Why a body cannot be decoded as the expected message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undecodable {
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    #[error(transparent)]
    Wire(#[from] prost::DecodeError),
    #[error("no kind {kind:?} is registered for version {api_version:?} here")]
    OtherKind { api_version: String, kind: String },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A quota as JSON.
pub(super) fn quota(body: &[u8]) -> Result<Value, Undecodable> {
    let (types, raw) = open(body)?;
    if types.kind != Kind::Quota.name() || types.api_version != super::VERSION {
        let TypeMeta { api_version, kind } = types;
        return Err(Undecodable::OtherKind { api_version, kind });
    }
    let mut json = serde_json::to_value(ResourceQuota::decode(&*raw)?)?;
    json["apiVersion"] = types.api_version.into();
    json["kind"] = types.kind.into();
    Ok(json)
}

/// The options of a deletion.
pub(super) fn delete_options(body: &[u8]) -> Result<write::DeleteOptions, Undecodable> {
    let (_, raw) = open(body)?;
    let options = DeleteOptions::decode(&*raw)?;
    Ok(write::DeleteOptions {
        preconditions: options.preconditions.map(|preconditions| write::Preconditions {
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        }),
        dry_run: Some(options.dry_run),
    })
}

/// The `spec` of a review.
pub(super) fn review<S: Message + Default>(body: &[u8]) -> Result<S, Undecodable> {
    let (_, raw) = open(body)?;
    Ok(S::decode(&*Review::decode(&*raw)?.spec)?)
}

fn open(body: &[u8]) -> Result<(TypeMeta, Vec<u8>), Undecodable> {
    let body = body.strip_prefix(MAGIC).ok_or(Undecodable::NoMagic)?;
    let unknown = Unknown::decode(body)?;
    Ok((unknown.type_meta.unwrap_or_default(), unknown.raw))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_in_managed_fields_are_not_read_as_json() {
        let embedded = br#"{"$serde_json::private::RawValue":"{\"f:spec\":{}}"}"#;
        let of = |raw: &[u8]| {
            let entry = ManagedFieldsEntry {
                fields_v1: Some(FieldsV1 { raw: raw.to_vec() }),
                ..ManagedFieldsEntry::default()
            };
            let json = serde_json::to_value(entry).unwrap();
            json["fieldsV1"].clone()
        };
        assert_eq!(of(br#"{"f:spec":{}}"#), json!({"f:spec": {}}));
        assert_eq!(of(embedded), Value::Null);
    }

    #[test]
    fn what_kubectl_create_quota_sends_is_read() {
        let sent = "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRKfAQoWCgJycRIAGgR3aXJlIgAqADIAOABCABKCAQoRCgpsaW1pdHMuY3B1EgMK\
                    ATgKDAoEcG9kcxIECgIxMAoTCgxyZXF1ZXN0cy5jcHUSAwoBNAofChhyZXF1ZXN0cy5leGFtcGxlLmNvbS9ncHUSAwoBMgoYCg9y\
                    ZXF1ZXN0cy5tZW1vcnkSBQoDOEdpCg8KCHNlcnZpY2VzEgMKATUaABoAIgA=";
        let json = quota(&STANDARD.decode(sent).unwrap()).unwrap();
        assert_eq!((&json["kind"], &json["apiVersion"]), (&json!("ResourceQuota"), &json!("v1")));
        assert_eq!(json["metadata"]["name"], "rq");
        assert_eq!(json["metadata"]["namespace"], "wire");
        assert_eq!(json["metadata"].get("creationTimestamp"), None);
        let hard = json!({
            "pods": "10", "requests.cpu": "4", "requests.memory": "8Gi", "limits.cpu": "8", "services": "5",
            "requests.example.com/gpu": "2",
        });
        assert_eq!(json["spec"]["hard"], hard);
    }

    #[test]
    fn what_the_api_server_answers_is_read() {
        let answered = "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRK9AQqpAQoDdmFsEgAaBHdpcmUiACokMGEyNDBlNGEtMGM5Yy00MGIwLWFmYmUt\
                        MTVmZmQxZjc0OGIzMgMyNDQ4AEIICLWWg9gGEACKAWAKDmt1YmVjdGwtY3JlYXRlEgZVcGRhdGUaAnYxIggItZaD2AYQADII\
                        RmllbGRzVjE6LAoqeyJmOnNwZWMiOnsiZjpoYXJkIjp7Ii4iOnt9LCJmOnBvZHMiOnt9fX19QgASDQoLCgRwb2RzEgMKATEa\
                        ABoAIgA=";
        let json = quota(&STANDARD.decode(answered).unwrap()).unwrap();
        assert_eq!(json["metadata"]["resourceVersion"], "244");
        assert_eq!(json["metadata"]["creationTimestamp"], "2026-11-20T22:35:33Z");
        let fields = json!({"f:spec": {"f:hard": {".": {}, "f:pods": {}}}});
        assert_eq!(json["metadata"]["managedFields"][0]["fieldsV1"], fields);
    }

    #[test]
    fn other_bodies_are_refused() {
        assert!(matches!(quota(b"{}"), Err(Undecodable::NoMagic)));
        assert!(matches!(quota(b"k8s\0\xff"), Err(Undecodable::Wire(_))));
        let namespace = STANDARD
            .decode("azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhwKFAoEd2lyZRIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA==");
        assert!(matches!(quota(&namespace.unwrap()), Err(Undecodable::OtherKind { .. })));
    }
}
