//! Which workloads are charged for their pods, and which labels of objects are recorded: rules of what counts, so a change of
//! them is on record.

use std::collections::BTreeSet;

use super::{RELISTS_MAX, Refusal};
use crate::{
    event::{Event, RelistScope},
    state::State,
};
use quota_semantics::{Name, quota::FieldError};

/// Whether workloads of these kinds, and no others, are charged by the present rule. The first ledgers believed pods that
/// a workload pays for them, and recorded only `count/pods` of such.
#[must_use]
pub fn is_charging(state: &State, kinds: &BTreeSet<Name>) -> bool {
    state.charging() == kinds && (kinds.is_empty() || state.has_replicas())
}

/// Workloads of these kinds are charged from now on. Nothing, if they were before, and their pods are set against that.
///
/// What is recorded of pods and workloads was counted by the other rule. What `source` lists of them replaces it,
/// whatever its version, until it has listed all.
#[must_use]
pub fn set_charging(state: &State, kinds: &BTreeSet<Name>, source: Option<&Name>) -> Vec<Event> {
    if is_charging(state, kinds) {
        return Vec::new();
    }
    let changed = Event::WorkloadsCharged {
        kinds: kinds.iter().cloned().collect(),
    };
    let pods = Name::from("pods");
    let counted = kinds.iter().chain([&pods]).cloned();
    let resets = listed_anew(state, counted, source);
    [changed].into_iter().chain(resets).collect()
}

/// Labels with these keys are recorded of every object from now on. Nothing, if they were before.
///
/// Of what is there, no label is recorded whose key is new: what `source` lists replaces it, whatever its version, until it
/// has listed all.
///
/// # Errors
/// `Invalid` if a group chooses objects by a key that is gone: its members would leave it one by one.
pub fn set_object_labels(
    state: &State,
    keys: &BTreeSet<Name>,
    source: Option<&Name>,
) -> Result<Vec<Event>, Refusal> {
    if state.object_labels() == keys {
        return Ok(Vec::new());
    }
    if let Some((group, key)) = state.group_choosing_otherwise(keys) {
        let detail = format!("group {group} chooses objects by {key}");
        let error = FieldError::forbidden("groups.object_labels", detail);
        return Err(Refusal::Invalid(vec![error]));
    }
    let changed = Event::ObjectLabelsChanged {
        keys: keys.iter().cloned().collect(),
    };
    let is_more = !keys.is_subset(state.object_labels());
    let source = source.filter(|_| is_more);
    let resets = listed_anew(state, state.resources_of_objects(), source);
    Ok([changed].into_iter().chain(resets).collect())
}

/// Has what a source lists of these kinds replace what is there, whatever its version.
fn listed_anew<'a>(
    state: &'a State,
    kinds: impl Iterator<Item = Name> + 'a,
    source: Option<&'a Name>,
) -> impl Iterator<Item = Event> + 'a {
    let source = source.filter(|_| state.object_count() > 0);
    let kinds = source.map(|source| kinds.map(move |kind| (kind, source)));
    let scopes = kinds
        .into_iter()
        .flatten()
        .map(|(resource, source)| RelistScope {
            resource,
            namespace: None,
            source: source.clone(),
        });
    let resets = state.version_resets();
    let room = RELISTS_MAX.saturating_sub(resets.len());
    let news = scopes.filter(|scope| !resets.contains(scope)).take(room);
    news.map(|scope| Event::VersionsReset(Box::new(scope)))
}
