//! Status, entries, denials, objects, events and relists.

use super::{Address, Call, Client, Error, Items, Method};
use crate::wire::{
    Cluster, Denial, Entry, EventsAnswer, Object, RelistAnswer, RelistRequest, Status,
};

impl Client {
    /// The status of the daemon, and the caller's identity.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn status(&self) -> Result<Status, Error> {
        self.get(&Address::of(["v1", "status"]))
    }

    /// The cluster, as the called node sees it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the daemon is not in a cluster.
    pub fn cluster(&self) -> Result<Cluster, Error> {
        self.get(&Address::of(["v1", "cluster"]))
    }

    /// The entries of a namespace, or of all, in order, from the sequence `from` on (none: from the oldest retained
    /// one).
    #[must_use]
    pub fn entries(&self, namespace: Option<&str>, from: Option<u64>) -> Items<'_, Entry> {
        let address = Address::of(["v1", "entries"]).with_some("from", from);
        self.items(address.with_some("namespace", namespace))
    }

    /// The latest denials of a namespace, or of all, newest first.
    #[must_use]
    pub fn denials(&self, namespace: Option<&str>) -> Items<'_, Denial> {
        self.items(Address::list(namespace, "denials"))
    }

    /// The counted objects of a namespace, or of all; only those of `resource`, as in `deployments.apps`, if it is
    /// given.
    #[must_use]
    pub fn objects(
        &self,
        namespace: Option<&str>,
        resource: Option<&str>,
    ) -> Items<'_, Object<'static>> {
        self.items(Address::list(namespace, "objects").with_some("resource", resource))
    }

    /// Sends events, one JSON object per line. Accepted events are durable. Sending the same events again is safe.
    ///
    /// # Errors
    /// As [`send`](Self::send). Events that cannot be parsed are no error, but `rejected` in the response.
    pub fn send_events(&self, lines: Vec<u8>) -> Result<EventsAnswer, Error> {
        let address = Address::of(["v1", "events"]);
        let call = Call::new(Method::POST, &address).body("application/x-ndjson", lines);
        self.send(&call.repeatable())?.json()
    }

    /// Requests that publishers relist these resources, or all if none is given.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the daemon reads no stream.
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
