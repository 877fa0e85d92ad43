//! Which workloads are charged for their pods, and which labels of objects are recorded. Both determine what counts, so
//! a change is an entry.

use std::collections::BTreeSet;

use super::{RELISTS_MAX, Refusal, relist::relist_ended};
use crate::{
    event::{Event, RelistOutcome, RelistScope},
    state::State,
};
use quota_semantics::{
    Name,
    object::{Footprint, Traits},
    quota::FieldError,
    uid::Uid,
};

/// The footprint for which an object counts: a workload whose controller pays for its pods counts only for itself. A
/// controller pays if the ledger has recorded its charge, or a reservation holds that. One that is recorded only later
/// pays from the next event about the workload on.
pub(super) fn relieved(
    state: &State,
    namespace: &Name,
    uid: &Uid,
    mut footprint: Footprint,
) -> Footprint {
    let Some(payer) = footprint.payer.take() else {
        return footprint;
    };
    let held = || {
        let pending = state.pending_of(namespace, &payer)?;
        Some(&*pending.reservation.footprint)
    };
    let is_charged = |footprint: &Footprint| matches!(footprint.traits, Traits::Template { .. });
    let pays = *payer != *uid
        && (state.footprint_in(namespace, &payer).is_some_and(is_charged)
            || held().is_some_and(is_charged));
    let itself = pays.then(|| footprint.itself()).flatten();
    itself.unwrap_or(footprint)
}

/// Whether exactly these kinds of workloads are charged.
#[must_use]
pub fn is_charging(state: &State, kinds: &BTreeSet<Name>) -> bool {
    state.charging() == kinds
}

/// Charges workloads of these kinds from now on. Returns nothing if they were charged before.
///
/// Recorded pods and workloads were counted for other charges. Objects that `source` lists replace them, whatever
/// their version, until it has listed all. Relists of all kinds that are under way end, so their kinds have to be listed
/// again, too.
#[must_use]
pub fn set_charging(state: &State, kinds: &BTreeSet<Name>, source: Option<&Name>) -> Vec<Event> {
    if is_charging(state, kinds) {
        return Vec::new();
    }
    let changed = Event::WorkloadsCharged { kinds: kinds.iter().cloned().collect() };
    let cut_off = state.relists().filter(|relist| Some(&relist.scope.source) == source);
    let counted = kinds.iter().cloned().chain([Name::from("pods")]);
    let anew: BTreeSet<Name> = counted.chain(cut_off.map(|relist| relist.scope.resource)).collect();
    let resets = listed_anew(state, anew.into_iter(), source);
    let ended = state.relists().map(|relist| relist_ended(&relist, RelistOutcome::Incomplete));
    ended.chain([changed]).chain(resets).collect()
}

/// Records labels with these keys of every object from now on. Returns nothing if they were recorded before.
///
/// Recorded objects lack the labels with new keys: objects that `source` lists replace them, whatever their version,
/// until it has listed all. A relist that is under way has listed some without the labels, so it is incomplete.
///
/// # Errors
/// `Invalid` if a group selects objects by a key that is removed: its members would leave it one by one.
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
    let changed = Event::ObjectLabelsChanged { keys: keys.iter().cloned().collect() };
    let is_more = !keys.is_subset(state.object_labels());
    let source = source.filter(|_| is_more);
    let under_way = state.relists().filter(|relist| Some(&relist.scope.source) == source);
    let cut_off = under_way.map(|relist| relist_ended(&relist, RelistOutcome::Incomplete));
    let resets = listed_anew(state, state.resources_of_objects(), source);
    Ok([changed].into_iter().chain(cut_off).chain(resets).collect())
}

/// Lets the objects of these kinds that a source lists replace the recorded ones, whatever their version.
fn listed_anew<'a>(
    state: &'a State,
    kinds: impl Iterator<Item = Name> + 'a,
    source: Option<&'a Name>,
) -> impl Iterator<Item = Event> + 'a {
    let source = source.filter(|_| state.object_count() > 0);
    let kinds = source.map(|source| kinds.map(move |kind| (kind, source)));
    let scopes = kinds.into_iter().flatten().map(|(resource, source)| RelistScope {
        resource,
        namespace: None,
        source: source.clone(),
    });
    let resets = state.version_resets();
    let room = RELISTS_MAX.saturating_sub(resets.len());
    let added = scopes.filter(|scope| !resets.contains(scope)).take(room);
    added.map(|scope| Event::VersionsReset(Box::new(scope)))
}
