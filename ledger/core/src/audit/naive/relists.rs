//! The naive fold of relists: for each relist, the uids that it has listed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Key, objects::Objects};
use crate::{
    event::{
        Cause, Entry, Event, GroupRecord, NamespaceRecord, RelistOutcome, RelistScope, Sequence,
    },
    state::State,
};
use quota_semantics::{Name, uid::Uid};

const NAMESPACES: &str = "namespaces";
const GROUPS: &str = "clusterresourcequotas.quota.openshift.io";

/// The relists that are not over, and the scopes whose versions went back.
#[derive(Clone, Debug, Default)]
pub(super) struct Relists(BTreeMap<RelistScope, Relist>, BTreeSet<RelistScope>);

#[derive(Clone, Debug, Default)]
struct Relist {
    began: Sequence,
    is_spoiled: bool,
    is_closed: bool,
    has_any: bool,
    ended: u64,
    listed: BTreeSet<Key>,
    namespaces: BTreeSet<Key>,
    groups: BTreeSet<Name>,
}

impl Relist {
    fn count(&self) -> u64 {
        (self.listed.len() + self.namespaces.len() + self.groups.len()) as u64
    }
}

impl Relists {
    pub(super) fn beginning_with(state: &State) -> Self {
        let relist = |view: crate::state::RelistView| {
            let relist = Relist {
                began: view.began,
                is_spoiled: view.is_spoiled,
                is_closed: view.is_closed,
                has_any: view.has_any,
                ended: view.ended,
                listed: state.listed_objects(&view.scope),
                namespaces: state.listed_namespaces(&view.scope),
                groups: state.listed_groups(&view.scope),
            };
            (view.scope, relist)
        };
        let resets = state.version_resets().clone();
        Self(state.relists().map(relist).collect(), resets)
    }

    /// Applies an entry. `objects` are the objects after it.
    pub(super) fn apply(
        &mut self,
        entry: &Entry,
        objects: &Objects,
        namespaces: &BTreeMap<Name, Arc<NamespaceRecord>>,
        groups: &BTreeMap<Name, Arc<GroupRecord>>,
    ) {
        let source = &entry.actor.principal;
        match &entry.event {
            Event::RelistBegan(begin) => {
                let relist = Relist { began: entry.sequence, ..Relist::default() };
                self.0.insert(begin.scope.clone(), relist);
            }
            Event::RelistClosed(close) => {
                if let Some(relist) = self.0.get_mut(&close.scope) {
                    relist.is_closed = true;
                }
            }
            Event::RelistEnded(end) => {
                self.0.remove(&end.scope);
                if end.outcome == RelistOutcome::Complete {
                    self.1.remove(&end.scope);
                }
            }
            Event::VersionsReset(scope) => {
                self.1.insert((**scope).clone());
            }
            Event::WorkloadsCharged { .. } => self.0.clear(),
            Event::EventRejected { resource, .. } => self.spoil(source, Some(resource)),
            Event::SourceReset { .. } | Event::SourceGapped { .. } | Event::MessageRejected(_) => {
                self.spoil(source, None);
            }
            Event::ObjectsListed { source, uids } => {
                for key in uids.iter().flat_map(|uid| objects.with_uid(uid)) {
                    self.see(&key, Some(source), objects);
                }
                let uids: BTreeSet<&Uid> = uids.iter().collect();
                if self.lists(NAMESPACES) {
                    let all = namespaces.values().filter(|it| uids.contains(&it.uid));
                    all.for_each(|namespace| self.see_namespace(namespace, Some(source)));
                }
                if self.lists(GROUPS) {
                    let all = groups.values().filter(|it| uids.contains(&it.uid));
                    all.for_each(|group| self.see_group(group, Some(source)));
                }
            }
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                self.see_alive(&object.namespace, &object.uid, objects);
            }
            Event::ObjectCorrected(correction) => {
                let object = &correction.object;
                self.see_alive(&object.namespace, &object.uid, objects);
            }
            Event::ObjectRefreshed { uid, namespace, .. } => {
                self.see_alive(namespace, uid, objects);
            }
            Event::ObjectEnded(ending) => {
                self.forget(&ending.namespace, &ending.uid);
                for relist in self.0.values_mut() {
                    let began = relist.began;
                    relist.ended += u64::from(ending.cause == Cause::Relist { began });
                }
            }
            Event::ObjectDeleted { uid, namespace } => self.forget(namespace, uid),
            Event::NamespaceObserved(record) => {
                for relist in self.0.values_mut() {
                    relist.namespaces.retain(|(name, _)| *name != record.name);
                }
                self.see_namespace(record, None);
            }
            Event::NamespaceDeleted { name, uid, relist } => {
                for open in self.0.values_mut() {
                    open.namespaces.remove(&(name.clone(), uid.clone()));
                    open.ended += u64::from(*relist == Some(open.began));
                }
            }
            Event::GroupSet(record) => {
                self.forget_group(&record.name);
                self.see_group(record, None);
            }
            Event::GroupDeleted { name } => self.forget_group(name),
            _ => {}
        }
    }

    /// Whether a relist of this kind is not over.
    fn lists(&self, resource: &str) -> bool {
        self.0.keys().any(|scope| scope.resource == *resource)
    }

    fn forget_group(&mut self, name: &Name) {
        for relist in self.0.values_mut() {
            relist.groups.remove(name);
        }
    }

    /// Marks a group that was set, or that a source listed. A group that no source has reported is in no relist.
    fn see_group(&mut self, group: &GroupRecord, source: Option<&Name>) {
        for (scope, relist) in &mut self.0 {
            let is_its = source.is_none_or(|source| scope.source == *source);
            let is_of_groups = scope.resource == *GROUPS;
            let is_adopted = group.metadata.contains("\"adoptedVersion\"");
            if is_of_groups && scope.namespace.is_none() && is_its && is_adopted {
                relist.has_any = true;
                relist.groups.insert(group.name.clone());
            }
        }
    }

    fn spoil(&mut self, source: &Name, resource: Option<&Name>) {
        for (scope, relist) in &mut self.0 {
            let is_of_kind = resource.is_none_or(|only| scope.resource == *only);
            if scope.source == *source && is_of_kind && !relist.is_closed {
                relist.is_spoiled = true;
            }
        }
    }

    fn forget(&mut self, namespace: &Name, uid: &Uid) {
        let key = (namespace.clone(), uid.clone());
        for relist in self.0.values_mut() {
            relist.listed.remove(&key);
        }
    }

    fn see_alive(&mut self, namespace: &Name, uid: &Uid, objects: &Objects) {
        let key = (namespace.clone(), uid.clone());
        self.see(&key, None, objects);
    }

    /// Marks an object that was observed, or that a source listed.
    fn see(&mut self, key: &Key, source: Option<&Name>, objects: &Objects) {
        let Some(object) = objects.get(key) else {
            return;
        };
        for (scope, relist) in &mut self.0 {
            let is_its = source.is_none_or(|source| scope.source == *source);
            let is_here = scope.namespace.as_ref().is_none_or(|n| *n == object.namespace);
            if scope.resource == object.resource && is_here && is_its {
                relist.has_any = true;
                relist.listed.insert(key.clone());
            } else if source.is_none() {
                relist.listed.remove(key);
            }
        }
    }

    /// Marks a namespace that was observed, or that a source listed: a listed namespace exists, whichever source lists
    /// it.
    fn see_namespace(&mut self, seen: &NamespaceRecord, source: Option<&Name>) {
        for (scope, relist) in &mut self.0 {
            let is_here = scope.namespace.as_ref().is_none_or(|only| *only == seen.name);
            if scope.resource == *NAMESPACES && is_here {
                relist.has_any |= source.is_none_or(|source| scope.source == *source);
                relist.namespaces.insert((seen.name.clone(), seen.uid.clone()));
            }
        }
    }

    /// Lists the relists in which a state differs from the naive fold.
    pub(super) fn differences(&self, state: &State) -> Vec<String> {
        let kept = state.relists().count();
        let mut found = Vec::new();
        if kept != self.0.len() {
            found.push(format!("{kept} relists, not {}", self.0.len()));
        }
        if *state.version_resets() != self.1 {
            found.push("where versions went back".to_owned());
        }
        for (scope, relist) in &self.0 {
            let same = state.relist(scope).is_some_and(|view| {
                view.began == relist.began
                    && view.is_spoiled == relist.is_spoiled
                    && view.is_closed == relist.is_closed
                    && view.has_any == relist.has_any
                    && view.ended == relist.ended
                    && state.listed_objects(scope) == relist.listed
                    && state.listed_namespaces(scope) == relist.namespaces
                    && state.listed_groups(scope) == relist.groups
                    && view.listed == relist.count()
            });
            if !same {
                found.push(format!("the relist of {} by {}", scope.resource, scope.source));
            }
        }
        found
    }
}
