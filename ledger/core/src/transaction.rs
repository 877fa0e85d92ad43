//! The write transaction, in which decisions become entries.
//!
//! It owns the state. A decision is made on the state, recorded, and applied at once, so that the next decision sees
//! it. The entries accumulate until they are taken as a batch and made durable. No answer may be sent before that.

use std::sync::Arc;

use crate::{
    event::{Actor, Entry, Event, Sequence},
    size,
    state::State,
};
use quota_semantics::Timestamp;

/// Entries that will be made durable together.
#[derive(Debug, Default)]
pub struct OpenBatch {
    entries: Vec<Entry>,
    bytes: usize,
}

impl OpenBatch {
    /// The number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The estimated encoded length in bytes; never much less than the real length.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes the entries, oldest first, and reserves capacity for as many again.
    pub fn take(&mut self) -> Vec<Entry> {
        self.bytes = 0;
        let next = Vec::with_capacity(self.entries.len());
        std::mem::replace(&mut self.entries, next)
    }
}

/// A write transaction: the state, the open batch, and the time of the decision.
#[derive(Debug)]
pub struct WriteTransaction<'a> {
    state: &'a mut State,
    open: &'a mut OpenBatch,
    now: Timestamp,
}

impl<'a> WriteTransaction<'a> {
    /// Begins at wall-clock time `now`. Ledger time does not go back with the clock.
    pub fn new(state: &'a mut State, open: &'a mut OpenBatch, now: Timestamp) -> Self {
        let last = state.head().time;
        Self { state, open, now: now.max(last) }
    }

    /// The state with all decisions so far, durable or not.
    #[must_use]
    pub const fn state(&self) -> &State {
        self.state
    }

    /// Ledger time.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Records events as entries, and applies them. Returns the sequence of the last entry of the ledger.
    pub fn record(
        &mut self,
        actor: &Arc<Actor>,
        events: impl IntoIterator<Item = Event>,
    ) -> Sequence {
        for event in events {
            let sequence = self.state.head().sequence + 1;
            let (time, actor) = (self.now, actor.clone());
            let entries = &mut self.open.entries;
            entries.push(Entry { sequence, time, actor, event });
            let entry = &entries[entries.len() - 1];
            self.state.apply(entry);
            self.open.bytes += size::of_event(&entry.event);
        }
        self.state.head().sequence
    }
}
