//! The ledger: what happened, what was denied, the objects behind the numbers, and events for it.

use super::{Address, Call, Client, Error, Items, Method};
use crate::wire::{
    Cluster, Denial, Entry, EventsAnswer, Object, RelistAnswer, RelistRequest, Status,
};

impl Client {
    /// How the daemon is, and whom it takes the caller for.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn status(&self) -> Result<Status, Error> {
        self.get(&Address::of(["v1", "status"]))
    }

    /// The cluster as the node sees it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the daemon is in none.
    pub fn cluster(&self) -> Result<Cluster, Error> {
        self.get(&Address::of(["v1", "cluster"]))
    }

    /// The entries of a namespace, or of all, in order, from a sequence on (none: from the first that is kept).
    #[must_use]
    pub fn entries(&self, namespace: Option<&str>, from: Option<u64>) -> Items<'_, Entry> {
        let address = Address::of(["v1", "entries"]).with_some("from", from);
        self.items(address.with_some("namespace", namespace))
    }

    /// The latest denials in a namespace, or in all, the latest first.
    #[must_use]
    pub fn denials(&self, namespace: Option<&str>) -> Items<'_, Denial> {
        self.items(of_namespace(namespace, "denials"))
    }

    /// The objects behind the numbers of a namespace, or of all; only those of a resource, as in `deployments.apps`.
    #[must_use]
    pub fn objects(
        &self,
        namespace: Option<&str>,
        resource: Option<&str>,
    ) -> Items<'_, Object<'static>> {
        self.items(of_namespace(namespace, "objects").with_some("resource", resource))
    }

    /// Sends events: one JSON object per line. What was accepted is durable. To send the same again is safe.
    ///
    /// # Errors
    /// If the daemon takes none of them. What cannot be understood is named in the answer.
    pub fn send_events(&self, lines: Vec<u8>) -> Result<EventsAnswer, Error> {
        let address = Address::of(["v1", "events"]);
        let call = Call::new(Method::POST, &address).body("application/x-ndjson", lines);
        self.send(&call.repeatable())?.json()
    }

    /// Has publishers list these resources again, or all if none is named.
    ///
    /// # Errors
    /// [`Error::NotFound`] without a stream.
    pub fn relist(&self, resources: &[String]) -> Result<RelistAnswer, Error> {
        let address = Address::of(["v1", "relist"]);
        let mut call = Call::new(Method::POST, &address);
        if !resources.is_empty() {
            call = call.json(&RelistRequest {
                resources: resources.to_vec(),
            })?;
        }
        self.send(&call.repeatable())?.json()
    }
}

fn of_namespace(namespace: Option<&str>, what: &str) -> Address {
    match namespace {
        Some(namespace) => Address::in_namespace(namespace, [what]),
        None => Address::of(["v1", what]),
    }
}
