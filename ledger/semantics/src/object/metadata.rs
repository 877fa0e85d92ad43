//! The metadata of Kubernetes objects, as far as quotas need it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap as _};

use crate::{
    Name, Timestamp,
    nullable::{is_default, nullable, nullable_fields},
};

nullable_fields! {
    /// The type of an object in its JSON, which determines how the rest is read.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct TypeMeta {
        /// `v1`, or group and version such as `apps/v1`; empty if absent.
        pub api_version: Name,
        /// Such as `Deployment`; empty if absent.
        pub kind: Name,
    }
}

impl TypeMeta {
    /// Whether it is a namespace itself.
    pub fn is_namespace(&self) -> bool {
        *self.api_version == *"v1" && *self.kind == *"Namespace"
    }

    /// The API group: the part of the apiVersion before the slash; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The metadata of an object, as far as quotas need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// The name; empty if only `generate_name` is set.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub name: Name,
    /// The prefix for a generated name.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub generate_name: Name,
    /// The namespace; empty for objects of the cluster.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub namespace: Name,
    /// The uid.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub uid: Name,
    /// The version; empty for an object that is not stored yet.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub resource_version: Name,
    /// When it was created.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// The deletion timestamp; set once the deletion was requested.
    #[serde(deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of the deletion, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The owner that controls the object, if there is one; no rule looks at other owners.
    #[serde(deserialize_with = "controller", skip_serializing_if = "is_default")]
    pub owner_references: Vec<OwnerReference>,
    /// The annotations that quota rules use.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub annotations: Annotations,
    /// The labels.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub labels: Labels,
}

impl Metadata {
    /// The owner that controls this object, if any.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.first()
    }
}

nullable_fields! {
    /// An object that another one belongs to.
    #[derive(Eq)]
    pub struct OwnerReference {
        /// Its apiVersion.
        pub api_version: Name,
        /// Its kind.
        pub kind: Name,
        /// Its name, in the same namespace.
        pub name: Name,
        /// Its uid.
        pub uid: Name,
        /// Whether this owner is the controller.
        pub controller: bool,
    }
}

impl OwnerReference {
    /// Longest field of an owner that can exist, in bytes: an apiVersion is a group of 253 bytes, a slash, and a version of
    /// 63. An API server stores references with fields of any length.
    const FIELD_MAX_BYTES: usize = 253 + 1 + 63;

    fn can_exist(&self) -> bool {
        let Self { api_version, kind, name, uid, controller: _ } = self;
        let mut fields = [api_version, kind, name, uid].into_iter();
        fields.all(|field| field.len() <= Self::FIELD_MAX_BYTES)
    }
}

/// The annotations that quota rules use. A value that no rule can use is read as empty, since it may have any length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// The storage class of a volume claim in its oldest spelling; wins over the field.
    #[serde(
        deserialize_with = "short",
        rename = "volume.beta.kubernetes.io/storage-class",
        skip_serializing_if = "Option::is_none"
    )]
    pub storage_class: Option<Name>,
    /// `true` on a claim that Kubernetes made for a pod's extended resources.
    #[serde(
        deserialize_with = "short",
        rename = "resource.kubernetes.io/extended-resource-claim",
        skip_serializing_if = "Option::is_none"
    )]
    pub extended_resource_claim: Option<Name>,
    /// `true` on the bookmark that ends the list at the beginning of a watch.
    #[serde(
        deserialize_with = "short",
        rename = "k8s.io/initial-events-end",
        skip_serializing_if = "Option::is_none"
    )]
    pub initial_events_end: Option<Name>,
}

/// The labels of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<Name, Name>);

impl Labels {
    /// On pods and replica sets of a deployment: the template that they were made from.
    pub(crate) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

    /// Longest value of a label in Kubernetes, in bytes.
    const VALUE_MAX_BYTES: usize = 63;

    /// The value of `POD_TEMPLATE_HASH`.
    pub fn pod_template_hash(&self) -> Option<&Name> {
        self.0.get(Self::POD_TEMPLATE_HASH)
    }

    /// The labels with one of these keys. Values longer than a label value can be are left out.
    pub(crate) fn of_keys(&self, keys: &BTreeSet<Name>) -> BTreeMap<Name, Name> {
        let of_key = |key: &Name| {
            let value = self.0.get(key)?;
            (value.len() <= Self::VALUE_MAX_BYTES).then(|| (key.clone(), value.clone()))
        };
        keys.iter().filter_map(of_key).collect()
    }

    /// Drops all labels that are not needed.
    pub fn retain(&mut self, is_needed: impl Fn(&str) -> bool) {
        self.0.retain(|key, _| is_needed(key));
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> de::Visitor<'de> for Members {
            type Value = BTreeMap<Name, Name>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<Name, Option<Name>>()? {
                    labels.insert(key, value.unwrap_or_default());
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_map(Members).map(Self)
    }
}

/// A field of which only the presence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Present;

impl Serialize for Present {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Reads owners, of which only the one that controls the object is kept, if it can exist.
fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OwnerReference>, D::Error> {
    let owners: Vec<OwnerReference> = nullable(deserializer)?;
    let controller = owners.into_iter().find(|owner| owner.controller);
    Ok(controller.filter(OwnerReference::can_exist).into_iter().collect())
}

/// Longest annotation that a rule uses, in bytes: the name of a storage class.
const ANNOTATION_MAX_BYTES: usize = 253;

fn short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Name>, D::Error> {
    let value = Option::<Name>::deserialize(deserializer)?;
    Ok(value.map(|value| match value.len() <= ANNOTATION_MAX_BYTES {
        true => value,
        false => Name::default(),
    }))
}

/// Reads a time. Times after the year 2262 are clamped.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let time = text
        .parse::<jiff::Timestamp>()
        .map_err(|_| de::Error::custom(format_args!("not an RFC 3339 time: {text:?}")))?;
    let nanoseconds = time.as_nanosecond().clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    Ok(Some(i64::try_from(nanoseconds).map_or(Timestamp::MAX, Timestamp::from_nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_unknown_fields_are_read_as_kubernetes_reads_them() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"name":"p","creationTimestamp":null,"annotations":null,"labels":{"a":"b"},
                "ownerReferences":null,"deletionTimestamp":"9999-01-01T00:00:00Z"}"#,
        )
        .unwrap();
        assert_eq!(metadata.name, "p");
        assert_eq!(metadata.creation_timestamp, None);
        assert_eq!(metadata.deletion_timestamp, Some(Timestamp::MAX));
        assert!(serde_json::from_str::<Metadata>(r#"{"deletionTimestamp":"soon"}"#).is_err());
    }

    /// Objects with other owners, and with these annotations, are read as if they had none: the rules are the same.
    #[test]
    fn of_owners_and_annotations_is_read_what_rules_can_use() {
        let read = |json: &str| serde_json::from_str::<Metadata>(json).unwrap();
        let owner = |kind: &str, controller| {
            format!(
                r#"{{"apiVersion":"apps/v1","kind":"{kind}","name":"n","uid":"u","controller":{controller}}}"#
            )
        };
        let (other, controller) = (owner("A", false), owner("B", true));
        let both = read(&format!(r#"{{"ownerReferences":[{other},{controller}]}}"#));
        assert_eq!(both.controller().unwrap().kind, "B");
        assert_eq!(both.owner_references.len(), 1);
        let endless = owner(&"k".repeat(318), true);
        for owners in ["null", "[]", &format!("[{other}]"), &format!("[{endless}]")] {
            let metadata = read(&format!(r#"{{"ownerReferences":{owners}}}"#));
            assert_eq!(metadata, Metadata::default(), "{owners}");
        }
        let class = |bytes: usize| {
            let class = "c".repeat(bytes);
            let json = format!(
                r#"{{"annotations":{{"volume.beta.kubernetes.io/storage-class":"{class}"}}}}"#
            );
            read(&json).annotations.storage_class.unwrap().len()
        };
        assert_eq!((class(253), class(254)), (253, 0));
    }

    #[test]
    fn the_group_is_what_stands_before_the_slash() {
        let read = |text| serde_json::from_str::<TypeMeta>(text).unwrap();
        assert_eq!(read(r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#).group(), "apps");
        assert_eq!(read(r#"{"apiVersion":"v1","kind":"Pod"}"#).group(), "");
    }
}
