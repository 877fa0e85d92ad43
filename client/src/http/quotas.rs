//! Quotas.

use quota_semantics::quota::Manifest;

use super::{Address, Call, Client, Error, Items, Method};
use crate::wire::Quota;

impl Client {
    /// A quota with its usage.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the quota does not exist.
    pub fn quota(&self, namespace: &str, name: &str) -> Result<Quota<'static>, Error> {
        self.get(&Address::in_namespace(namespace, ["quotas", name]))
    }

    /// The quotas of a namespace, or of all, sorted by namespace and name. `selector` is a label selector, as in
    /// `team=a,tier!=test`.
    #[must_use]
    pub fn quotas(
        &self,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Items<'_, Quota<'static>> {
        let address = Address::list(namespace, "quotas");
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates or updates a quota. The quota is in force once the call returns.
    ///
    /// The call is idempotent unless the manifest has a resourceVersion, which changes with each update.
    ///
    /// # Errors
    /// [`Error::Refused`] if the manifest is not valid (`problem.errors` names each field), [`Error::Conflict`] if its
    /// resourceVersion is outdated.
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
    /// [`Error::NotFound`] if the quota does not exist; also if the response to an earlier attempt was lost.
    pub fn delete_quota(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let address = Address::in_namespace(namespace, ["quotas", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }
}
