//! When a pod stops counting: it ended, or its deletion is overdue.

use super::Pod;
use crate::{Span, Timestamp};

impl Pod {
    /// Whether only its existence (`count/pods`) counts at `now`.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.is_terminal() || self.overdue_after().is_some_and(|limit| now > limit)
    }

    /// The time after which, strictly, only its existence counts, since its node is unlikely to come back: the deletion
    /// time plus the grace period once more. `None` for a pod that is not being deleted, and for one that has ended.
    pub fn lapse(&self) -> Option<Timestamp> {
        if self.is_terminal() { None } else { self.overdue_after() }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    fn overdue_after(&self) -> Option<Timestamp> {
        let metadata = &self.metadata;
        let grace = Span::from_seconds(metadata.deletion_grace_period_seconds?);
        Some(metadata.deletion_timestamp?.plus(grace))
    }
}
