//! When the position of a member is written down.

use planted::Bug;
use quota_journal::Durable;

use crate::Position;

/// A position that is to be written down. Not before the replica is synced up to it: whoever starts from a position that was
/// written down has all that is before it.
#[derive(Debug, Default)]
pub struct Bookmark {
    waiting: Option<Position>,
}

impl Bookmark {
    /// This position is to be written down, instead of one that waits still.
    pub fn set(&mut self, position: &Position) {
        self.waiting = Some(position.clone());
    }

    /// The position to be written down now, when the replica is synced up to `synced`.
    pub fn due(&mut self, synced: &Durable) -> Option<Position> {
        let is_due = |position: &mut Position| {
            position.end.sequence <= synced.sequence || planted::is(Bug::PositionBeforeSync)
        };
        self.waiting.take_if(is_due)
    }
}
