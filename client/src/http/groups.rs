//! Groups: quotas over many namespaces.

use super::{Address, Call, Client, Error, Items, Method, When};
use crate::wire::{Group, GroupUsage, GroupUsageHistory};
use quota_semantics::{Period, Timestamp};

impl Client {
    /// A group with its usage and members.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist.
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        self.get(&Address::of(["v1", "groups", name]))
    }

    /// The groups, sorted by name, without the names of their members. `selector` is a label selector, as in
    /// `team=a,tier!=test`.
    #[must_use]
    pub fn groups(&self, selector: Option<&str>) -> Items<'_, Group> {
        let address = Address::of(["v1", "groups"]);
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates or updates a group. A result of [`group`](Self::group) can be changed and sent back; its status is
    /// ignored.
    ///
    /// # Errors
    /// [`Error::Refused`] if the group is not valid (`problem.errors` names each field), [`Error::Conflict`] if its
    /// resourceVersion is outdated.
    pub fn set_group(&self, group: &Group) -> Result<Group, Error> {
        let address = Address::of(["v1", "groups", &group.name]);
        let call = Call::new(Method::PUT, &address).json(group)?;
        let call = match group.resource_version.is_empty() {
            true => call.repeatable(),
            false => call,
        };
        self.send(&call)?.json()
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist; also if the response to an earlier attempt was lost.
    pub fn delete_group(&self, name: &str) -> Result<(), Error> {
        let address = Address::of(["v1", "groups", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }

    /// The usage of a group, and of each of its members.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist at that time.
    pub fn group_usage(&self, name: &str, when: When) -> Result<GroupUsage, Error> {
        self.get(&when.of(Address::of(["v1", "groups", name, "usage"])))
    }

    /// The usage of a group between two times, with the members of each moment: as
    /// [`usage_history`](Self::usage_history).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group exists neither now nor in this period.
    pub fn group_usage_history(
        &self,
        name: &str,
        from: Timestamp,
        to: Option<Timestamp>,
        step: Option<Period>,
    ) -> Result<GroupUsageHistory, Error> {
        let address = Address::of(["v1", "groups", name, "usage", "history"]);
        let address = address.with("from", from).with_some("to", to);
        self.get(&address.with_some("step", step))
    }
}
