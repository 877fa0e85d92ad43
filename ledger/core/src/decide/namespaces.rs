//! Sightings of namespaces themselves.

use std::sync::Arc;

use crate::{
    event::{Event, NamespaceRecord},
    state::State,
};
use quota_semantics::{Name, uid::Uid};

/// Observes a namespace. Returns nothing if the recorded version is newer, or if the version is unknown and the
/// namespace unchanged. A newer version without changes is recorded, so that a late earlier one does not count.
pub(super) fn observe(state: &State, seen: &Arc<NamespaceRecord>) -> Option<Event> {
    let recorded = state.observed_namespace(&seen.name);
    let recorded = recorded.map(|recorded| &recorded.record);
    let is_news = match recorded {
        None => true,
        Some(recorded) => match seen.version {
            0 => !recorded.is_equivalent(seen),
            version => version > recorded.version,
        },
    };
    // A namespace that was restored after its deletion is recorded again.
    let is_alive = recorded.is_some_and(|recorded| recorded.uid == seen.uid);
    let is_news = is_news && (is_alive || !state.is_deleted(&seen.name, &seen.uid));
    is_news.then(|| Event::NamespaceObserved(seen.clone()))
}

/// Ends a namespace that was deleted as of this version (0: unknown). Returns nothing if the recorded namespace has
/// another uid or a later version, or if the deletion is recorded already.
pub(super) fn end(state: &State, name: &Name, uid: Option<&Uid>, version: u64) -> Option<Event> {
    let recorded = state.observed_namespace(name).map(|recorded| &recorded.record);
    let uid = match (recorded, uid) {
        (None, None) => return None,
        (None, Some(uid)) if state.is_deleted(name, uid) => return None,
        (Some(recorded), Some(uid)) if recorded.uid != *uid => return None,
        (Some(recorded), None) if version != 0 && recorded.version > version => return None,
        (_, Some(uid)) => uid,
        (Some(recorded), None) => &recorded.uid,
    };
    Some(Event::NamespaceDeleted { name: name.clone(), uid: uid.clone(), relist: None })
}
