//! Kinds of objects: few, and what follows from one is found out once.

use quota_semantics::{
    Name, Timestamp,
    object::{Footprint, GroupResource, NoContext, Object, is_ignored},
};

use super::{Fault, check};

/// A kind, and what follows from it.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) resource: GroupResource,
    /// As it is written: `deployments.apps`.
    pub(super) name: Name,
    /// Whether its objects are of no concern to quotas.
    pub(super) is_ignored: bool,
    /// What each object counts for, if nothing is known of it but its kind.
    pub(super) counted: Footprint,
}

impl Kind {
    pub(super) fn new(resource: GroupResource) -> Result<Self, Fault> {
        let name = resource.to_string();
        let is_ignored = is_ignored(&resource);
        check::resource(&name)?;
        let counted = Object::Other(Box::default());
        Ok(Self {
            name: Name::from(name),
            is_ignored,
            counted: counted.footprint(&resource, Timestamp::EPOCH, &NoContext),
            resource,
        })
    }
}
