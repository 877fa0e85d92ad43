//! Sources: the record kept of a stream of events, so that each of its messages counts exactly once.
//!
//! A source is not trusted. It may be another one under the same name, may have gone back in time, may have lost
//! messages, and may deliver twice or out of order.

mod record;

use std::ops::RangeInclusive;

pub use record::{Consumed, Observation, Recorded, Relisted, record};

use crate::event::Cursor;
use quota_semantics::Timestamp;

/// The result of comparing a stream with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It has never been consumed.
    New,
    /// It is the same: go on behind the cursor.
    Same,
    /// It is another one under the same name, or went back in time: begin anew, for this reason.
    Renewed(&'static str),
    /// The message at the cursor decides: see [`is_what_was_consumed`].
    Held,
}

/// Compares a stream with its cursor, by its incarnation and its last position.
#[must_use]
pub fn identify(cursor: Option<&Cursor>, incarnation: &str, last: u64) -> Identity {
    let Some(cursor) = cursor else {
        return Identity::New;
    };
    if *cursor.incarnation != *incarnation {
        return Identity::Renewed("it was recreated");
    }
    if last < cursor.position {
        return Identity::Renewed("it ends before the last message consumed");
    }
    // A cursor for which no message was consumed proves nothing.
    if cursor.position == 0 || cursor.time == Timestamp::EPOCH {
        return Identity::Same;
    }
    Identity::Held
}

/// The checksum of a message that a cursor records.
#[must_use]
pub fn checksum(payload: &[u8]) -> u32 {
    crc32fast::hash(payload)
}

/// Whether the message that a stream holds at the cursor is the consumed one; none: the stream has removed it, as
/// retention does.
#[must_use]
pub fn is_what_was_consumed(cursor: &Cursor, held: Option<(Timestamp, &[u8])>) -> Identity {
    let same = held
        .is_none_or(|(time, payload)| time == cursor.time && checksum(payload) == cursor.checksum);
    match same {
        true => Identity::Same,
        false => Identity::Renewed("it holds another message at the cursor"),
    }
}

/// A consumer has skipped, repeated or reordered messages: it has to be created anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete;

/// Follows the deliveries of one consumer.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Whether the consumer receives every message of the stream, so that a missing position is a lost message.
    gapless: bool,
    delivered: u64,
    position: u64,
    /// The first position that the stream is known to hold still.
    front: u64,
}

impl Follower {
    /// Begins behind `position`, with the first message of a consumer. `gapless`: the consumer receives every message
    /// of the stream.
    #[must_use]
    pub const fn new(gapless: bool, position: u64) -> Self {
        Self { gapless, delivered: 0, position, front: 0 }
    }

    /// The position of the last message.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Records that the stream holds nothing before this position any more. Messages before it may still have been
    /// delivered.
    pub fn begins_at(&mut self, front: u64) {
        self.front = self.front.max(front);
    }

    /// Takes the next message, by its consumer sequence and its stream sequence. Returns the missing positions before
    /// it: all that were passed over if the consumer receives every message, else those before the stream's first one.
    ///
    /// # Errors
    /// [`Incomplete`] if it is not the next message of the consumer.
    pub fn take(
        &mut self,
        consumer_sequence: u64,
        stream_sequence: u64,
    ) -> Result<Option<RangeInclusive<u64>>, Incomplete> {
        let is_next = consumer_sequence == self.delivered.saturating_add(1)
            && stream_sequence > self.position;
        if !is_next {
            return Err(Incomplete);
        }
        self.delivered = consumer_sequence;
        let first = self.position.saturating_add(1);
        self.position = stream_sequence;
        let next = match self.gapless {
            true => stream_sequence,
            false if stream_sequence >= self.front => self.front,
            // It was delivered before it was removed.
            false => first,
        };
        let missing = first < next;
        Ok(missing.then(|| first..=next.saturating_sub(1)))
    }

    /// Skips positions that hold no message for this consumer.
    pub fn skip_to(&mut self, position: u64) {
        self.position = self.position.max(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_known_by_its_life_its_end_and_its_last_message() {
        let cursor = Cursor {
            incarnation: "first".into(),
            position: 7,
            time: Timestamp::from_nanoseconds(70),
            checksum: checksum(b"seven"),
        };
        assert_eq!(identify(None, "first", 0), Identity::New);
        assert_eq!(identify(Some(&cursor), "first", 7), Identity::Held);
        for (incarnation, last) in [("second", 7), ("first", 6)] {
            let identity = identify(Some(&cursor), incarnation, last);
            assert!(matches!(identity, Identity::Renewed(_)));
        }
        let after_a_gap = Cursor { time: Timestamp::EPOCH, ..cursor.clone() };
        assert_eq!(identify(Some(&after_a_gap), "first", 7), Identity::Same);
        let held = |time, payload: &'static [u8]| {
            is_what_was_consumed(&cursor, Some((Timestamp::from_nanoseconds(time), payload)))
        };
        assert_eq!(held(70, b"seven"), Identity::Same);
        assert_eq!(is_what_was_consumed(&cursor, None), Identity::Same);
        assert!(matches!(held(71, b"seven"), Identity::Renewed(_)));
        assert!(matches!(held(70, b"other"), Identity::Renewed(_)));
    }

    #[test]
    fn a_consumer_is_followed_message_by_message() {
        let mut follower = Follower::new(true, 4);
        assert_eq!(follower.take(1, 5), Ok(None));
        assert_eq!(follower.take(2, 9), Ok(Some(6..=8)));
        for (consumer, stream) in [(2, 10), (4, 10), (3, 9), (3, 4)] {
            assert_eq!(follower.clone().take(consumer, stream), Err(Incomplete));
        }
        follower.skip_to(20);
        assert_eq!(follower.take(3, 21), Ok(None));
        assert_eq!(Follower::new(false, 0).take(1, 9), Ok(None));
    }

    /// It is unknown which skipped positions held messages for the consumer, but these are gone.
    #[test]
    fn what_is_removed_before_the_end_of_the_deliveries_is_missing_beside_other_subjects_too() {
        let mut follower = Follower::new(false, 4);
        follower.begins_at(8);
        let mut delivered = follower.clone();
        assert_eq!(follower.take(1, 11), Ok(Some(5..=7)));
        assert_eq!(follower.take(2, 20), Ok(None));
        follower.begins_at(15);
        assert_eq!(follower.take(3, 21), Ok(None));
        // Some were delivered before they were removed.
        assert_eq!(delivered.take(1, 7), Ok(None));
        assert_eq!(delivered.take(2, 11), Ok(None));
    }
}
