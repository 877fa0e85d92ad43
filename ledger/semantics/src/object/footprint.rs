//! What one object counts for.

use serde::{Deserialize, Serialize};

use crate::{Name, resource::ResourceList};

/// What one object counts for: amounts by resource name, and the traits that scopes ask about.
///
/// The amounts are all that Kubernetes measures; a quota takes from them the names it limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Footprint {
    /// The amounts, by resource name.
    pub resources: ResourceList,
    /// What quota scopes can ask about the object.
    pub traits: Traits,
}

/// What quota scopes can ask about an object. Only pods, volume claims and charged workloads have
/// such traits; any other kind is never matched by a quota that has a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Traits {
    /// A kind that no scope matches.
    #[default]
    Plain,
    /// A pod.
    Pod(PodTraits),
    /// A persistent volume claim.
    VolumeClaim {
        /// The volume attributes classes that it has, had or is moving to; sorted, none empty.
        attributes_classes: Vec<Name>,
    },
    /// A workload that is charged for the pods of its template: to scopes it is what its pods are.
    Template {
        /// What scopes can ask about its pods.
        pod: PodTraits,
        /// What one pod counts for, so that the workload can be scaled without its template at hand.
        replica: ResourceList,
    },
}

/// What scopes can ask about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PodTraits {
    /// Its quality of service is best effort.
    pub best_effort: bool,
    /// It has an active deadline, so it ends by itself.
    pub terminating: bool,
    /// Its priority class; empty if it has none.
    pub priority_class: Name,
    /// It has an affinity term that looks into other namespaces.
    pub cross_namespace_affinity: bool,
}
