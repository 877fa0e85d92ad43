//! Persistent volume claims: storage, in total and by storage class.

use serde::{Deserialize, Serialize};

use super::{
    metadata::Metadata,
    names::{COUNT_VOLUME_CLAIMS, REQUESTS_STORAGE, STORAGE_CLASS_INFIX, VOLUME_CLAIMS},
    pod::canonical,
};
use crate::{
    Name,
    nullable::{is_default, nullable},
    quantity::{Quantity, Scale},
    resource::ResourceList,
};

/// A persistent volume claim with the fields that quota rules use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeClaim {
    /// Its metadata.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub(super) spec: Spec,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub(super) resources: Requirements,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    storage_class_name: Name,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    volume_attributes_class_name: Name,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Requirements {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub(super) requests: ResourceList,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub(super) allocated_resources: ResourceList,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    current_volume_attributes_class_name: Name,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    modify_volume_status: ModifyVolumeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModifyVolumeStatus {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    target_volume_attributes_class_name: Name,
}

impl VolumeClaim {
    /// The amounts of the claim.
    #[must_use]
    pub fn resources(&self) -> ResourceList {
        let one = || Quantity::from_units(1);
        let class = self.storage_class();
        let of_class = |name: &str| Name::from(format!("{class}{STORAGE_CLASS_INFIX}{name}"));
        let mut counted = ResourceList::from_iter([
            (COUNT_VOLUME_CLAIMS.clone(), one()),
            (VOLUME_CLAIMS.clone(), one()),
        ]);
        if !class.is_empty() {
            counted.insert(of_class(&VOLUME_CLAIMS), one());
        }
        if let Some(storage) = self.storage() {
            if !class.is_empty() {
                counted.insert(of_class(&REQUESTS_STORAGE), storage.clone());
            }
            counted.insert(REQUESTS_STORAGE.clone(), storage);
        }
        counted
    }

    /// The volume attributes classes that it has, had or is changing to; sorted.
    #[must_use]
    pub fn attributes_classes(&self) -> Vec<Name> {
        let mut classes: Vec<Name> = [
            &self.spec.volume_attributes_class_name,
            &self.status.current_volume_attributes_class_name,
            &self
                .status
                .modify_volume_status
                .target_volume_attributes_class_name,
        ]
        .into_iter()
        .filter(|class| !class.is_empty())
        .cloned()
        .collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// As [`Object::condense`](super::Object::condense): an API server checks no other requests than those for storage.
    pub(super) fn condense(&mut self) {
        let lists = [
            &mut self.spec.resources.requests,
            &mut self.status.allocated_resources,
        ];
        for list in lists {
            *list = canonical(list.mask(|name| name == "storage"));
        }
    }

    fn storage_class(&self) -> &Name {
        let annotated = self.metadata.annotations.storage_class.as_ref();
        annotated.unwrap_or(&self.spec.storage_class_name)
    }

    /// The larger of the requested and the allotted storage (after an expansion that was cancelled half-way), in whole
    /// bytes.
    fn storage(&self) -> Option<Quantity> {
        let requested = whole(self.spec.resources.requests.get("storage")?);
        match self.status.allocated_resources.get("storage") {
            Some(allotted) if *allotted > requested => Some(whole(allotted)),
            _ => Some(requested),
        }
    }
}

/// The amount rounded up to whole units; one that is whole keeps its spelling.
fn whole(amount: &Quantity) -> Quantity {
    let mut rounded = amount.clone();
    let exact = rounded.round_up(Scale::Unit);
    if exact { amount.clone() } else { rounded }
}
