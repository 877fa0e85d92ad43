//! Whose a reservation is.

use super::Refusal;
use quota_semantics::{Name, uid::Uid};

/// Who asks for something, and whether what is another's is theirs to change, too.
#[derive(Clone, Debug)]
pub struct By {
    /// The principal: what it reserves belongs to it.
    pub principal: Name,
    /// Whether it has the role `admin` where it asks.
    pub is_admin: bool,
    /// Whether all callers are one principal, since they are not distinguished: then it has no share of its own.
    pub is_anybody: bool,
}

impl By {
    /// Somebody who may change only what is their own.
    #[must_use]
    pub fn holder(principal: impl Into<Name>) -> Self {
        Self {
            principal: principal.into(),
            is_admin: false,
            is_anybody: false,
        }
    }

    /// Whether it made what belongs to this principal. What belongs to nobody that is known, nobody made.
    #[must_use]
    pub fn made(&self, owner: &str) -> bool {
        !owner.is_empty() && *self.principal == *owner
    }

    /// Whether it may change what belongs to this principal.
    #[must_use]
    pub fn may_change(&self, owner: &str) -> bool {
        self.is_admin || self.made(owner)
    }

    pub(super) fn must_own(&self, owner: &str, uid: &Uid) -> Result<(), Refusal> {
        match self.may_change(owner) {
            true => Ok(()),
            false => Err(Refusal::NotOwner(uid.clone())),
        }
    }
}
