//! Groups that a source has reported: facts of a cluster, which checks OpenShift's fields of them and nothing else.

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

/// A group was seen. Nothing, if it says the same as before, if what is known is newer, or if it is deleted.
pub(super) fn observe(state: &State, seen: &GroupRecord, max_depth: usize) -> Vec<Event> {
    let version = seen.adopted_version().unwrap_or(0);
    let known = state.adopted_group(&seen.name).map(|(known, _)| known);
    let is_old = known.is_some_and(|known| {
        let shown = known.adopted_version().unwrap_or(0);
        version != 0 && version <= shown
    });
    let is_alive = known.is_some_and(|known| known.uid == seen.uid);
    let is_deleted = !is_alive && state.is_deleted("", &seen.uid);
    if is_old || is_deleted {
        return Vec::new();
    }
    let record = as_it_fits(state, seen, max_depth);
    if known.is_some_and(|known| says_the_same(known, &record)) {
        return Vec::new();
    }
    set(state, record, max_depth)
}

/// A group was listed that replaces what is recorded of it.
pub(super) fn replace(state: &State, seen: &GroupRecord, max_depth: usize) -> Vec<Event> {
    set(state, as_it_fits(state, seen, max_depth), max_depth)
}

/// Sets a group. Those that have named it as their parent before lose it if the group cannot have them.
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
    records
        .map(|record| Event::GroupSet(Arc::new(record)))
        .collect()
}

/// A group was deleted. Nothing, if that is known. In no namespace: that is where a group is.
pub(super) fn end(state: &State, name: &Name, uid: &Uid) -> Vec<Event> {
    let known = state.adopted_group(name).map(|(known, _)| known);
    let is_known = known.is_some_and(|known| known.uid == *uid);
    if !is_known && state.is_deleted("", uid) {
        return Vec::new();
    }
    let deleted = Event::ObjectDeleted {
        uid: uid.clone(),
        namespace: Name::default(),
    };
    let limits = is_known.then(|| Event::GroupDeleted { name: name.clone() });
    [deleted].into_iter().chain(limits).collect()
}

/// A relist has not reported a group. It is not deleted for good: it counts again if it is seen again.
pub(super) fn unlisted(record: &GroupRecord, began: Sequence) -> [Event; 2] {
    let ending = Ending {
        uid: record.uid.clone(),
        namespace: Name::default(),
        resource: manifest::RESOURCE.into(),
        name: record.name.as_str().into(),
        footprint: Footprint::default(),
        cause: Cause::Relist { began },
    };
    let name = record.name.clone();
    [
        Event::ObjectEnded(Box::new(ending)),
        Event::GroupDeleted { name },
    ]
}

fn says_the_same(known: &GroupRecord, seen: &GroupRecord) -> bool {
    let metadata_is_the_same = manifest::says_the_same(&known.metadata, &seen.metadata);
    metadata_is_the_same
        && super::group::same(
            known,
            &GroupRecord {
                metadata: known.metadata.clone(),
                ..seen.clone()
            },
        )
}

/// The group without those extensions that are wrong, or have no place among the other groups: the cluster that it is
/// from does not check them, and what OpenShift's fields say has to hold whatever they say.
fn as_it_fits(state: &State, seen: &GroupRecord, max_depth: usize) -> GroupRecord {
    let mut record = seen.clone();
    loop {
        let spec = &record.spec;
        let mut errors = validate_extensions(spec);
        errors.extend(check_object_labels(
            spec.extensions.objects.as_ref(),
            state.object_labels(),
        ));
        errors.extend(tree::validate(
            state.forest(),
            &record.name,
            spec,
            max_depth,
        ));
        if !record.spec.extensions.drop_wrong(&errors) {
            return record;
        }
    }
}
