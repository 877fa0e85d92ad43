//! Sources: the record kept of a stream of events, so that each of its messages counts exactly once.
//!
//! A source is not trusted. It may be another one under the same name, may have gone back in time, may have lost
//! messages, and may deliver twice or out of order.

use std::{ops::RangeInclusive, sync::Arc};

use quota_semantics::{Name, Timestamp, uid::Uid};

use crate::{
    decide::{self, Bookmark, Relist, Sighting, Verdict},
    event::{Actor, Cursor, DeadLetter, Event, RelistBegin, RelistScope},
    transaction::WriteTransaction,
};

/// The result of comparing a stream with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It has never been consumed.
    New,
    /// It is the same: go on behind the cursor.
    Same,
    /// It is another one under the same name, or went back in time: begin anew, for this reason.
    Renewed(&'static str),
    /// The message at the cursor decides: see [`identify_by_message`].
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
pub fn identify_by_message(cursor: &Cursor, held: Option<(Timestamp, &[u8])>) -> Identity {
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

/// A report of a source: one message as read, or what is known of lost messages.
#[derive(Clone, Debug)]
pub enum Observation {
    /// An event that was understood.
    Sighting(Sighting),
    /// An event that was not understood.
    Rejected {
        /// The event.
        letter: DeadLetter,
        /// The kind of its object, if it could be determined.
        resource: Option<Name>,
    },
    /// Watermarks of the source.
    Bookmark {
        /// The bookmark.
        bookmark: Bookmark,
        /// When the source received the bookmark; none: it was sent just now.
        received: Option<Timestamp>,
    },
    /// A relist begins or ends.
    Relist {
        /// The statement.
        relist: Relist,
        /// The name of the source, and when the source received the statement; none: it was sent just now.
        received: Option<(Name, Timestamp)>,
    },
    /// Positions were lost before they could be consumed: after all items before this one, and before all items after
    /// it.
    Gap {
        /// The source's name.
        source: Name,
        /// The missing positions.
        positions: RangeInclusive<u64>,
    },
}

/// How far a source is consumed.
#[derive(Clone, Debug)]
pub struct Consumed {
    /// The source's name.
    pub source: Name,
    /// The present position of the source.
    pub cursor: Cursor,
}

/// The number of events by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// New events.
    pub accepted: u64,
    /// Old events, and events that are irrelevant to quotas.
    pub ignored: u64,
    /// Events that were not understood.
    pub rejected: u64,
}

impl std::ops::AddAssign for Recorded {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.ignored += other.ignored;
        self.rejected += other.rejected;
    }
}

/// Relist statements by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relisted {
    /// The events of accepted statements: relists that began, were closed, or ended without consequence.
    pub decided: Vec<Event>,
    /// Statements without effect: a begin when too many are open, an end without a begin.
    pub passed_over: Vec<Relist>,
    /// Statements that were consumed before their source was reset, and are read again: they may not reflect later
    /// events.
    pub outdated: Vec<Relist>,
}

/// Records the reports of a source and its cursor in the same decision, hence in the same batch. If the source is
/// consumed that far already, nothing happens. `ignored` is the number of further reports that are irrelevant to
/// quotas.
pub fn record(
    transaction: &mut WriteTransaction<'_>,
    actor: &Arc<Actor>,
    items: Vec<Observation>,
    ignored: u64,
    consumed: Option<&Consumed>,
) -> (Recorded, Relisted) {
    let mut advance = match consumed {
        None => None,
        Some(Consumed { source, cursor }) => {
            match decide::advance(transaction.state(), source, cursor) {
                None => return <_>::default(),
                advance => advance,
            }
        }
    };
    let mut recording =
        Recording { transaction, actor, listed: Vec::new(), relisted: Relisted::default() };
    let mut recorded = Recorded { ignored, ..Recorded::default() };
    for item in items {
        let is_news = match item {
            Observation::Rejected { letter, resource } => {
                recording.note([decide::reject(letter, resource)]);
                recorded.rejected += 1;
                continue;
            }
            Observation::Gap { source, positions } => {
                // The cursor is before the gap, and must not go back.
                let is_behind =
                    consumed.is_some_and(|consumed| consumed.cursor.position < *positions.start());
                let passed = advance.take_if(|_| is_behind);
                let gap = decide::gap(&source, *positions.start(), *positions.end());
                recording.note(passed.into_iter().chain([gap]));
                continue;
            }
            Observation::Sighting(sighting) => recording.see(sighting),
            Observation::Bookmark { bookmark, received } => recording.progress(&bookmark, received),
            Observation::Relist { relist, received: Some((source, time)) }
                if decide::was_consumed_before(recording.transaction.state(), &source, time) =>
            {
                recording.relisted.outdated.push(relist);
                false
            }
            Observation::Relist { relist, .. } => recording.relist(relist),
        };
        *match is_news {
            true => &mut recorded.accepted,
            false => &mut recorded.ignored,
        } += 1;
    }
    recording.record_listed();
    recording.note(advance);
    (recorded, recording.relisted)
}

/// The state of recording a list of items.
struct Recording<'a, 'b> {
    transaction: &'a mut WriteTransaction<'b>,
    actor: &'a Arc<Actor>,
    /// Listed objects that are as recorded.
    listed: Vec<Uid>,
    relisted: Relisted,
}

impl Recording<'_, '_> {
    fn note(&mut self, events: impl IntoIterator<Item = Event>) {
        self.transaction.record(self.actor, events);
    }

    /// Records a sighting. Returns whether it is new.
    fn see(&mut self, sighting: Sighting) -> bool {
        let (state, source) = (self.transaction.state(), &self.actor.principal);
        let sighting = match decide::replace(state, source, sighting) {
            Ok(events) => {
                self.note(events);
                return true;
            }
            Err(sighting) => sighting,
        };
        match decide::observe(self.transaction.state(), sighting) {
            Verdict::Accepted(events) => {
                self.note(events);
                true
            }
            Verdict::Ignored(old) => {
                let listed = decide::listed(self.transaction.state(), &self.actor.principal, &old);
                self.listed.extend(listed.cloned());
                false
            }
        }
    }

    /// Records a bookmark. Returns whether it is new.
    fn progress(&mut self, bookmark: &Bookmark, received: Option<Timestamp>) -> bool {
        let (state, source, now) =
            (self.transaction.state(), &self.actor.principal, self.transaction.now());
        let received = received.map_or(now, |received| received.min(now));
        let event = decide::advance_watermarks(state, source, bookmark, received);
        let is_news = event.is_some();
        self.note(event);
        is_news
    }

    /// Records the begin or the end of a relist. Returns whether it has an effect.
    fn relist(&mut self, relist: Relist) -> bool {
        self.record_listed();
        let (state, source) = (self.transaction.state(), &self.actor.principal);
        let events = match &relist {
            Relist::Begin { resource, namespace, id, allow_empty, resets_versions } => {
                let scope = RelistScope {
                    resource: resource.clone(),
                    namespace: namespace.clone(),
                    source: source.clone(),
                };
                let begin = RelistBegin { scope, id: id.clone(), allow_empty: *allow_empty };
                decide::begin_relist(state, begin, *resets_versions)
            }
            Relist::Finish(finish) => decide::close_relist(state, source, finish),
        };
        let means = !events.is_empty();
        match means {
            true => self.relisted.decided.extend(events.iter().cloned()),
            false => self.relisted.passed_over.push(relist),
        }
        self.note(events);
        means
    }

    /// Records which objects were listed. Called before a list or the batch ends.
    fn record_listed(&mut self) {
        if self.listed.is_empty() {
            return;
        }
        let listed = Event::ObjectsListed {
            source: self.actor.principal.clone(),
            uids: std::mem::take(&mut self.listed),
        };
        self.note([listed]);
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
            identify_by_message(&cursor, Some((Timestamp::from_nanoseconds(time), payload)))
        };
        assert_eq!(held(70, b"seven"), Identity::Same);
        assert_eq!(identify_by_message(&cursor, None), Identity::Same);
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
