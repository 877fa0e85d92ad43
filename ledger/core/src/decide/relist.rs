//! Relists: a source lists all objects of a kind; recorded objects that are not listed are gone.
//!
//! Objects are ended only if the list is certain to be complete: its beginning was received, no message of its source
//! was lost or not understood since, and an empty list was announced as possible.

use super::{RELISTS_MAX, Sighting, adopted_group, correct};
use crate::{
    event::{
        Cause, Event, RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope, Sequence,
    },
    state::{Listable, RelistTarget, RelistView, State, TARGET_OF_GROUPS, target_of_namespace},
};
use quota_semantics::{Name, uid::Uid};

/// A statement of a source about a relist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relist {
    /// The source is going to list all objects of a kind.
    Begin {
        /// The kind, as in `pods` or `deployments.apps`.
        resource: Name,
        /// Their namespace; none: all.
        namespace: Option<Name>,
        /// The identifier that the end will repeat.
        id: Option<Name>,
        /// Whether an empty list is allowed.
        allow_empty: bool,
        /// Whether versions went back: listed objects replace recorded ones.
        resets_versions: bool,
    },
    /// The source has listed all objects.
    Finish(Finish),
}

/// The statement of a source that a relist has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The kind that was listed, as in `pods`.
    pub resource: Name,
    /// The namespace that was listed; none: all.
    pub namespace: Option<Name>,
    /// The identifier given at the beginning.
    pub id: Option<Name>,
    /// Whether an empty list is allowed.
    pub allow_empty: bool,
    /// The version of the list; 0: unknown.
    pub version: u64,
    /// Whether this is a Kubernetes bookmark, which names no scope: it refers to the only open relist of its kind.
    pub is_bookmark: bool,
}

/// Begins a relist, and replaces an unfinished one of the same scope. Returns nothing if too many are open.
/// `resets_versions`: listed objects replace recorded ones, also in the next relist if this one does not complete. They
/// do so, too, if all objects of the kind are to be listed anew: a source may list by namespace.
#[must_use]
pub fn begin_relist(state: &State, begin: RelistBegin, resets_versions: bool) -> Vec<Event> {
    let scope = begin.scope.clone();
    let resets = state.version_resets();
    let all = RelistScope { namespace: None, ..scope.clone() };
    let is_news = (resets_versions || resets.contains(&all)) && !resets.contains(&scope);
    let has_room = state.relist_count() < RELISTS_MAX || state.relist(&scope).is_some();
    if !has_room || is_news && resets.len() >= RELISTS_MAX {
        return Vec::new();
    }
    let began = Event::RelistBegan(Box::new(begin));
    let reset = is_news.then(|| Event::VersionsReset(Box::new(scope)));
    [began].into_iter().chain(reset).collect()
}

/// The object of a sighting that changes nothing, if a relist of its source has to record that it is listed.
#[must_use]
pub fn listed<'a>(state: &State, source: &Name, sighting: &'a Sighting) -> Option<&'a Uid> {
    if state.relist_count() == 0 {
        return None;
    }
    let (uid, _, recorded) = alive(state, sighting)?;
    state.awaits(source, recorded?).then_some(uid)
}

/// Whether an open relist of this source replaces the record of the object of a sighting, and has not reported the
/// object yet.
pub(super) fn is_to_be_replaced(state: &State, source: &Name, sighting: &Sighting) -> bool {
    if state.version_resets().is_empty() {
        return false;
    }
    let alive = alive(state, sighting);
    alive.is_some_and(|(_, target, recorded)| state.is_to_be_replaced(source, target, recorded))
}

/// The object that a sighting reports as alive, its resource and namespace as reported, and its record.
fn alive<'s, 'a>(
    state: &'s State,
    sighting: &'a Sighting,
) -> Option<(&'a Uid, RelistTarget<'a>, Option<Listable<'s>>)> {
    match sighting {
        Sighting::Alive { object, .. } => {
            let kind = (object.resource.as_str(), Some(object.namespace.as_str()));
            let recorded = state.listable_object(&object.namespace, &object.uid);
            Some((&object.uid, kind, recorded))
        }
        Sighting::Namespace(record) => {
            let recorded = state.listable_namespace(&record.name);
            Some((&record.uid, target_of_namespace(&record.name), recorded))
        }
        Sighting::Group { record, .. } => {
            let recorded = state.listable_group(&record.name);
            Some((&record.uid, TARGET_OF_GROUPS, recorded))
        }
        Sighting::Deleted { .. }
        | Sighting::NamespaceEnded { .. }
        | Sighting::GroupEnded { .. } => None,
    }
}

/// Closes a relist, or ends it without consequence if the list is not certain to be complete. Returns nothing if no
/// such relist is open.
#[must_use]
pub fn close_relist(state: &State, source: &Name, finish: &Finish) -> Vec<Event> {
    let Some(relist) = open_relist(state, source, finish) else {
        return Vec::new();
    };
    if went_back(state, &relist, finish) {
        let outcome = relist_ended(&relist, RelistOutcome::Incomplete);
        return vec![outcome, Event::VersionsReset(Box::new(relist.scope))];
    }
    let outcome = match () {
        () if relist.is_spoiled => Some(RelistOutcome::Incomplete),
        () if !(relist.has_any || relist.allow_empty || finish.allow_empty) => {
            Some(RelistOutcome::Empty)
        }
        () => None,
    };
    if let Some(outcome) = outcome {
        return vec![relist_ended(&relist, outcome)];
    }
    let RelistScope { resource, namespace, source } = relist.scope.clone();
    // A kind that was listed in some namespaces only may not be complete.
    let listed = namespace.is_none().then_some(Event::ResourceListed { source, resource });
    let closed =
        Event::RelistClosed(Box::new(RelistClose { scope: relist.scope, version: finish.version }));
    [closed].into_iter().chain(listed).collect()
}

/// A list that is older than what its source has reported of the kind is of a cluster that was restored. It has to be
/// listed again: what this list held of earlier versions was taken for old.
///
/// A loss of events makes the ledger forget what was reported. For sources that report versions, the objects recorded
/// before the list then show the same. That looks at all objects, but only until the kind is reported again.
fn went_back(state: &State, relist: &RelistView, finish: &Finish) -> bool {
    if finish.version == 0 || relist.resets_versions || state.version_resets().len() >= RELISTS_MAX
    {
        return false;
    }
    let scope = &relist.scope;
    match state.version_reported(&scope.source, &scope.resource) {
        0 => {
            let reports_versions = !state.cluster_uid(&scope.source).is_empty();
            reports_versions && state.has_later_objects(scope, relist.began, finish.version)
        }
        reported => finish.version < reported,
    }
}

fn open_relist(state: &State, source: &Name, finish: &Finish) -> Option<RelistView> {
    let matches = |relist: &RelistView| {
        let scope = &relist.scope;
        let is_there =
            scope.namespace == finish.namespace || finish.is_bookmark && finish.namespace.is_none();
        scope.source == *source
            && scope.resource == finish.resource
            && relist.id == finish.id
            && !relist.is_closed
            && is_there
    };
    let mut open = state.relists().filter(matches);
    let only = open.next()?;
    open.next().is_none().then_some(only)
}

pub(super) fn relist_ended(relist: &RelistView, outcome: RelistOutcome) -> Event {
    Event::RelistEnded(Box::new(RelistEnd {
        scope: relist.scope.clone(),
        began: relist.began,
        outcome,
        listed: relist.listed,
        ended: relist.ended,
    }))
}

/// Ends those of these objects that a closed relist has not listed. Returns nothing if another relist has replaced it.
#[must_use]
pub fn end_unlisted(
    state: &State,
    scope: &RelistScope,
    began: Sequence,
    objects: &[(Name, Uid)],
) -> Vec<Event> {
    if state.relist(scope).is_none_or(|relist| relist.began != began) {
        return Vec::new();
    }
    let gone = objects.iter().flat_map(|key| state.find_unlisted(scope, key));
    gone.flat_map(|item| match item {
        Listable::Object(place) => {
            correct::end(state, state.object_view(place), Cause::Relist { began })
        }
        Listable::Namespace(observed) => vec![Event::NamespaceDeleted {
            name: observed.record.name.clone(),
            uid: observed.record.uid.clone(),
            relist: Some(began),
        }],
        Listable::Group(_, record) => adopted_group::unlisted(record, began),
    })
    .collect()
}

/// Ends a closed relist, after all objects that it has not listed have been ended.
#[must_use]
pub fn end_relist(state: &State, scope: &RelistScope, began: Sequence) -> Option<Event> {
    let relist = state.relist(scope)?;
    (relist.began == began && relist.is_closed)
        .then(|| relist_ended(&relist, RelistOutcome::Complete))
}
