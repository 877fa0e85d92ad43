//! What sources report about namespaces themselves.

use std::sync::Arc;

use crate::{
    event::{Event, NamespaceRecord},
    state::State,
};
use quota_semantics::{Name, uid::Uid};

/// A namespace was seen. Nothing, if it says the same as before, or if what is known is newer.
pub(super) fn observe(state: &State, seen: &Arc<NamespaceRecord>) -> Option<Event> {
    let is_news = match state.observed_namespace(&seen.name) {
        None => !state.is_deleted(&seen.name, &seen.uid),
        Some(known) => {
            let is_newer = seen.version == 0 || seen.version > known.record.version;
            is_newer
                && !known.record.says_the_same(seen)
                && !state.is_deleted(&seen.name, &seen.uid)
        }
    };
    is_news.then(|| Event::NamespaceObserved(seen.clone()))
}

/// A namespace was deleted, as of this version (0: unknown). Nothing, if it is identified by another uid or in a later
/// version, or if its end is known.
pub(super) fn end(state: &State, name: &Name, uid: Option<&Uid>, version: u64) -> Option<Event> {
    let known = state.observed_namespace(name).map(|known| &known.record);
    let uid = match (known, uid) {
        (None, None) => return None,
        (None, Some(uid)) if state.is_deleted(name, uid) => return None,
        (Some(known), Some(uid)) if known.uid != *uid => return None,
        (Some(known), None) if version != 0 && known.version > version => return None,
        (_, Some(uid)) => uid,
        (Some(known), None) => &known.uid,
    };
    Some(Event::NamespaceDeleted {
        name: name.clone(),
        uid: uid.clone(),
        relist: None,
    })
}
