//! ResourceQuota as an API object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::spec::Spec;
use crate::{
    Name, Timestamp,
    embedded::refuse_embedded,
    nullable::{is_default, nullable},
    resource::ResourceList,
};

/// The API version of ResourceQuota.
pub const API_VERSION: &str = "v1";
/// The kind of ResourceQuota.
pub const KIND: &str = "ResourceQuota";

/// The annotation in which kubectl records the last applied manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The places in a manifest that hold objects.
const OBJECTS: [&str; 7] = [
    "",
    "metadata",
    "metadata/ownerReferences/*",
    "spec",
    "spec/scopeSelector",
    "spec/scopeSelector/matchExpressions/*",
    "status",
];

/// A v1 ResourceQuota. Unknown fields are ignored on reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Manifest {
    /// `v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// `ResourceQuota`.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name, labels and the like.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// The specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: Spec,
    /// The limits that apply, and the used amounts.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Status::is_empty")]
    pub status: Status,
    /// Whether `spec.scopes` was written out as an empty list: messages distinguish it from a missing list.
    #[serde(skip)]
    pub(super) lists_no_scopes: bool,
}

/// Kubernetes' ObjectMeta; times have whole seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ObjectMeta", extend("additionalProperties" = true))]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields of Kubernetes' ObjectMeta, documented there")]
pub struct Metadata {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "str_is_empty")]
    pub name: Name,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub generate_name: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "str_is_empty")]
    pub namespace: Name,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub uid: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub resource_version: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "text_map", skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "text_map", skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub finalizers: Vec<String>,
    /// Kept as it is: managed fields are maintained where patches are applied.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    pub managed_fields: Vec<Value>,
}

/// An owner of the quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields of Kubernetes' OwnerReference, documented there")]
pub struct OwnerReference {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The status of a quota. A missing list means that nothing has been counted yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// The limits that apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<ResourceList>,
    /// The used amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<ResourceList>,
}

impl Status {
    /// Whether both lists are missing.
    pub fn is_empty(&self) -> bool {
        self.hard.is_none() && self.used.is_none()
    }
}

/// Why a text cannot be read as a ResourceQuota.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not the JSON of one: an invalid quantity, or a list instead of a text.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It has an array where an object belongs.
    #[error(transparent)]
    Shape(#[from] ArrayForObject),
    /// It is an object of another kind.
    #[error("the kind in the data ({api_version}, Kind={kind}) is not {expected}")]
    OtherKind {
        /// The API version in the data.
        api_version: String,
        /// The kind in the data.
        kind: String,
        /// The expected API version and kind.
        expected: String,
    },
}

impl Manifest {
    /// Reads a manifest as the API server does: apiVersion and kind may be missing, and quantities
    /// are rounded up to thousandths (v1 defaulting). Unlike in an API server they are canonical.
    ///
    /// # Errors
    /// If it is not the JSON of a ResourceQuota.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let (mut manifest, value) = decode::<Self>(json, &OBJECTS)?;
        let (api_version, kind) = (&mut manifest.api_version, &mut manifest.kind);
        be_of_kind(api_version, kind, (API_VERSION, KIND))?;
        let status = [&mut manifest.status.hard, &mut manifest.status.used];
        for list in status.into_iter().flatten().chain([&mut manifest.spec.hard]) {
            list.round_up_to_thousandths();
            list.make_canonical();
        }
        manifest.lists_no_scopes = manifest.spec.scopes.is_empty()
            && value.pointer("/spec/scopes").is_some_and(Value::is_array);
        Ok(manifest)
    }

    /// As [`Metadata::inherit`], and the status.
    pub fn inherit(&mut self, stored: &Self) {
        self.metadata.inherit(&stored.metadata);
        self.status.clone_from(&stored.status);
    }

    /// Whether it equals the stored one, including the families of quantities; see `Metadata::editable`.
    pub fn repeats(&self, stored: &Self) -> bool {
        let texts = |manifest: &Self| serde_json::to_value(&manifest.spec).ok();
        self.metadata.may_be(&stored.metadata)
            && self.metadata.editable() == stored.metadata.editable()
            && texts(self) == texts(stored)
    }
}

impl Metadata {
    /// Whether a request with this metadata can refer to the stored object: a uid in the request has to be that of the
    /// object.
    pub(crate) fn may_be(&self, stored: &Self) -> bool {
        self.uid.is_empty() || self.uid == stored.uid
    }

    /// Copies from the stored object the fields that an update cannot change or may leave out: uid, times,
    /// resourceVersion.
    pub fn inherit(&mut self, stored: &Self) {
        if self.uid.is_empty() {
            self.uid.clone_from(&stored.uid);
        }
        if self.resource_version.is_empty() {
            self.resource_version.clone_from(&stored.resource_version);
        }
        self.generation = stored.generation;
        self.creation_timestamp = stored.creation_timestamp;
        self.deletion_timestamp = stored.deletion_timestamp;
        self.deletion_grace_period_seconds = stored.deletion_grace_period_seconds;
    }

    /// The fields that clients may edit: without the identity and lifecycle, and without the fields that tools and
    /// servers maintain (managed fields, the last applied configuration of kubectl, the generation).
    pub(crate) fn editable(&self) -> Self {
        let mut annotations = self.annotations.clone();
        annotations.remove(LAST_APPLIED);
        Self {
            generate_name: self.generate_name.clone(),
            labels: self.labels.clone(),
            annotations,
            owner_references: self.owner_references.clone(),
            finalizers: self.finalizers.clone(),
            ..Self::default()
        }
    }
}

/// Reads a manifest that has objects at these places. Also returns the JSON as it was written.
pub(crate) fn decode<T: DeserializeOwned>(
    json: &[u8],
    objects: &[&str],
) -> Result<(T, Value), DecodeError> {
    refuse_embedded(json)?;
    let manifest = serde_json::from_slice(json)?;
    let value: Value = serde_json::from_slice(json)?;
    has_objects_at(&value, objects)?;
    Ok((manifest, value))
}

/// Checks that a manifest is of this kind; without apiVersion and kind it is taken for one.
pub(crate) fn be_of_kind(
    api_version: &mut String,
    kind: &mut String,
    (expected_version, expected_kind): (&str, &str),
) -> Result<(), DecodeError> {
    let says = |text: &str, expected: &str| text.is_empty() || text == expected;
    if !says(api_version, expected_version) || !says(kind, expected_kind) {
        return Err(DecodeError::OtherKind {
            api_version: std::mem::take(api_version),
            kind: std::mem::take(kind),
            expected: format!("{expected_version}, Kind={expected_kind}"),
        });
    }
    expected_version.clone_into(api_version);
    expected_kind.clone_into(kind);
    Ok(())
}

/// A map of texts, in which `null` is the empty text.
fn text_map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let map =
        Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(map.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

fn str_is_empty(name: &Name) -> bool {
    name.is_empty()
}

/// There is an array where an object belongs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal array into field {0:?}: an object is needed")]
pub struct ArrayForObject(String);

/// Checks the values at these paths: keys, and `*` for each item of an array, joined by `/`. The empty path is the
/// whole.
pub(crate) fn has_objects_at(json: &Value, paths: &[&str]) -> Result<(), ArrayForObject> {
    let array = paths.iter().find(|path| {
        let keys = path.split('/').filter(|key| !key.is_empty());
        keys.fold(vec![json], step).into_iter().any(Value::is_array)
    });
    array.map_or(Ok(()), |path| Err(ArrayForObject((*path).to_owned())))
}

fn step<'a>(values: Vec<&'a Value>, key: &str) -> Vec<&'a Value> {
    let next = |value: &'a Value| match (key, value) {
        ("*", Value::Array(items)) => items.iter().collect(),
        _ => Vec::from_iter(value.get(key)),
    };
    values.into_iter().flat_map(next).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_are_found_where_objects_belong() {
        let json = json!({"a": {"b": [{}, []]}, "c": [], "d": null});
        assert_eq!(has_objects_at(&json, &["", "a", "d", "x/y", "c/*"]), Ok(()));
        for path in ["a/b/*", "c", "a/b"] {
            assert_eq!(has_objects_at(&json, &[path]), Err(ArrayForObject(path.to_owned())));
        }
        assert!(has_objects_at(&json!([]), &[""]).is_err());
    }
}
