//! The names that nearly all objects have in common: numbers stand for them, so that they are neither allocated nor
//! compared letter by letter.

/// Sorted, so that numbers are in the order of the texts.
pub(super) const TEXTS: &[&str] = &[
    "",
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "Namespace",
    "PersistentVolumeClaim",
    "Pod",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "StatefulSet",
    "apps/v1",
    "batch/v1",
    "configmaps",
    "count/configmaps",
    "count/cronjobs.batch",
    "count/daemonsets.apps",
    "count/deployments.apps",
    "count/ingresses.networking.k8s.io",
    "count/jobs.batch",
    "count/persistentvolumeclaims",
    "count/pods",
    "count/replicasets.apps",
    "count/replicationcontrollers",
    "count/resourceclaims.resource.k8s.io",
    "count/resourcequotas",
    "count/secrets",
    "count/serviceaccounts",
    "count/services",
    "count/statefulsets.apps",
    "cpu",
    "cronjobs.batch",
    "daemonsets.apps",
    "default",
    "deployments.apps",
    "ephemeral-storage",
    "ingresses.networking.k8s.io",
    "jobs.batch",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "namespaces",
    "nodes",
    "nvidia.com/gpu",
    "persistentvolumeclaims",
    "pods",
    "replicasets.apps",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.nvidia.com/gpu",
    "requests.storage",
    "resourceclaims.resource.k8s.io",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "statefulsets.apps",
    "storage",
    "v1",
];

/// What the names are for: without the prefixes that say what of it counts.
const BARE: [&str; TEXTS.len()] = {
    let mut all = [""; TEXTS.len()];
    let mut number = 0;
    while number < TEXTS.len() {
        all[number] = bare(TEXTS[number]);
        number += 1;
    }
    all
};

/// Things by number: the first number of a name for the same thing.
const THINGS: [u8; TEXTS.len()] = {
    let mut all = [0; TEXTS.len()];
    let mut number = 0;
    while number < TEXTS.len() {
        let mut first = 0;
        while BARE[first].len() != BARE[number].len() || !is_same(BARE[first], BARE[number]) {
            first += 1;
        }
        all[number] = first as u8;
        number += 1;
    }
    all
};

/// A text without such a prefix.
pub(super) const fn bare(text: &str) -> &str {
    const PREFIXES: [&str; 3] = ["count/", "requests.", "limits."];
    let mut prefix = 0;
    while prefix < PREFIXES.len() {
        if let Some((first, rest)) = text.split_at_checked(PREFIXES[prefix].len())
            && is_same(first, PREFIXES[prefix])
        {
            return rest;
        }
        prefix += 1;
    }
    text
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len()
}

const SLOTS: usize = 256;

/// No name is in this slot.
const FREE: u8 = u8::MAX;

/// The numbers of the names, each in the first free slot from that of its text on.
const TABLE: [u8; SLOTS] = {
    assert!(TEXTS.len() <= 128 && TEXTS.len() < FREE as usize);
    let mut table = [FREE; SLOTS];
    let mut number = 0;
    while number < TEXTS.len() {
        let mut slot = slot(TEXTS[number].as_bytes());
        while table[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = number as u8;
        number += 1;
    }
    table
};

/// The length, and the letters that differ most.
const fn slot(text: &[u8]) -> usize {
    let length = text.len();
    if length == 0 {
        return 0;
    }
    let (middle, last) = (text[length / 2] as usize, text[length - 1] as usize);
    (length * 44 + text[0] as usize * 211 + middle * 129 + last) % SLOTS
}

/// The number of a known name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known(u8);

impl Known {
    /// The number of a text, if it is known.
    pub(super) fn find(text: &str) -> Option<Self> {
        let mut slot = slot(text.as_bytes());
        while TABLE[slot] != FREE {
            let known = Self(TABLE[slot]);
            if known.text() == text {
                return Some(known);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    #[inline]
    pub(super) fn text(self) -> &'static str {
        TEXTS[self.number()]
    }

    #[inline]
    pub(super) fn bare(self) -> &'static str {
        BARE[self.number()]
    }

    #[inline]
    pub(super) const fn thing(self) -> u8 {
        THINGS[self.number()]
    }

    #[inline]
    pub(super) const fn number(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_found_in_its_order() {
        assert!(TEXTS.is_sorted_by(|one, next| one < next));
        for (number, text) in TEXTS.iter().enumerate() {
            assert_eq!(Known::find(text).map(|known| usize::from(known.0)), Some(number), "{text}");
        }
        assert!(Known::find("pod").is_none() && Known::find("requests.cpi").is_none());
    }
}
