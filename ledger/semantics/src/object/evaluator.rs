//! The names in a quota that belong to a kind of object.

use super::{
    Context, GroupResource, OwningPod,
    count::{is_alias, is_count_of, plain_count_name},
    names::{
        COUNT_PREFIX, COUNT_RESOURCE_CLAIMS, DEVICES_SUFFIX, HUGE_PAGES_PREFIX,
        REQUESTS_DEVICE_CLASS_PREFIX, REQUESTS_HUGE_PAGES_PREFIX, REQUESTS_PREFIX,
        is_extended_request,
    },
};
use crate::{Name, Timestamp};

/// The rules by which objects of a kind are measured. The term is that of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluator<'k> {
    /// Pods.
    Pods,
    /// Services.
    Services,
    /// Persistent volume claims.
    VolumeClaims,
    /// Resource claims.
    ResourceClaims,
    /// Any other kind is counted. A kind need not be registered.
    Count(&'k GroupResource),
}

/// The names of pods, except those that are identified by a prefix.
const POD_NAMES: [&str; 11] = [
    "count/pods",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SERVICE_NAMES: [&str; 4] =
    ["count/services", "services", "services.loadbalancers", "services.nodeports"];
const VOLUME_CLAIM_NAMES: [&str; 3] =
    ["count/persistentvolumeclaims", "persistentvolumeclaims", "requests.storage"];
/// The names that a volume claim owns for every storage class, also for those that it does not have.
const STORAGE_CLASS_SUFFIXES: [&str; 2] = [
    ".storageclass.storage.k8s.io/persistentvolumeclaims",
    ".storageclass.storage.k8s.io/requests.storage",
];

/// The kinds that count for more than their number, by group and resource. The webhook is called for all of them,
/// whatever quotas exist.
pub const MEASURED: [(&str, &str); 4] = [
    ("", "pods"),
    ("", "services"),
    ("", "persistentvolumeclaims"),
    ("resource.k8s.io", "resourceclaims"),
];

impl<'k> Evaluator<'k> {
    /// The rules of a kind.
    pub fn of(kind: &'k GroupResource) -> Self {
        match (kind.group.as_str(), kind.resource.as_str()) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => Self::ResourceClaims,
            _ => Self::Count(kind),
        }
    }

    /// Whether a name in a quota belongs to the kind. For resource claims, names of extended resources do if a device
    /// class stands for them.
    pub fn owns(self, name: &str, context: &dyn Context) -> bool {
        match self {
            Self::Pods => {
                POD_NAMES.contains(&name) || has_pod_prefix(name) || is_extended_request(name)
            }
            Self::Services => SERVICE_NAMES.contains(&name),
            Self::VolumeClaims => {
                VOLUME_CLAIM_NAMES.contains(&name)
                    || STORAGE_CLASS_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
            }
            Self::ResourceClaims => is_claim_name(name) || stands_for_class(name, context),
            Self::Count(kind) => is_count_of(kind, name) || plain_count_name(kind) == Some(name),
        }
    }

    /// The `names` that belong to the kind, as Kubernetes lists them: sorted, but a huge page size with a domain
    /// appears twice, and names that are given twice appear twice unless the kind looks them up in a fixed list.
    pub fn matching<'n>(
        self,
        names: impl IntoIterator<Item = &'n str>,
        context: &dyn Context,
    ) -> Vec<&'n str> {
        let mut matching = Vec::new();
        for name in names {
            match self {
                Self::Pods => {
                    let fixed = POD_NAMES.contains(&name) && !matching.contains(&name);
                    let times = usize::from(fixed)
                        + usize::from(has_pod_prefix(name))
                        + usize::from(is_extended_request(name));
                    matching.extend(std::iter::repeat_n(name, times));
                }
                Self::VolumeClaims | Self::ResourceClaims if self.owns(name, context) => {
                    matching.push(name);
                }
                Self::Services | Self::Count(_)
                    if self.owns(name, context) && !matching.contains(&name) =>
                {
                    matching.push(name);
                }
                _ => {}
            }
        }
        matching.sort_unstable();
        matching
    }
}

fn has_pod_prefix(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX) || name.starts_with(REQUESTS_HUGE_PAGES_PREFIX)
}

fn is_claim_name(name: &str) -> bool {
    name == COUNT_RESOURCE_CLAIMS.as_str() || name.ends_with(DEVICES_SUFFIX)
}

fn stands_for_class(name: &str, context: &dyn Context) -> bool {
    if let Some(class) = name.strip_prefix(REQUESTS_DEVICE_CLASS_PREFIX)
        && context.extended_resource(class).is_some()
    {
        return true;
    }
    is_extended_request(name)
        && name
            .strip_prefix(REQUESTS_PREFIX)
            .is_some_and(|resource| context.is_device_class_resource(resource))
}

/// A context in which every device class stands for an extended resource, and every extended resource has a class.
///
/// For decisions and the fold: classes were looked up when the footprint was made, and a claim's footprint names an
/// extended resource only if a class stands for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryClass;

impl Context for EveryClass {
    fn extended_resource(&self, _device_class: &str) -> Option<Name> {
        Some(Name::default())
    }

    fn is_device_class_resource(&self, _extended_resource: &str) -> bool {
        true
    }

    fn pod(&self, _namespace: &str, _name: &str) -> Option<OwningPod> {
        None
    }

    fn has_older_claim(&self, _namespace: &str, _pod_uid: &str, _than: (Timestamp, &str)) -> bool {
        false
    }
}

/// Whether any kind of object counts under the name. A quota may limit other names (`nvidia.com/gpu`,
/// `limits.nvidia.com/gpu`): they are valid, never limit anything, and never have a `used`.
pub fn is_countable_by_anyone(resource_name: &str) -> bool {
    let of_known_kinds =
        [Evaluator::Pods, Evaluator::Services, Evaluator::VolumeClaims, Evaluator::ResourceClaims];
    of_known_kinds.into_iter().any(|evaluator| evaluator.owns(resource_name, &EveryClass))
        || is_alias(resource_name)
        || resource_name.strip_prefix(COUNT_PREFIX).is_some_and(|kind| !kind.is_empty())
}

/// Kinds that are exempt from quota admission: reviews, bindings and events are not stored, or are created by the
/// system in any number.
pub fn is_ignored(kind: &GroupResource) -> bool {
    matches!(
        (kind.group.as_str(), kind.resource.as_str()),
        ("", "bindings" | "componentstatuses" | "events")
            | ("events.k8s.io", "events")
            | ("authentication.k8s.io", "tokenreviews" | "selfsubjectreviews")
            | (
                "authorization.k8s.io",
                "subjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "localsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
            )
    )
}
