//! Groups: quotas over many namespaces.

use super::{Address, Call, Client, Error, Items, Method, When};
use crate::wire::{Group, GroupUsage};

impl Client {
    /// A group with its numbers and members.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        self.get(&Address::of(["v1", "groups", name]))
    }

    /// The groups, by name; their members are counted, not named. `selector` chooses by labels, as in `team=a,tier!=test`.
    #[must_use]
    pub fn groups(&self, selector: Option<&str>) -> Items<'_, Group> {
        let address = Address::of(["v1", "groups"]);
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates a group, or changes the one of its name; what [`group`](Self::group) gives can be sent back. Its status is
    /// not looked at.
    ///
    /// # Errors
    /// [`Error::Refused`] if it cannot stand (`problem.errors` names each field), [`Error::Conflict`] if it has an old
    /// resourceVersion.
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
    /// [`Error::NotFound`] if there is none; also if the answer to the same call was lost before.
    pub fn delete_group(&self, name: &str) -> Result<(), Error> {
        let address = Address::of(["v1", "groups", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }

    /// What counts in a group, and what each member takes.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none then.
    pub fn group_usage(&self, name: &str, when: When) -> Result<GroupUsage, Error> {
        self.get(&when.of(Address::of(["v1", "groups", name, "usage"])))
    }
}
