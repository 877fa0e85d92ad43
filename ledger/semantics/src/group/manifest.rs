//! ClusterResourceQuota as an API object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    extension::{Carrier, Extensions},
    selector::Selector,
};
use crate::{
    nullable::nullable,
    quota::{
        self, FieldError,
        manifest::{DecodeError, Metadata, be_of_kind, decode},
    },
};

/// The API group of ClusterResourceQuota.
pub const GROUP: &str = "quota.openshift.io";
/// The API version of ClusterResourceQuota.
pub const API_VERSION: &str = "quota.openshift.io/v1";
/// The kind of ClusterResourceQuota.
pub const KIND: &str = "ClusterResourceQuota";
/// The name of the kind in paths.
pub const PLURAL: &str = "clusterresourcequotas";
/// The kind in events and relists: plural and group.
pub const RESOURCE: &str = "clusterresourcequotas.quota.openshift.io";

/// The metadata key for the version in which a source has reported a group.
pub const ADOPTED_VERSION: &str = "adoptedVersion";

/// The places in a manifest that hold objects.
const OBJECTS: [&str; 9] = [
    "",
    "metadata",
    "metadata/ownerReferences/*",
    "spec",
    "spec/selector",
    "spec/selector/labels",
    "spec/quota",
    "spec/quota/scopeSelector",
    "spec/quota/scopeSelector/matchExpressions/*",
];

/// A `quota.openshift.io/v1` ClusterResourceQuota. Unknown fields and the status are ignored on reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Manifest {
    /// `quota.openshift.io/v1`.
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    /// `ClusterResourceQuota`.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Name, labels, and the extensions as annotations.
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    /// The specification.
    #[serde(deserialize_with = "nullable")]
    pub spec: ManifestSpec,
}

/// The fields of `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManifestSpec {
    /// The namespaces.
    #[serde(deserialize_with = "nullable")]
    pub selector: Selector,
    /// Limits and scopes.
    #[serde(deserialize_with = "nullable")]
    pub quota: quota::Spec,
}

impl Manifest {
    /// Reads a manifest as the API server does: apiVersion and kind may be missing, and quantities are rounded up to
    /// thousandths. They are canonical.
    ///
    /// # Errors
    /// If it is not the JSON of a ClusterResourceQuota.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let (mut manifest, _) = decode::<Self>(json, &OBJECTS)?;
        let (api_version, kind) = (&mut manifest.api_version, &mut manifest.kind);
        be_of_kind(api_version, kind, (API_VERSION, KIND))?;
        manifest.spec.quota.hard.round_up_to_thousandths();
        manifest.spec.quota.hard.make_canonical();
        Ok(manifest)
    }

    /// As [`Metadata::inherit`].
    pub fn inherit(&mut self, stored: &Self) {
        self.metadata.inherit(&stored.metadata);
    }

    /// Whether it equals the stored one, including the families of quantities, however extensions are written; see
    /// `Metadata::editable`.
    pub fn repeats(&self, stored: &Self) -> bool {
        let metadata = |manifest: &Self| {
            let mut metadata = manifest.metadata.editable();
            let (spec, _) = manifest.spec();
            metadata.annotations.extend(spec.extensions.to_annotations());
            metadata
        };
        let texts = |manifest: &Self| serde_json::to_value(&manifest.spec).ok();
        self.metadata.may_be(&stored.metadata)
            && metadata(self) == metadata(stored)
            && texts(self) == texts(stored)
    }

    /// The specification, extensions included, and the errors of the extensions.
    pub fn spec(&self) -> (Spec, Vec<FieldError>) {
        let (extensions, errors) =
            Extensions::from_annotations(&self.metadata.annotations, Carrier::Group);
        let spec = Spec {
            selector: self.spec.selector.clone(),
            quota: self.spec.quota.clone(),
            extensions,
        };
        (spec, errors)
    }
}

/// Whether the stored metadata of two groups (JSON texts) is the same, except for the version in which a source
/// reported them.
pub fn is_equivalent(a: &str, b: &str) -> bool {
    let rest = |text| {
        let metadata = serde_json::from_str::<BTreeMap<String, Value>>(text);
        let mut metadata = metadata.unwrap_or_default();
        metadata.remove(ADOPTED_VERSION);
        metadata
    };
    a == b || rest(a) == rest(b)
}

/// The version in which a source has reported a group, from its stored metadata (JSON text); none: no source has.
pub fn adopted_version(metadata: &str) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Stored {
        adopted_version: Option<u64>,
    }
    if !metadata.contains(ADOPTED_VERSION) {
        return None;
    }
    serde_json::from_str::<Stored>(metadata).ok()?.adopted_version
}

/// The specification of a group: that of a ClusterResourceQuota, and the extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Its member namespaces, in addition to those of its children.
    pub selector: Selector,
    /// Limits and scopes.
    pub quota: quota::Spec,
    /// The extensions from annotations.
    #[serde(flatten)]
    pub extensions: Extensions,
}

impl Spec {
    /// Whether it counts only some objects of the selected namespaces.
    pub fn is_partial(&self) -> bool {
        self.quota.is_scoped() || self.extensions.objects.is_some()
    }
}
