//! Group commit: decisions are gathered in an open batch; the batch is closed, appended and synced; then its answers
//! are sent.
//!
//! Nothing here blocks or starts a thread: the daemon's two threads drive it, and so does the simulation, call by call.
//! The types enforce the order: answers go into a [`GroupCommit`] and come out of a [`CommittedBatch`], and the
//! journal's sync is the only way from one to the other.

use std::sync::Arc;

use quota_core::{
    codec,
    decide::{self, Consumed, ExpiryCursor, Policy},
    event::{Actor, Entry},
    size,
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_journal::{Batch, Durable, Error, Journal};
use quota_semantics::Timestamp;

/// A batch is closed at about this many bytes, well below the limit of the journal.
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Most due events that are recorded at once, and most expired reservations that are looked at, since all other decisions
/// wait meanwhile.
pub const DUE_AT_ONCE: usize = 256;

/// The deciding side: gathers decisions, while at most one earlier batch is being made durable.
#[derive(Debug)]
pub struct GroupCommit<A> {
    open: OpenBatch,
    answers: Vec<A>,
    max_entries: usize,
    max_bytes: usize,
    clock: Arc<Actor>,
    syncer_is_idle: bool,
    expiry_cursor: ExpiryCursor,
    /// Whether a decision requested that its batch ends with it.
    closes: bool,
}

impl<A> GroupCommit<A> {
    /// Gathers batches of about `max_entries` entries: the last decision may exceed that.
    pub fn new(max_entries: usize) -> Self {
        Self {
            open: OpenBatch::default(),
            answers: Vec::new(),
            max_entries,
            max_bytes: BATCH_BYTES,
            clock: Actor::named("clock"),
            syncer_is_idle: true,
            expiry_cursor: ExpiryCursor::default(),
            closes: false,
        }
    }

    /// The same, with batches that are closed at about this many bytes instead of [`BATCH_BYTES`].
    pub fn closing_at(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Records events that are due at `now`, at most `DUE_AT_ONCE`. Called before the decisions at that time. Returns
    /// whether more may be due: until they are recorded, the reservations concerned are still held.
    pub fn record_due(
        &mut self,
        state: &mut State,
        now: Timestamp,
        consumed: Consumed<'_>,
        policy: &Policy,
    ) -> bool {
        let mut transaction = WriteTransaction::new(state, &mut self.open, now);
        let bounded = decide::bound_ended(transaction.state(), &policy.bounds);
        transaction.record(&self.clock, bounded);
        let (due, next) = decide::due_after(
            transaction.state(),
            transaction.now(),
            consumed,
            policy.max_hold,
            (self.expiry_cursor, DUE_AT_ONCE),
        );
        let (events, more) = size::at_once(due, DUE_AT_ONCE);
        transaction.record(&self.clock, events);
        if !more {
            self.expiry_cursor = next;
        }
        more || !next.is_at_end()
    }

    /// The transaction for the next decision.
    pub fn transaction<'a>(
        &'a mut self,
        state: &'a mut State,
        now: Timestamp,
    ) -> WriteTransaction<'a> {
        WriteTransaction::new(state, &mut self.open, now)
    }

    /// Adds the answer to a decision of the transaction: it is sent after the batch is durable. `closes`: the batch
    /// shall end here. Returns whether the batch takes another decision.
    pub fn decided(&mut self, answer: A, closes: bool) -> bool {
        self.answers.push(answer);
        self.closes |= closes;
        !self.is_full()
    }

    /// Whether the batch is full: it has to be closed before the next decision.
    pub fn is_full(&self) -> bool {
        self.closes || self.open.len() >= self.max_entries || self.open.bytes() >= self.max_bytes
    }

    /// The entries of the open batch.
    pub fn waiting(&self) -> &[Entry] {
        self.open.entries()
    }

    /// The number of answers that wait for the open batch.
    pub const fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Whether the open batch is empty.
    pub const fn is_empty(&self) -> bool {
        self.open.is_empty() && self.answers.is_empty()
    }

    /// Closes the open batch; none if it is empty, or while the previous batch is not durable.
    pub fn close(&mut self) -> Option<ClosedBatch<A>> {
        if !self.syncer_is_idle || self.is_empty() {
            return None;
        }
        self.closes = false;
        self.syncer_is_idle = false;
        Some(ClosedBatch { entries: self.open.take(), answers: std::mem::take(&mut self.answers) })
    }

    /// Records that the closed batch is durable.
    pub const fn synced(&mut self) {
        self.syncer_is_idle = true;
    }
}

/// Entries, and the answers that depend on them and on earlier entries.
#[derive(Debug)]
#[must_use = "its answers are owed"]
pub struct ClosedBatch<A> {
    entries: Vec<Entry>,
    answers: Vec<A>,
}

impl<A> ClosedBatch<A> {
    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are only answers: they still depend on the earlier batches.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of answers.
    pub const fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Appends the entries to the journal.
    ///
    /// # Errors
    /// As [`Journal::append`]. The answers are dropped: an entry that may be lost must not be acknowledged.
    pub fn append(self, journal: &mut impl Journal) -> Result<Appended<A>, Error> {
        if let (Some(first), Some(last)) = (self.entries.first(), self.entries.last()) {
            journal.append(Batch {
                first_sequence: first.sequence,
                count: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
                time: last.time,
                payload: codec::encode_entries(&self.entries),
            })?;
        }
        Ok(Appended(self))
    }
}

/// A batch that was appended, but may still be lost.
#[derive(Debug)]
#[must_use = "its answers are owed"]
pub struct Appended<A>(ClosedBatch<A>);

impl<A> Appended<A> {
    /// Makes the batch durable.
    ///
    /// # Errors
    /// As [`Journal::sync`]: final. The answers are dropped: an entry that may be lost must not be acknowledged.
    pub fn sync(self, journal: &mut impl Journal) -> Result<CommittedBatch<A>, Error> {
        let Self(ClosedBatch { entries, answers }) = self;
        let durable = journal.sync()?;
        Ok(CommittedBatch { durable, entries, answers })
    }
}

/// A durable batch: its answers may be sent.
#[derive(Debug)]
pub struct CommittedBatch<A> {
    /// The durable position.
    pub durable: Durable,
    /// The durable entries.
    pub entries: Vec<Entry>,
    /// The answers.
    pub answers: Vec<A>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_core::event::{Event, Reservation, Watermark, Watermarks};
    use quota_semantics::{Name, Span, uid::Uid};

    /// A journal that accepts batches while it has room, and records the calls.
    #[derive(Default)]
    struct Notes {
        calls: Vec<&'static str>,
        last: u64,
        fails: bool,
    }

    impl Journal for Notes {
        fn append(&mut self, batch: Batch) -> Result<(), Error> {
            self.calls.push("append");
            self.last = batch.last_sequence();
            Ok(())
        }

        fn sync(&mut self) -> Result<Durable, Error> {
            self.calls.push("sync");
            if self.fails {
                let full = std::io::ErrorKind::StorageFull.into();
                return Err(Error::io("log", quota_journal::Operation::Write, full));
            }
            Ok(Durable { sequence: self.last, ..Durable::NOTHING })
        }
    }

    fn decide(
        group_commit: &mut GroupCommit<u32>,
        state: &mut State,
        answer: u32,
        closes: bool,
    ) -> bool {
        let deleted =
            Event::ObjectDeleted { uid: Uid::from_uuid([7; 16]), namespace: "team-a".into() };
        let mut transaction =
            group_commit.transaction(state, Timestamp::EPOCH.plus(Span::from_seconds(1)));
        transaction.record(&Actor::named("test"), [deleted]);
        group_commit.decided(answer, closes)
    }

    #[test]
    fn answers_leave_behind_the_sync_and_in_order() {
        let (mut group_commit, mut state) = (GroupCommit::new(2), State::default());
        let mut journal = Notes::default();
        assert!(decide(&mut group_commit, &mut state, 1, false));
        let closed = group_commit.close().unwrap();
        assert!(decide(&mut group_commit, &mut state, 2, false));
        assert!(group_commit.close().is_none(), "one batch at a time");
        assert!(!group_commit.is_full());
        assert!(!decide(&mut group_commit, &mut state, 3, false));
        assert!(group_commit.is_full());
        let committed = closed.append(&mut journal).unwrap();
        let committed = committed.sync(&mut journal).unwrap();
        assert_eq!((committed.durable.sequence, committed.answers), (1, vec![1]));
        group_commit.synced();
        let closed = group_commit.close().unwrap();
        let committed = closed.append(&mut journal).unwrap();
        let committed = committed.sync(&mut journal).unwrap();
        assert_eq!((committed.durable.sequence, committed.answers), (3, vec![2, 3]));
        assert_eq!(journal.calls, ["append", "sync", "append", "sync"]);
        assert!(group_commit.is_empty());
    }

    #[test]
    fn a_failed_sync_lets_no_answer_out_not_even_one_without_entries() {
        let (mut group_commit, mut state) = (GroupCommit::new(2), State::default());
        let mut journal = Notes { fails: true, ..Notes::default() };
        decide(&mut group_commit, &mut state, 1, true);
        let closed = group_commit.close().unwrap();
        assert!(closed.append(&mut journal).unwrap().sync(&mut journal).is_err());
        group_commit.synced();
        group_commit.decided(2, false);
        let closed = group_commit.close().unwrap();
        assert!(closed.is_empty());
        assert!(closed.append(&mut journal).unwrap().sync(&mut journal).is_err());
        assert_eq!(journal.calls, ["append", "sync", "sync"]);
    }

    /// Reservations of a kind that is behind are held; other groups of decisions wait for the search among them.
    #[test]
    fn held_reservations_are_looked_at_a_part_at_a_time_and_hide_no_others() {
        const HELD: usize = 2 * DUE_AT_ONCE + 10;
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let (mut group_commit, mut state) = (GroupCommit::<u32>::new(10_000), State::default());
        let report = |(resource, seconds): (&str, i64)| Watermark {
            resource: resource.into(),
            watermark: at(seconds),
            version: 1,
            is_absent: false,
            failing: Name::default(),
        };
        let source = Name::from("bridge");
        let watermarks = Event::WatermarksAdvanced(Box::new(Watermarks {
            source: source.clone(),
            resources: [("pods", 10), ("services", 100)].map(report).to_vec(),
            ..Watermarks::default()
        }));
        let granted = |number: usize, resource: &str| {
            Event::ReservationGranted(Arc::new(Reservation {
                uid: Uid::new(&format!("u{number}")).unwrap(),
                namespace: "team-a".into(),
                resource: resource.into(),
                name: "".into(),
                api_version: "v1".into(),
                kind: "".into(),
                footprint: Arc::default(),
                created: at(1),
                expiration: at(50),
                after_version: 0,
                requested: None,
            }))
        };
        let held = (0..HELD).map(|number| granted(number, "pods"));
        let listed = ["pods", "services"].map(|resource| Event::ResourceListed {
            source: source.clone(),
            resource: resource.into(),
        });
        let events = listed.into_iter().chain([watermarks]).chain(held);
        let events = events.chain([granted(HELD, "services")]);
        let mut transaction = group_commit.transaction(&mut state, at(90));
        transaction.record(&Actor::named("test"), events);
        let policy = Policy::default();
        let consumed = Consumed { watermark: at(90), publisher: Some(&source) };
        let mut pass = |state: &mut State| {
            let more = group_commit.record_due(state, at(90), consumed, &policy);
            (more, state.pending_count())
        };
        assert_eq!(pass(&mut state), (true, HELD + 1));
        assert_eq!(pass(&mut state), (true, HELD + 1));
        assert_eq!(pass(&mut state), (false, HELD));
        assert_eq!(pass(&mut state), (true, HELD), "it begins anew");
    }

    #[test]
    fn a_decision_can_end_its_batch() {
        let (mut group_commit, mut state) = (GroupCommit::new(100), State::default());
        assert!(!decide(&mut group_commit, &mut state, 1, true));
        assert_eq!(group_commit.close().unwrap().len(), 1);
        assert!(!group_commit.is_full());
        assert!(decide(&mut group_commit, &mut state, 2, false));
    }
}
