//! Usage, its history, and the objects and reservations behind it.

use quota_semantics::{Period, Timestamp};

use super::{Address, Client, Error, Items};
use crate::wire::{Explanation, NamespaceUsage, Report, Usage, UsageHistory};

/// The point in time of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// The present.
    #[default]
    Now,
    /// After the last entry that is not later than this time.
    At(Timestamp),
    /// After the entry with this sequence.
    Sequence(u64),
}

impl When {
    /// The address with the query parameters for this point in time.
    pub(super) fn of(self, address: Address) -> Address {
        match self {
            Self::Now => address,
            Self::At(time) => address.with("at", time),
            Self::Sequence(sequence) => address.with("sequence", sequence),
        }
    }
}

impl Client {
    /// The usage of a namespace, and the remaining amount of each of its limits.
    ///
    /// # Errors
    /// [`Error::Refused`] if the entries of that time are no longer retained.
    pub fn usage(&self, namespace: &str, when: When) -> Result<Usage, Error> {
        self.get(&when.of(Address::in_namespace(namespace, ["usage"])))
    }

    /// The usage between two times, in parts of the length `step`. Default of `to`: now; of `step`: a hundredth of the
    /// span.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn usage_history(
        &self,
        namespace: &str,
        from: Timestamp,
        to: Option<Timestamp>,
        step: Option<Period>,
    ) -> Result<UsageHistory, Error> {
        let address = Address::in_namespace(namespace, ["usage", "history"]);
        let address = address.with("from", from).with_some("to", to);
        self.get(&address.with_some("step", step))
    }

    /// What was consumed between two times. `by` is `namespace`, `group`, `label:KEY`, `kind` or `workload`; default of
    /// `to`: now.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn report(
        &self,
        from: Timestamp,
        to: Option<Timestamp>,
        by: &str,
    ) -> Result<Report, Error> {
        let address = Address::of(["v1", "report"]).with("from", from);
        self.get(&address.with_some("to", to).with("by", by))
    }

    /// The namespaces whose names contain `search`, the fullest first.
    #[must_use]
    pub fn namespaces(&self, search: Option<&str>, when: When) -> Items<'_, NamespaceUsage> {
        let address = Address::of(["v1", "usage"]).with_some("search", search);
        self.items(when.of(address))
    }

    /// The objects and reservations behind a number: of a quota, of a group that counts the namespace, or of the
    /// namespace as a whole. The largest ones, as many as a page holds.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no such quota or group exists, or it does not limit the resource.
    pub fn explain(
        &self,
        namespace: &str,
        resource: &str,
        quota: Option<&str>,
        when: When,
    ) -> Result<Explanation, Error> {
        let address = Address::in_namespace(namespace, ["explain"]).with("resource", resource);
        self.get(&when.of(address.with_some("quota", quota)))
    }
}
