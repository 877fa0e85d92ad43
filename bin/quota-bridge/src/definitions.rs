//! Removed kinds: discovery leaves them out, and they have no definition in the cluster.
//!
//! One response of discovery proves nothing: while API servers are updated one by one, some of them may not serve the
//! kinds of others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use quota_semantics::object::GroupResource;
use serde_json::Value;

use crate::{
    kubernetes::{Client, JSON},
    needed::is_of_the_cluster,
};

/// The path of the custom resource definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The API server's response to a request for the definition of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// The kind has a definition.
    Exists,
    /// The kind has no definition, or one whose objects are in no namespace and so do not count.
    Missing,
    /// The bridge may not read definitions (403).
    Hidden,
    /// The request failed.
    Unknown,
}

/// Requests the definition of a kind.
pub(crate) async fn definition(client: &Client, kind: &GroupResource) -> Definition {
    match client.get(&format!("{DEFINITIONS}/{kind}"), JSON).await {
        Ok(body) => match is_of_the_cluster(kind) || !has_cluster_scope(&body) {
            true => Definition::Exists,
            false => Definition::Missing,
        },
        Err(failure) => match failure.code() {
            Some(404) => Definition::Missing,
            Some(403) => Definition::Hidden,
            _ => Definition::Unknown,
        },
    }
}

fn has_cluster_scope(definition: &[u8]) -> bool {
    let definition = serde_json::from_slice::<Value>(definition);
    definition.is_ok_and(|definition| definition["spec"]["scope"] == "Cluster")
}

/// Whether a kind can have a definition: the groups of defined kinds contain a dot.
pub(crate) fn may_be_defined(kind: &GroupResource) -> bool {
    kind.group.contains('.')
}

/// Whether a kind that this bridge has never watched had a definition, if it was ever served.
pub(crate) fn was_defined(kind: &GroupResource) -> bool {
    is_of_others(&kind.group)
}

/// Whether a group is none of Kubernetes itself, whose groups end with `.k8s.io`, or contain no dot.
pub(crate) fn is_of_others(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// The kinds that discovery leaves out, each with the time of the first such discovery.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(BTreeMap<GroupResource, Instant>);

impl LeftOut {
    /// Records whether the discovery at `now` leaves out a kind. Returns whether all discoveries for at least `least`
    /// have left the kind out.
    pub(crate) fn note(
        &mut self,
        kind: &GroupResource,
        is_left_out: bool,
        now: Instant,
        least: Duration,
    ) -> bool {
        if !is_left_out {
            self.0.remove(kind);
            return false;
        }
        let since = *self.0.entry(kind.clone()).or_insert(now);
        since < now && now.duration_since(since) >= least
    }

    /// Removes all kinds that are not needed.
    pub(crate) fn keep(&mut self, needed: &BTreeSet<GroupResource>) {
        self.0.retain(|kind, _| needed.contains(kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_gone_when_it_is_left_out_twice_in_a_row() {
        let mut left_out = LeftOut::default();
        let kind = GroupResource::new("x.y", "widgets");
        let (begin, least) = (Instant::now(), Duration::from_secs(15));
        let mut note = |is, seconds| {
            let now = begin + Duration::from_secs(seconds);
            left_out.note(&kind, is, now, least)
        };
        assert!(!note(true, 0));
        assert!(!note(true, 1), "two answers at the same time are one");
        assert!(note(true, 30));
        assert!(!note(false, 60) && !note(true, 90) && note(true, 120));
    }

    #[test]
    fn kinds_of_kubernetes_have_no_definition() {
        for (name, may, was) in [
            ("pods", false, false),
            ("deployments.apps", false, false),
            ("resourceclaims.resource.k8s.io", true, false),
            ("gateways.gateway.networking.k8s.io", true, false),
            ("widgets.example.com", true, true),
        ] {
            let kind = name.parse().unwrap();
            assert_eq!((may_be_defined(&kind), was_defined(&kind)), (may, was), "{name}");
        }
    }
}
