//! Usage, and what makes it.

use quota_semantics::{Period, Timestamp};

use super::{Address, Client, Error, Items};
use crate::wire::{Explanation, NamespaceUsage, Usage, UsageHistory};

/// The moment that a question is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// As it is.
    #[default]
    Now,
    /// As it was at a time.
    At(Timestamp),
    /// As it was at an entry.
    Sequence(u64),
}

impl When {
    /// The address of the same question about this moment.
    pub(super) fn of(self, address: Address) -> Address {
        match self {
            Self::Now => address,
            Self::At(time) => address.with("at", time),
            Self::Sequence(sequence) => address.with("sequence", sequence),
        }
    }
}

impl Client {
    /// What a namespace uses, and what each of its limits leaves.
    ///
    /// # Errors
    /// [`Error::Refused`] if the entries of that time are not kept any more.
    pub fn usage(&self, namespace: &str, when: When) -> Result<Usage, Error> {
        self.get(&when.of(Address::in_namespace(namespace, ["usage"])))
    }

    /// Usage from one time to another (none: now), at points so far apart (none: a hundredth of the whole).
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

    /// The namespaces whose names hold a text, the fullest first.
    #[must_use]
    pub fn namespaces(&self, search: Option<&str>, when: When) -> Items<'_, NamespaceUsage> {
        let address = Address::of(["v1", "usage"]).with_some("search", search);
        self.items(when.of(address))
    }

    /// What makes a number: of a quota, of a group that counts the namespace, or of all that counts in the namespace. The
    /// largest parts, at most so many as the daemon puts on a page.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is neither such a quota nor such a group, or it does not limit this.
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
