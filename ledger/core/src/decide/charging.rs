//! Which workloads are charged for their pods: a rule of what counts, so a change of it is on record.

use std::collections::BTreeSet;

use super::relist::RELISTS_MAX;
use crate::{
    event::{Event, RelistScope},
    state::State,
};
use quota_semantics::Name;

/// Whether workloads of these kinds, and no others, are charged by the present rule. The first ledgers believed pods that
/// a workload pays for them, and recorded only `count/pods` of such.
#[must_use]
pub fn is_charging(state: &State, kinds: &BTreeSet<Name>) -> bool {
    state.charging() == kinds && (kinds.is_empty() || state.has_replicas())
}

/// Workloads of these kinds are charged from now on. Nothing, if they were before, and their pods are set against that.
///
/// What is known of pods and workloads was counted by the other rule. What `source` lists of them replaces it,
/// whatever its version, until it has listed all.
#[must_use]
pub fn set_charging(state: &State, kinds: &BTreeSet<Name>, source: Option<&Name>) -> Vec<Event> {
    if is_charging(state, kinds) {
        return Vec::new();
    }
    let changed = Event::WorkloadsCharged {
        kinds: kinds.iter().cloned().collect(),
    };
    let source = source.filter(|_| state.object_count() > 0);
    let pods = Name::from("pods");
    let scopes = source.into_iter().flat_map(|source| {
        let counted = kinds.iter().chain([&pods]);
        counted.map(|kind| RelistScope {
            resource: kind.clone(),
            namespace: None,
            source: source.clone(),
        })
    });
    let resets = state.version_resets();
    let room = RELISTS_MAX.saturating_sub(resets.len());
    let news = scopes.filter(|scope| !resets.contains(scope)).take(room);
    let news = news.map(|scope| Event::VersionsReset(Box::new(scope)));
    [changed].into_iter().chain(news).collect()
}
