//! The footprint of an object: the amounts for which it counts, and the traits that quota scopes match.
//!
//! The rules are those of Kubernetes 1.36, feature gates at their defaults; the vectors under `tests/vectors` compare
//! every one of them with the outputs of Kubernetes' own code.
//!
//! | kind | counts as |
//! |---|---|
//! | every kind | `count/<resource>[.<group>]` = 1; config maps, secrets, replication controllers and resource quotas also under their plain name |
//! | [`Pod`] | until it ends: `pods` = 1, its total requests as `cpu`, `memory`, `ephemeral-storage` with and without `requests.`, its total limits as `limits.…`, huge pages with and without `requests.`, extended resources as `requests.<name>`; a name that no container mentions is absent |
//! | [`Service`] | `services` = 1, `services.loadbalancers`, `services.nodeports` |
//! | [`VolumeClaim`] | `persistentvolumeclaims` = 1, `requests.storage` (the requested or allotted amount, in whole bytes), both also by storage class |
//! | [`ResourceClaim`] | devices by class, at most |
//! | [`Workload`] | if the operator has it charged: replicas times the amounts of a pod of its template, except `count/pods` |
//!
//! A pod has ended when its phase is Succeeded or Failed, or when it should have been deleted one grace period ago and
//! is still there ([`Object::lapse`]). Then only `count/pods` counts.
//!
//! The total of a pod is the largest of all containers and sidecars together and of each step of its start; pod-level
//! resources replace it name by name; the overhead comes on top. While a container is resized in place, the largest of
//! the requested, allotted and running amounts counts.
//!
//! Objects arrive as JSON and are read into types that have only the fields that count. Written as JSON again, they are
//! pruned to these fields, and count the same. The caller provides the time and the recorded facts about other objects
//! ([`Context`]).

mod context;
mod count;
mod defaults;
mod evaluator;
mod footprint;
mod group_resource;
mod metadata;
pub(crate) mod names;
mod pod;
mod resource_claim;
mod service;
mod short_name;
mod volume_claim;
mod workload;

pub(crate) use self::count::plain_count_name;
pub use self::{
    context::{Context, NoContext, OwningPod},
    evaluator::{Evaluator, EveryClass, MEASURED, is_countable_by_anyone, is_ignored},
    footprint::{Amount, Footprint, PodTraits, Traits},
    group_resource::{GroupResource, ParseGroupResourceError, plural},
    metadata::{Annotations, Labels, Metadata, OwnerReference, TypeMeta},
    names::{COUNT_PREFIX, REQUESTS_PREFIX},
    pod::Pod,
    resource_claim::ResourceClaim,
    service::Service,
    short_name::short_name,
    volume_claim::VolumeClaim,
    workload::Workload,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, value::MapDeserializer},
};
use serde_json::value::RawValue;

use crate::Timestamp;

/// An object with the fields that its footprint needs.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(Box<Pod>),
    /// A service.
    Service(Box<Service>),
    /// A persistent volume claim.
    VolumeClaim(Box<VolumeClaim>),
    /// A resource claim.
    ResourceClaim(Box<ResourceClaim>),
    /// A workload that is charged for its pods; see [`Charging`](crate::admission::Charging).
    Workload(Box<Workload>),
    /// Any other kind: it counts as one, regardless of its content.
    Other(Box<Metadata>),
}

/// An object as JSON, pruned to the fields that count; without its apiVersion and kind.
impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Any<'a> {
            metadata: &'a Metadata,
        }
        match self {
            Self::Pod(pod) => pod.serialize(serializer),
            Self::Service(service) => service.serialize(serializer),
            Self::VolumeClaim(claim) => claim.serialize(serializer),
            Self::ResourceClaim(claim) => claim.serialize(serializer),
            Self::Workload(workload) => workload.serialize(serializer),
            Self::Other(metadata) => Any { metadata }.serialize(serializer),
        }
    }
}

/// JSON that cannot be read as an object of its kind; the message may be shown to clients.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {kind}: {source}")]
pub struct Error {
    kind: GroupResource,
    source: serde_json::Error,
}

/// Most containers of a pod times the containers and the resources that they name, for a request: some milliseconds.
pub const STEPS_MAX: usize = 1_000_000;

impl Object {
    /// Reads an object of a given kind. Fields that do not count are skipped unread, and not checked.
    ///
    /// # Errors
    /// When the text is not JSON, or a field that counts has the wrong type.
    pub fn from_json(kind: &GroupResource, json: &[u8]) -> Result<Self, Error> {
        let read = || {
            let text = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
            let mut deserializer = serde_json::Deserializer::from_str(text);
            let object = Self::deserialize(kind, &mut deserializer)?;
            deserializer.end().map(|()| object)
        };
        read().map_err(|source| Error { kind: kind.clone(), source })
    }

    /// As [`Object::from_json`], from the fields of a larger whole.
    ///
    /// # Errors
    /// When a field that counts has the wrong type.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        kind: &GroupResource,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Any {
            #[serde(deserialize_with = "crate::nullable::nullable")]
            metadata: Metadata,
        }
        match Evaluator::of(kind) {
            Evaluator::Pods => Deserialize::deserialize(deserializer).map(Self::Pod),
            Evaluator::Services => Deserialize::deserialize(deserializer).map(Self::Service),
            Evaluator::VolumeClaims => {
                Deserialize::deserialize(deserializer).map(Self::VolumeClaim)
            }
            Evaluator::ResourceClaims => {
                Deserialize::deserialize(deserializer).map(Self::ResourceClaim)
            }
            Evaluator::Count(_) => {
                Any::deserialize(deserializer).map(|any| Self::Other(Box::new(any.metadata)))
            }
        }
    }

    /// As [`Object::from_json`], or as [`Object::workload_from_json`] if it `is_charged`, from the parts of an object by
    /// their names.
    ///
    /// # Errors
    /// When a field that counts has the wrong type.
    pub fn from_parts<'de>(
        kind: &GroupResource,
        is_charged: bool,
        parts: impl Iterator<Item = (&'static str, &'de RawValue)>,
    ) -> Result<Self, Error> {
        let fields = MapDeserializer::new(parts);
        let read = match is_charged {
            true => Deserialize::deserialize(fields).map(Self::Workload),
            false => Self::deserialize(kind, fields),
        };
        read.map_err(|source| Error { kind: kind.clone(), source })
    }

    /// Reads an object of a kind that is charged as a workload.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn workload_from_json(kind: &GroupResource, json: &[u8]) -> Result<Self, Error> {
        let read = serde_json::from_slice(json).map(Self::Workload);
        read.map_err(|source| Error { kind: kind.clone(), source })
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::Service(service) => &service.metadata,
            Self::VolumeClaim(claim) => &claim.metadata,
            Self::ResourceClaim(claim) => &claim.metadata,
            Self::Workload(workload) => &workload.metadata,
            Self::Other(metadata) => metadata,
        }
    }

    /// The object's metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        match self {
            Self::Pod(pod) => &mut pod.metadata,
            Self::Service(service) => &mut service.metadata,
            Self::VolumeClaim(claim) => &mut claim.metadata,
            Self::ResourceClaim(claim) => &mut claim.metadata,
            Self::Workload(workload) => &mut workload.metadata,
            Self::Other(metadata) => metadata,
        }
    }

    /// Whether the footprint takes so many steps to compute that others would wait. Only pods take more steps than they
    /// have bytes.
    pub fn is_too_complex(&self) -> bool {
        let steps = match self {
            Self::Pod(pod) => pod.steps(),
            Self::Workload(workload) => workload.steps(),
            _ => 0,
        };
        steps > STEPS_MAX
    }

    /// The footprint of the object at `now`. `kind` is the kind that it was read as.
    pub fn footprint(
        &self,
        kind: &GroupResource,
        now: Timestamp,
        context: &dyn Context,
    ) -> Footprint {
        let resources = match self {
            Self::Pod(pod) => pod.resources(now),
            Self::Service(service) => service.resources(),
            Self::VolumeClaim(claim) => claim.resources(),
            Self::ResourceClaim(claim) => claim.resources(context),
            Self::Workload(workload) => return workload.footprint(kind),
            Self::Other(_) => count::resources(kind),
        };
        Footprint { resources, traits: self.traits(), ..Footprint::default() }
    }

    /// The traits that scopes match.
    pub fn traits(&self) -> Traits {
        match self {
            Self::Workload(workload) => workload.traits(),
            Self::Pod(pod) => Traits::Pod(pod.traits()),
            Self::VolumeClaim(claim) => {
                Traits::VolumeClaim { attributes_classes: claim.attributes_classes() }
            }
            Self::Service(_) | Self::ResourceClaim(_) | Self::Other(_) => Traits::Plain,
        }
    }

    /// The time after which, strictly, a pod that is being deleted counts only as `count/pods`; `None` for anything
    /// else. No event announces that time: the holder of the footprint has to watch the clock.
    pub fn lapse(&self) -> Option<Timestamp> {
        match self {
            Self::Pod(pod) => pod.lapse(),
            _ => None,
        }
    }

    /// The requirements of a quota on the `required` names that the object does not meet, in Kubernetes' format: `must
    /// specify cpu for: a,b; limits.cpu for: a`. Only pods have requirements.
    pub fn missing_requirements(&self, required: &[&str]) -> Option<String> {
        match self {
            Self::Pod(pod) => pod.missing_requirements(required),
            Self::Workload(workload) => workload.missing_requirements(required),
            _ => None,
        }
    }

    /// Reduces the object to what counts of it, for a sender for whose messages it is too long. An API server stores
    /// objects of some megabytes, most of which may be fields that count: containers by the thousand, or amounts with
    /// any number of zeros before them. What is left has a bounded length, except for services and for workloads whose
    /// definition allows any text.
    ///
    /// It counts the same, unless the names and amounts of a pod's resources other than cpu, memory and ephemeral storage
    /// take more than `max_bytes` bytes of JSON. Then amounts of zero are left out, and the last other ones by name: their
    /// number is returned.
    pub fn condense(&mut self, max_bytes: usize) -> usize {
        match self {
            Self::Pod(pod) => pod.condense(max_bytes),
            Self::Workload(workload) => workload.condense(max_bytes),
            Self::VolumeClaim(claim) => {
                claim.condense();
                0
            }
            Self::Service(_) | Self::ResourceClaim(_) | Self::Other(_) => 0,
        }
    }

    /// The object as the API server completes it before admission: requests filled in from limits, pod-level requests,
    /// amounts rounded up to thousandths. For objects that come directly from a client; stored objects are complete.
    #[must_use]
    pub fn with_api_defaults(mut self) -> Self {
        match &mut self {
            Self::Pod(pod) => pod.set_api_defaults(),
            Self::VolumeClaim(claim) => claim.set_api_defaults(),
            Self::ResourceClaim(claim) => claim.set_api_defaults(),
            Self::Service(_) | Self::Workload(_) | Self::Other(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests;
