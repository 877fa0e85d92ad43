//! The kinds that have to be watched.

use std::collections::BTreeSet;

use quota_semantics::{
    group::manifest::{GROUP, PLURAL},
    object::{GroupResource, MEASURED, is_ignored},
    syntax,
};

/// The kinds that the operator configures in addition to the kinds that are always needed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Kinds that are watched although no quota in the cluster limits them.
    pub include: BTreeSet<GroupResource>,
    /// Kinds that are never watched.
    pub exclude: BTreeSet<GroupResource>,
    /// Workloads that are charged for their pods.
    pub charge: BTreeSet<GroupResource>,
}

impl Wanted {
    /// The kinds that are watched whatever quotas limit, if they are served.
    #[must_use]
    pub fn independent_of_quotas(&self) -> BTreeSet<GroupResource> {
        needed(self, &BTreeSet::new())
    }
}

/// The kinds that are always watched: those with amounts other than their number, quotas, groups, and namespaces, by
/// whose labels groups select.
#[must_use]
pub fn always() -> BTreeSet<GroupResource> {
    let measured = MEASURED.map(|(group, resource)| GroupResource::new(group, resource));
    measured.into_iter().chain([quotas(), groups(), namespaces()]).collect()
}

/// Namespaces.
#[must_use]
pub fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Quotas of one namespace.
#[must_use]
pub fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// Quotas over several namespaces, which become groups of the ledger.
#[must_use]
pub fn groups() -> GroupResource {
    GroupResource::new(GROUP, PLURAL)
}

/// Whether this is one of the cluster-scoped kinds that are watched.
#[must_use]
pub fn is_of_the_cluster(kind: &GroupResource) -> bool {
    [namespaces(), groups()].contains(kind)
}

/// Whether a kind can have this name. Quotas may limit the number of any name that looks like a resource, such as
/// `count/Deployments.apps`; the ledger accepts valid names of kinds only.
#[must_use]
pub fn is_possible(kind: &GroupResource) -> bool {
    syntax::subdomain(&kind.to_string()).is_empty()
}

/// All kinds that have to be watched, if they are served. `limited`: the kinds that some quota limits.
#[must_use]
pub fn needed(wanted: &Wanted, limited: &BTreeSet<GroupResource>) -> BTreeSet<GroupResource> {
    let mut kinds = always();
    for more in [&wanted.include, &wanted.charge, limited] {
        kinds.extend(more.iter().cloned());
    }
    kinds.retain(|kind| !wanted.exclude.contains(kind) && !is_ignored(kind));
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_names_can_be_no_kind() {
        for name in ["pods", "widgets.x.y", "a-b.c"] {
            assert!(is_possible(&name.parse().unwrap()), "{name}");
        }
        for name in ["Deployments.apps", "a_b.x", "a..b", "*", "-a"] {
            assert!(!is_possible(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn a_quota_has_its_kinds_watched() {
        let widgets = GroupResource::new("x.y", "widgets");
        let maps = GroupResource::new("", "configmaps");
        let wanted = Wanted {
            exclude: BTreeSet::from([maps.clone(), GroupResource::new("", "services")]),
            include: BTreeSet::from([GroupResource::new("", "events")]),
            charge: BTreeSet::from([GroupResource::new("apps", "deployments")]),
        };
        let needed = needed(&wanted, &BTreeSet::from([widgets, maps]));
        let names: Vec<_> = needed.iter().map(ToString::to_string).collect();
        let expected = [
            "namespaces",
            "persistentvolumeclaims",
            "pods",
            "resourcequotas",
            "deployments.apps",
            "clusterresourcequotas.quota.openshift.io",
            "resourceclaims.resource.k8s.io",
            "widgets.x.y",
        ];
        assert_eq!(names, expected);
    }
}
