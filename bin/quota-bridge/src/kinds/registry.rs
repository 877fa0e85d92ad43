//! The receivers of relist requests, and the unserved kinds that need no relist.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use quota_semantics::object::GroupResource;
use tokio::sync::mpsc;

use crate::{kind::Relist, line::Scope};

/// The receivers of relist requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    watched: BTreeMap<Scope, mpsc::UnboundedSender<Relist>>,
    /// Unserved kinds whose objects this bridge has ended, or will not end, since the last request for a relist.
    settled: BTreeSet<GroupResource>,
}

impl Registry {
    /// Requests a relist of these kinds, or of all if none is given. Objects of removed kinds are ended once more,
    /// since messages may have been lost.
    pub fn relist(&self, kinds: &BTreeSet<String>) {
        self.request(Relist::Again, |kind| kinds.is_empty() || kinds.contains(&kind.to_string()));
    }

    /// Requests a relist of all kinds, since messages are gone from the stream.
    pub(crate) fn lost(&self) {
        self.request(Relist::Lost, |_| true);
    }

    fn request(&self, relist: Relist, is_meant: impl Fn(&GroupResource) -> bool) {
        let mut registered = self.0.lock();
        for (scope, relists) in &registered.watched {
            if is_meant(&scope.resource) {
                let _ = relists.send(relist);
            }
        }
        registered.settled.retain(|kind| !is_meant(kind));
    }

    pub(super) fn add(&self, scope: Scope, relists: mpsc::UnboundedSender<Relist>) {
        self.0.lock().watched.insert(scope, relists);
    }

    pub(super) fn remove(&self, kind: &GroupResource) {
        let watched = &mut self.0.lock().watched;
        watched.retain(|scope, _| scope.resource != *kind);
    }

    pub(super) fn settle(&self, kind: &GroupResource) {
        self.0.lock().settled.insert(kind.clone());
    }

    /// Removes the settled kinds that are no longer needed.
    pub(super) fn keep_settled(&self, needed: &BTreeSet<GroupResource>) {
        self.0.lock().settled.retain(|kind| needed.contains(kind));
    }

    pub(super) fn is_settled(&self, kind: &GroupResource) -> bool {
        self.0.lock().settled.contains(kind)
    }
}
