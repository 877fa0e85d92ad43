//! Information about other objects of the cluster that a footprint depends on. Only resource claims need it.

use crate::{Name, Timestamp, resource::ResourceList};

/// The recorded objects that a footprint depends on.
pub trait Context {
    /// The extended resource that a device class stands for, such as `example.com/gpu`.
    fn extended_resource(&self, device_class: &str) -> Option<Name>;

    /// Whether a device class stands for this extended resource.
    fn is_device_class_resource(&self, extended_resource: &str) -> bool;

    /// The pod of that name, as the possible owner of a claim.
    fn pod(&self, namespace: &str, name: &str) -> Option<OwningPod>;

    /// Whether that pod has an extended resource claim that comes before `than`, by creation time
    /// and then by name.
    fn has_older_claim(&self, namespace: &str, pod_uid: &str, than: (Timestamp, &str)) -> bool;
}

/// A pod, as the owner of a claim for its extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwningPod {
    /// Its uid.
    pub uid: Name,
    /// The claim that its status names, if it does.
    pub extended_resource_claim: Option<Name>,
    /// Its own footprint.
    pub resources: ResourceList,
}

/// A context without information: no device class stands for an extended resource, no pod pays for a claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContext;

impl Context for NoContext {
    fn extended_resource(&self, _device_class: &str) -> Option<Name> {
        None
    }

    fn is_device_class_resource(&self, _extended_resource: &str) -> bool {
        false
    }

    fn pod(&self, _namespace: &str, _name: &str) -> Option<OwningPod> {
        None
    }

    fn has_older_claim(&self, _namespace: &str, _pod_uid: &str, _than: (Timestamp, &str)) -> bool {
        false
    }
}
