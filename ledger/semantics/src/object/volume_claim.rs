//! Persistent volume claims: storage, in total and by storage class.

use super::{
    metadata::Metadata,
    names::{COUNT_VOLUME_CLAIMS, REQUESTS_STORAGE, STORAGE_CLASS_INFIX, VOLUME_CLAIMS},
    pod::canonical,
};
use crate::{
    Name,
    nullable::nullable_fields,
    quantity::{Quantity, Scale},
    resource::ResourceList,
};

nullable_fields! {
    /// A persistent volume claim with the fields that quota rules use.
    pub struct VolumeClaim {
        /// Its metadata.
        pub metadata: Metadata,
        pub(super) spec: Spec,
        pub(super) status: Status,
    }

    pub(super) struct Spec {
        pub(super) resources: Requirements,
        storage_class_name: Name,
        volume_attributes_class_name: Name,
    }

    pub(super) struct Requirements {
        pub(super) requests: ResourceList,
    }

    pub(super) struct Status {
        pub(super) allocated_resources: ResourceList,
        current_volume_attributes_class_name: Name,
        modify_volume_status: ModifyVolumeStatus,
    }

    struct ModifyVolumeStatus {
        target_volume_attributes_class_name: Name,
    }
}

impl VolumeClaim {
    /// The amounts of the claim.
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
    pub fn attributes_classes(&self) -> Vec<Name> {
        let mut classes: Vec<Name> = [
            &self.spec.volume_attributes_class_name,
            &self.status.current_volume_attributes_class_name,
            &self.status.modify_volume_status.target_volume_attributes_class_name,
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
        let lists = [&mut self.spec.resources.requests, &mut self.status.allocated_resources];
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
