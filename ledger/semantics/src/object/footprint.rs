//! The footprint of an object: the amounts for which it counts.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::{Name, resource::ResourceList, uid::Uid};

/// The footprint of an object: amounts by resource name, the traits for scopes, and the labels for groups.
///
/// It holds all amounts that Kubernetes measures; a quota uses the names that it limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// The amounts, by resource name.
    pub resources: ResourceList,
    /// The traits that quota scopes match.
    pub traits: Traits,
    /// The object's own labels, restricted to the keys by which the operator lets groups select.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<Name, Name>,
    /// The controller of a charged workload, if that is a charged workload itself: it may pay for the pods of this one.
    /// The decision whether it does takes it away, and so it is never recorded.
    #[serde(skip)]
    pub payer: Option<Box<Uid>>,
}

/// Without what most footprints do not have: the pool of them is asked for each observed object.
impl Hash for Footprint {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { resources, traits, labels, payer } = self;
        resources.hash(state);
        if !matches!(traits, Traits::Plain) {
            traits.hash(state);
        }
        if !labels.is_empty() {
            labels.hash(state);
        }
        if let Some(payer) = payer {
            payer.hash(state);
        }
    }
}

impl Footprint {
    /// The same object with other amounts.
    pub fn with_resources(&self, resources: ResourceList) -> Self {
        Self {
            resources,
            traits: self.traits.clone(),
            labels: self.labels.clone(),
            payer: self.payer.clone(),
        }
    }
}

/// The traits of an object that quota scopes match. Only pods, volume claims and charged workloads have traits; a quota
/// with a scope never matches any other kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Traits {
    /// A kind that no scope matches.
    #[default]
    Plain,
    /// A pod.
    Pod(PodTraits),
    /// A persistent volume claim.
    VolumeClaim {
        /// The volume attributes classes that it has, had or is changing to; sorted, none empty.
        attributes_classes: Vec<Name>,
    },
    /// A workload that is charged for the pods of its template. Scopes match the traits of its pods.
    Template {
        /// The traits of its pods.
        pod: PodTraits,
        /// The amounts of one pod, so that the workload can be scaled without its template at hand.
        replica: ResourceList,
    },
    /// A pod that names a charged workload as its owner. Scopes match it as a pod.
    Replica(PodTraits),
}

/// How an amount counts. For each name a limit counts all [plain](Amount::Plain) amounts, and the larger of the charged
/// and the drawn amounts. So the pods of a charged workload are not counted twice; and whatever owner a pod names, it
/// never counts for less than its excess over the charges that other pods do not draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// By itself.
    Plain,
    /// A workload is charged it for its pods.
    Charged,
    /// A pod that names a charged workload as its owner draws it from the charge.
    Drawn,
}

impl Traits {
    /// How the amount of a name counts for an object with these traits.
    pub fn amount(&self, name: &str) -> Amount {
        match self {
            Self::Template { replica, .. } if replica.get(name).is_some() => Amount::Charged,
            Self::Replica(_) if !name.starts_with("count/") => Amount::Drawn,
            _ => Amount::Plain,
        }
    }

    /// Whether all amounts are plain.
    pub const fn is_plain(&self) -> bool {
        !matches!(self, Self::Template { .. } | Self::Replica(_))
    }
}

impl Footprint {
    /// The amounts to be granted for a change from `old` to this footprint: the excess over those amounts that count in
    /// the same way, or zero.
    pub fn delta_over(&self, old: &Self) -> ResourceList {
        if self.traits.is_plain() && old.traits.is_plain() {
            return self.resources.delta_over(&old.resources);
        }
        let is_alike = |name: &str| self.traits.amount(name) == old.traits.amount(name);
        self.resources.delta_over(&old.resources.mask(is_alike))
    }

    /// The footprint of an object that was recorded as `before`: a pod that once named a charged workload as its owner
    /// remains a replica. Otherwise it could leave the workload, which would create another pod in its place.
    #[must_use]
    pub fn following(mut self, before: &Self) -> Self {
        if let (Traits::Pod(pod), Traits::Replica(_)) = (&self.traits, &before.traits) {
            self.traits = Traits::Replica(pod.clone());
        }
        self
    }

    /// Whether the same quotas and groups count both footprints: quotas choose by traits, groups also by labels.
    pub fn is_like(&self, other: &Self) -> bool {
        self.traits == other.traits && self.labels == other.labels
    }
}

/// The traits of a pod that scopes match.
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
