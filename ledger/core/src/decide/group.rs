//! Setting and deleting groups.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Precondition, Refusal,
    quota::{check_deletion, identity, written},
};
use crate::{
    event::{Event, GroupRecord},
    state::State,
};
use quota_semantics::{
    Name, Timestamp,
    group::{LabelSelector, Spec, extension, tree},
    quota::FieldError,
    resource::ResourceList,
    uid::Uid,
};

/// Bounds on groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBounds {
    /// Most groups.
    pub max: usize,
    /// Most groups from the root of a tree to a leaf.
    pub max_depth: usize,
    /// Most groups that count objects of one namespace. Only changes of groups are refused: labels of namespaces are
    /// facts.
    pub per_namespace: usize,
}

impl Default for GroupBounds {
    fn default() -> Self {
        Self { max: 10_000, max_depth: 8, per_namespace: 64 }
    }
}

/// The desired state of a group. Its manifest has been validated, except for its place in the tree.
#[derive(Clone, Debug)]
pub struct GroupChange {
    /// Its name.
    pub name: Name,
    /// The identity it gets if it is new.
    pub fresh_uid: Uid,
    /// Members, limits and extensions.
    pub spec: Spec,
    /// The rest of its metadata as JSON text, without the annotations that are in `spec`; empty: none.
    pub metadata: Box<str>,
    /// The condition for the change.
    pub precondition: Option<Precondition>,
}

/// Creates or changes a group. An unchanged group leaves no entry.
///
/// # Errors
/// `Conflict` if the precondition does not hold; `Invalid` if the group does not fit into the tree; `LimitReached`.
pub fn set_group(
    state: &State,
    now: Timestamp,
    change: &GroupChange,
    bounds: &GroupBounds,
) -> Result<Vec<Event>, Refusal> {
    let current = state.group_record(&change.name);
    let (uid, created) = identity(
        format!("group {}", change.name),
        current.map(|(record, entry)| (&record.uid, record.created, entry)),
        change.precondition,
        &change.fresh_uid,
        now,
    )?;
    let record = GroupRecord {
        name: change.name.clone(),
        uid,
        created,
        spec: change.spec.clone(),
        metadata: change.metadata.clone(),
    };
    if current.is_some_and(|(current, _)| same(current, &record)) {
        return Ok(Vec::new());
    }
    let mut errors = tree::validate(state.forest(), &change.name, &change.spec, bounds.max_depth);
    let objects = change.spec.extensions.objects.as_ref();
    errors.extend(check_object_labels(objects, state.object_labels()));
    if !errors.is_empty() {
        return Err(Refusal::Invalid(errors));
    }
    check_bounds(state, &record, current.is_none(), bounds)?;
    Ok(vec![Event::GroupSet(Arc::new(record))])
}

/// The errors of a selector of objects, if only labels with these keys are recorded.
pub(super) fn check_object_labels(
    selector: Option<&LabelSelector>,
    keys: &BTreeSet<Name>,
) -> Option<FieldError> {
    let mut wanted = selector.into_iter().flat_map(LabelSelector::keys);
    let other = wanted.find(|key| !keys.contains(*key))?;
    let field = extension::field_of(extension::OBJECTS);
    let recorded: Vec<&str> = keys.iter().map(Name::as_str).collect();
    let detail = format!(
        "{other} is not among the labels of objects that are recorded (groups.object_labels: [{}])",
        recorded.join(", ")
    );
    Some(FieldError::forbidden(field, detail))
}

fn check_bounds(
    state: &State,
    record: &GroupRecord,
    is_new: bool,
    bounds: &GroupBounds,
) -> Result<(), Refusal> {
    let requested = state.group_count() + 1;
    if is_new && requested > bounds.max {
        return Err(Refusal::LimitReached { limit: "groups.max", requested, most: bounds.max });
    }
    match state.crowded(&record.name, &record.spec, bounds.per_namespace) {
        Some((_, requested)) => Err(Refusal::LimitReached {
            limit: "groups.max_per_namespace",
            requested,
            most: bounds.per_namespace,
        }),
        None => Ok(()),
    }
}

/// Whether two records are equal, including the families of quantities.
pub(super) fn same(a: &GroupRecord, b: &GroupRecord) -> bool {
    a == b && written(lists(a)).eq(written(lists(b)))
}

fn lists(record: &GroupRecord) -> impl Iterator<Item = &ResourceList> {
    let extensions = &record.spec.extensions;
    let overridden = extensions.r#override.as_ref().map(|limits| &limits.hard);
    let lists = [&record.spec.quota.hard, &extensions.guaranteed, &extensions.soft];
    lists.into_iter().chain(overridden)
}

/// Deletes a group. Its children become roots.
///
/// # Errors
/// `NotFound`; `Conflict` if the precondition does not hold.
pub fn delete_group(
    state: &State,
    name: &Name,
    precondition: Option<Precondition>,
) -> Result<Vec<Event>, Refusal> {
    let stored = state.group_record(name);
    let what = format!("group {name}");
    check_deletion(what, stored.map(|(_, entry)| entry), precondition)?;
    Ok(vec![Event::GroupDeleted { name: name.clone() }])
}
