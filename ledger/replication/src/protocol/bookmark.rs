//! When a member stores its position.

use quota_journal::Durable;

use crate::protocol::Position;

/// A position to be stored. It is stored only after the replica is synced up to it: a member that starts from a stored
/// position has everything before it.
#[derive(Debug, Default)]
pub struct Bookmark {
    waiting: Option<Position>,
}

impl Bookmark {
    /// Sets the position to be stored, instead of one that still waits.
    pub fn set(&mut self, position: &Position) {
        self.waiting = Some(position.clone());
    }

    /// The position to be stored now, if the replica is synced up to `synced`.
    pub fn due(&mut self, synced: &Durable) -> Option<Position> {
        let is_due = |position: &mut Position| position.end.sequence <= synced.sequence;
        self.waiting.take_if(is_due)
    }
}
