//! Quotas.

use quota_semantics::quota::Manifest;

use super::{Address, Call, Client, Error, Items, Method};
use crate::wire::Quota;

impl Client {
    /// A quota with its numbers.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    pub fn quota(&self, namespace: &str, name: &str) -> Result<Quota<'static>, Error> {
        self.get(&Address::in_namespace(namespace, ["quotas", name]))
    }

    /// The quotas of a namespace, or of all, by namespace and name. `selector` chooses by labels, as in
    /// `team=a,tier!=test`.
    #[must_use]
    pub fn quotas(
        &self,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Items<'_, Quota<'static>> {
        let address = match namespace {
            Some(namespace) => Address::in_namespace(namespace, ["quotas"]),
            None => Address::of(["v1", "quotas"]),
        };
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates a quota, or changes the one of its name. It is in force once this answers.
    ///
    /// It is safe to repeat unless the manifest has a resourceVersion: that is another one once it was set.
    ///
    /// # Errors
    /// [`Error::Refused`] if the manifest is not valid (`problem.errors` names each field), [`Error::Conflict`] if it has
    /// an old resourceVersion.
    pub fn set_quota(
        &self,
        namespace: &str,
        name: &str,
        manifest: &Manifest,
    ) -> Result<Quota<'static>, Error> {
        let address = Address::in_namespace(namespace, ["quotas", name]);
        let call = Call::new(Method::PUT, &address).json(manifest)?;
        let call = match manifest.metadata.resource_version.is_empty() {
            true => call.repeatable(),
            false => call,
        };
        self.send(&call)?.json()
    }

    /// Deletes a quota.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none; also if the answer to the same call was lost before.
    pub fn delete_quota(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let address = Address::in_namespace(namespace, ["quotas", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }
}
