//! What one object counts for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Name, resource::ResourceList};

/// What one object counts for: amounts by resource name, the traits that scopes ask about, and the labels that groups
/// choose by.
///
/// The amounts are all that Kubernetes measures; a quota takes from them the names it limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Footprint {
    /// The amounts, by resource name.
    pub resources: ResourceList,
    /// What quota scopes can ask about the object.
    pub traits: Traits,
    /// Its own labels, of the keys that the operator lets groups choose by and no others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Name, Name>,
}

impl Footprint {
    /// The same object with other amounts.
    #[must_use]
    pub fn with_resources(&self, resources: ResourceList) -> Self {
        Self {
            resources,
            traits: self.traits.clone(),
            labels: self.labels.clone(),
        }
    }
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
    /// A pod that says that a charged workload made it: to scopes it is a pod.
    Replica(PodTraits),
}

/// How an amount counts. Of each name a limit counts all that is [plain](Amount::Plain), and the larger of what is
/// charged and what is claimed: so the pods of a charged workload are not counted twice, and whatever a pod says of its
/// owners, it never counts for less than is charged to workloads and not claimed by other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// By itself.
    Plain,
    /// A workload is charged for its pods.
    Charged,
    /// A pod needs it that says that a charged workload made it.
    Claimed,
}

impl Traits {
    /// How the amount of a name counts for an object like this.
    #[must_use]
    pub fn amount(&self, name: &str) -> Amount {
        match self {
            Self::Template { replica, .. } if replica.get(name).is_some() => Amount::Charged,
            Self::Replica(_) if !name.starts_with("count/") => Amount::Claimed,
            _ => Amount::Plain,
        }
    }

    /// Whether all amounts count by themselves.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        !matches!(self, Self::Template { .. } | Self::Replica(_))
    }
}

impl Footprint {
    /// What must be granted to get from `old` to this: by how much each amount exceeds one that counts in the same
    /// way, or zero.
    #[must_use]
    pub fn delta_over(&self, old: &Self) -> ResourceList {
        if self.traits.is_plain() && old.traits.is_plain() {
            return self.resources.delta_over(&old.resources);
        }
        let is_alike = |name: &str| self.traits.amount(name) == old.traits.amount(name);
        self.resources.delta_over(&old.resources.mask(is_alike))
    }

    /// The same for an object that was counted like `before`: a pod that once said that a charged workload made it
    /// stays one of those. Else it could leave the workload, which makes another one in its place.
    #[must_use]
    pub fn following(mut self, before: &Self) -> Self {
        if let (Traits::Pod(pod), Traits::Replica(_)) = (&self.traits, &before.traits) {
            self.traits = Traits::Replica(pod.clone());
        }
        self
    }
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
