//! Kinds of objects. There are few of them, so the properties of each are derived once.

use quota_semantics::{
    Name, Timestamp,
    object::{Footprint, GroupResource, NoContext, Object, is_ignored},
};

use super::{Fault, check};

/// A kind and its derived properties.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) resource: GroupResource,
    /// The name in its usual form: `deployments.apps`.
    pub(super) name: Name,
    /// Whether objects of this kind do not matter to quotas.
    pub(super) is_ignored: bool,
    /// The footprint that every object of this kind has.
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
