//! The ownership of reservations.

use super::Refusal;
use quota_semantics::{Name, uid::Uid};

/// The requester, and whether it may change the reservations of others.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The principal. The reservations that it makes belong to it.
    pub principal: Name,
    /// Whether the principal has the role `admin` for the request.
    pub is_admin: bool,
    /// Whether callers are not distinguished, so that all are one principal. That principal has no limit of its own.
    pub is_anybody: bool,
}

impl Requester {
    /// A requester that may change only its own reservations.
    #[must_use]
    pub fn holder(principal: impl Into<Name>) -> Self {
        Self { principal: principal.into(), is_admin: false, is_anybody: false }
    }

    /// Whether the requester made the reservations of this principal.
    #[must_use]
    pub fn made(&self, owner: &str) -> bool {
        *self.principal == *owner
    }

    /// Whether the requester may change the reservations of this principal.
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
