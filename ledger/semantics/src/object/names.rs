//! Resource names: those that rules mention, and the meaning of prefixes and suffixes.

use std::sync::LazyLock;

use crate::{Name, syntax};

macro_rules! names {
    ($($name:ident = $text:literal;)*) => {
        $(pub(crate) static $name: LazyLock<Name> = LazyLock::new(|| Name::from($text));)*
    };
}

names! {
    COUNT_PODS = "count/pods";
    PODS = "pods";
    CPU = "cpu";
    REQUESTS_CPU = "requests.cpu";
    LIMITS_CPU = "limits.cpu";
    MEMORY = "memory";
    REQUESTS_MEMORY = "requests.memory";
    LIMITS_MEMORY = "limits.memory";
    EPHEMERAL_STORAGE = "ephemeral-storage";
    REQUESTS_EPHEMERAL_STORAGE = "requests.ephemeral-storage";
    LIMITS_EPHEMERAL_STORAGE = "limits.ephemeral-storage";
    COUNT_SERVICES = "count/services";
    SERVICES = "services";
    SERVICES_LOAD_BALANCERS = "services.loadbalancers";
    SERVICES_NODE_PORTS = "services.nodeports";
    COUNT_VOLUME_CLAIMS = "count/persistentvolumeclaims";
    VOLUME_CLAIMS = "persistentvolumeclaims";
    REQUESTS_STORAGE = "requests.storage";
    COUNT_RESOURCE_CLAIMS = "count/resourceclaims.resource.k8s.io";
}

/// The prefix of the names of counts.
pub const COUNT_PREFIX: &str = "count/";
/// The prefix of the names of containers' requests.
pub const REQUESTS_PREFIX: &str = "requests.";
pub(crate) const HUGE_PAGES_PREFIX: &str = "hugepages-";
pub(crate) const REQUESTS_HUGE_PAGES_PREFIX: &str = "requests.hugepages-";
/// The prefix with which a pod requests a device of a class without a claim of its own.
pub(crate) const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
pub(crate) const REQUESTS_DEVICE_CLASS_PREFIX: &str =
    "requests.deviceclass.resource.kubernetes.io/";
/// The suffix of devices that claims request, by device class.
pub(crate) const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
pub(crate) const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// Whether Kubernetes itself defines the resource: no domain, or one below `kubernetes.io`.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether `name` in a container's requests is an extended resource (a GPU, say).
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS_PREFIX)
        && syntax::qualified_name(&format!("{REQUESTS_PREFIX}{name}")).is_empty()
}

/// Whether `name` in a quota is about requests for an extended resource.
pub(crate) fn is_extended_request(name: &str) -> bool {
    name.starts_with(REQUESTS_DEVICE_CLASS_PREFIX)
        || (name.starts_with(REQUESTS_PREFIX) && !is_native(name))
}

/// Whether pod-level resources may set it: only these names replace the sum over the containers.
pub(crate) fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether requests may stay below limits: a native resource other than huge pages.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_resources_have_a_foreign_domain_and_a_proper_name() {
        for name in ["nvidia.com/gpu", "vendor.io/fpga-a10", "limits.nvidia.com/gpu"] {
            assert!(is_extended(name), "{name}");
        }
        for name in [
            "cpu",
            "foo",
            "kubernetes.io/batch",
            "example.kubernetes.io/thing",
            "example.com/bad name",
            "requests.nvidia.com/gpu",
            "a/b/c",
            "example.com/",
            "Example.com/gpu",
        ] {
            assert!(!is_extended(name), "{name}");
        }
    }

    #[test]
    fn requests_for_extended_resources_need_the_prefix_and_a_foreign_domain() {
        for name in [
            "requests.nvidia.com/gpu",
            "requests./",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "requests.hugepages-x.com/y",
        ] {
            assert!(is_extended_request(name), "{name}");
        }
        for name in ["nvidia.com/gpu", "requests.foo", "requests.kubernetes.io/x", "requests."] {
            assert!(!is_extended_request(name), "{name}");
        }
    }
}
