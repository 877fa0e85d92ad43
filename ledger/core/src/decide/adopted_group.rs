//! Groups that a source has reported. They are facts of a cluster, which validates OpenShift's fields and nothing else.

use std::sync::Arc;

use super::group::check_object_labels;
use crate::{
    event::{Cause, Ending, Event, GroupRecord, Sequence},
    state::State,
};
use quota_semantics::{
    Name,
    group::{
        manifest,
        tree::{self, Forest},
        validation::validate_extensions,
    },
    object::Footprint,
    uid::Uid,
};

/// Observes a group. Returns nothing if the group is unchanged, if the recorded version is newer, or if the group is
/// deleted. The version alone is no change, since the status of a group changes very often. A change of the spec that was
/// undone is recorded, since it changes `generation`, so that a late event about it does not count.
pub(super) fn observe(state: &State, seen: &GroupRecord, max_depth: usize) -> Vec<Event> {
    let version = seen.adopted_version().unwrap_or(0);
    let recorded = state.adopted_group(&seen.name).map(|(recorded, _)| recorded);
    let is_old = recorded.is_some_and(|recorded| {
        let shown = recorded.adopted_version().unwrap_or(0);
        version != 0 && version <= shown
    });
    let is_alive = recorded.is_some_and(|recorded| recorded.uid == seen.uid);
    let is_deleted = !is_alive && state.is_deleted("", &seen.uid);
    if is_old || is_deleted {
        return Vec::new();
    }
    let record = as_it_fits(state, seen, max_depth);
    if recorded.is_some_and(|recorded| is_equivalent(recorded, &record)) {
        return Vec::new();
    }
    set(state, record, max_depth)
}

/// Replaces the record of a group by the listed one.
pub(super) fn replace(state: &State, seen: &GroupRecord, max_depth: usize) -> Vec<Event> {
    set(state, as_it_fits(state, seen, max_depth), max_depth)
}

/// Sets a group. Groups that already name it as their parent lose the parent if the group cannot have them.
fn set(state: &State, record: GroupRecord, max_depth: usize) -> Vec<Event> {
    let takes_children =
        tree::takes_children(state.forest(), &record.name, &record.spec, max_depth);
    let children = match takes_children {
        true => Vec::new(),
        false => state.forest().children(&record.name),
    };
    let orphaned = children.iter().filter_map(|child| {
        let mut orphan = GroupRecord::clone(state.group_record(child)?.0);
        orphan.spec.extensions.parent = None;
        Some(orphan)
    });
    let records = orphaned.chain([record.clone()]);
    records.map(|record| Event::GroupSet(Arc::new(record))).collect()
}

/// Ends a deleted group. Returns nothing if the deletion is recorded already. Groups have no namespace.
pub(super) fn end(state: &State, name: &Name, uid: &Uid) -> Vec<Event> {
    let recorded = state.adopted_group(name).map(|(recorded, _)| recorded);
    let is_recorded = recorded.is_some_and(|recorded| recorded.uid == *uid);
    if !is_recorded && state.is_deleted("", uid) {
        return Vec::new();
    }
    let deleted = Event::ObjectDeleted { uid: uid.clone(), namespace: Name::default() };
    let limits = is_recorded.then(|| Event::GroupDeleted { name: name.clone() });
    [deleted].into_iter().chain(limits).collect()
}

/// Ends a group that a relist has not reported. The end is not final: the group counts again when it is observed again.
pub(super) fn unlisted(record: &GroupRecord, began: Sequence) -> Vec<Event> {
    let ending = Ending {
        uid: record.uid.clone(),
        namespace: Name::default(),
        resource: manifest::RESOURCE.into(),
        name: record.name.as_str().into(),
        footprint: Footprint::default(),
        cause: Cause::Relist { began },
    };
    let name = record.name.clone();
    vec![Event::ObjectEnded(Box::new(ending)), Event::GroupDeleted { name }]
}

fn is_equivalent(recorded: &GroupRecord, seen: &GroupRecord) -> bool {
    let metadata_is_the_same = manifest::is_equivalent(&recorded.metadata, &seen.metadata);
    metadata_is_the_same
        && super::group::same(
            recorded,
            &GroupRecord { metadata: recorded.metadata.clone(), ..seen.clone() },
        )
}

/// The group without the extensions that are invalid, or that do not fit among the other groups. The cluster does not
/// validate extensions, and OpenShift's fields have to hold in any case.
fn as_it_fits(state: &State, seen: &GroupRecord, max_depth: usize) -> GroupRecord {
    let mut record = seen.clone();
    loop {
        let spec = &record.spec;
        let mut errors = validate_extensions(spec);
        errors.extend(check_object_labels(spec.extensions.objects.as_ref(), state.object_labels()));
        errors.extend(tree::validate(state.forest(), &record.name, spec, max_depth));
        if !record.spec.extensions.drop_wrong(&errors) {
            return record;
        }
    }
}
