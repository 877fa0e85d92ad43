//! Resource claims (devices): how many devices of each class at most.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    context::Context,
    metadata::Metadata,
    names::{COUNT_RESOURCE_CLAIMS, DEVICES_SUFFIX, REQUESTS_DEVICE_CLASS_PREFIX, REQUESTS_PREFIX},
};
use crate::{
    Name, Timestamp,
    nullable::{is_default, nullable, nullable_fields},
    quantity::Quantity,
    resource::ResourceList,
};

/// The count of a request for all devices of a class: an allocation holds no more.
const ALL_DEVICES: i64 = 32;

nullable_fields! {
    /// A resource claim with the fields that quota rules use.
    pub struct ResourceClaim {
        /// Its metadata.
        pub metadata: Metadata,
        spec: Spec,
    }

    struct Spec {
        devices: Devices,
    }

    struct Devices {
        requests: Vec<Request>,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    exactly: Option<DeviceRequest>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    first_available: Vec<DeviceRequest>,
    /// Up to `v1beta1` the request itself has the fields that `exactly` has later.
    #[serde(flatten)]
    itself: DeviceRequest,
}

nullable_fields! {
    struct DeviceRequest {
        device_class_name: Name,
        allocation_mode: Name,
        count: i64,
    }
}

impl DeviceRequest {
    /// The most devices that it can get; none for an unknown mode.
    fn devices(&self) -> i64 {
        match self.allocation_mode.as_str() {
            "ExactCount" => self.count,
            "All" => ALL_DEVICES,
            _ => 0,
        }
    }
}

impl ResourceClaim {
    /// The amounts of the claim. If the claim was made for a pod's extended resources, the amounts that the pod counts
    /// for under the same name are left out.
    pub fn resources(&self, context: &dyn Context) -> ResourceList {
        let paid_by_pod = self.paid_by_pod(context);
        let mut counted = vec![(COUNT_RESOURCE_CLAIMS.clone(), Quantity::from_units(1))];
        for (class, devices) in self.devices_by_class() {
            counted.push((format!("{class}{DEVICES_SUFFIX}").into(), devices.clone()));
            if class.is_empty() {
                continue;
            }
            let by_class = Name::from(format!("{REQUESTS_DEVICE_CLASS_PREFIX}{class}"));
            let by_resource = context
                .extended_resource(class)
                .map(|resource| Name::from(format!("{REQUESTS_PREFIX}{resource}")));
            for name in std::iter::once(by_class).chain(by_resource) {
                let mut rest = devices.clone();
                if let Some(paid) = paid_by_pod.as_ref().and_then(|paid| paid.get(&name)) {
                    rest.sub_assign(paid);
                }
                if rest.is_positive() {
                    counted.push((name, rest));
                }
            }
        }
        counted.into_iter().collect()
    }

    /// Sets the defaults of the API server: one device, exactly.
    pub(super) fn set_api_defaults(&mut self) {
        for request in &mut self.spec.devices.requests {
            let Request { exactly, first_available, itself } = request;
            for request in exactly.iter_mut().chain(first_available).chain([itself]) {
                if request.allocation_mode.is_empty() {
                    request.allocation_mode = Name::from("ExactCount");
                }
                if request.allocation_mode == "ExactCount" && request.count == 0 {
                    request.count = 1;
                }
            }
        }
    }

    /// Devices by class. Only one of several alternatives is allocated, so each class counts with its largest; classes
    /// without devices are left out.
    fn devices_by_class(&self) -> BTreeMap<&str, Quantity> {
        let mut devices = BTreeMap::<&str, Quantity>::new();
        let mut count = |class, more: i64| {
            let total = devices.entry(class).or_default();
            total.add_assign(&Quantity::from_units(more));
        };
        for request in &self.spec.devices.requests {
            if request.first_available.is_empty() {
                let itself =
                    Some(&request.itself).filter(|request| !request.device_class_name.is_empty());
                if let Some(exactly) = request.exactly.as_ref().or(itself) {
                    count(exactly.device_class_name.as_str(), exactly.devices());
                }
                continue;
            }
            let mut largest = BTreeMap::<&str, i64>::new();
            for alternative in &request.first_available {
                let most = largest.entry(&alternative.device_class_name).or_default();
                *most = alternative.devices().max(*most);
            }
            for (class, most) in largest.into_iter().filter(|(_, most)| *most > 0) {
                count(class, most);
            }
        }
        devices
    }

    /// The amounts of the pod that this claim was made for, if pod and claim agree: by the pod's status or, before
    /// there is one, if this is the oldest such claim of the pod.
    fn paid_by_pod(&self, context: &dyn Context) -> Option<ResourceList> {
        let uid = self.metadata.made_for_pod()?;
        let owner = self.metadata.controller()?;
        let pod = context.pod(&self.metadata.namespace, &owner.name)?;
        if pod.uid != *uid {
            return None;
        }
        let agreed = match &pod.extended_resource_claim {
            Some(claim) => *claim == self.metadata.name,
            None => {
                let since = self.metadata.creation_timestamp.unwrap_or(Timestamp::EPOCH);
                let this = (since, self.metadata.name.as_str());
                !context.has_older_claim(&self.metadata.namespace, uid, this)
            }
        };
        agreed.then_some(pod.resources)
    }
}

impl Metadata {
    /// The uid of the pod for whose extended resources Kubernetes made this claim.
    pub fn made_for_pod(&self) -> Option<&Name> {
        let marked = self.annotations.extended_resource_claim.as_ref()?;
        let owner = self.controller()?;
        let by_pod = owner.kind == "Pod" && owner.api_version == "v1";
        (*marked == "true" && by_pod).then_some(&owner.uid)
    }
}
