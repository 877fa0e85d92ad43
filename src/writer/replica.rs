//! The writer of a node that may follow another one: applies what others decided, and changes between following and
//! deciding.

use std::sync::{Arc, Weak, atomic::Ordering};

use quota_cluster::{ApplyError, Handle, ReplicatedJournal};
use quota_core::{codec, event::Entry, state::State};
use quota_journal::{Durable, Journal, StoredBatch};
use quota_semantics::Span;
use tokio::sync::mpsc;

use super::{Ledger, Marked, inbox::Gate, marks::Marks, syncer::Syncer};
use crate::metrics;

/// The replica of a node. Cheap to clone.
pub struct Replica<J> {
    ledger: Ledger,
    /// Gone once the ledger is closed.
    syncer: Weak<Syncer<ReplicatedJournal<J>>>,
}

impl<J> Clone for Replica<J> {
    fn clone(&self) -> Self {
        Self {
            ledger: self.ledger.clone(),
            syncer: self.syncer.clone(),
        }
    }
}

/// What has become of the decisions when none are made any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// All are durable.
    Durable,
    /// Another node leads, and some were dropped: [`Replica::rebuild`] has to follow.
    Void,
}

impl<J: Journal + 'static> Replica<J> {
    pub(super) fn new(ledger: &Ledger, syncer: &Arc<Syncer<ReplicatedJournal<J>>>) -> Self {
        Self {
            ledger: ledger.clone(),
            syncer: Arc::downgrade(syncer),
        }
    }

    /// Where it ends: durable in the log.
    #[must_use]
    pub fn end(&self) -> Durable {
        self.ledger.durable()
    }

    /// From now on batches are appended by this member of the cluster.
    pub fn attach(&self, handle: Handle) {
        if let Some(syncer) = self.syncer.upgrade() {
            syncer.journal.lock().attach(handle);
        }
    }

    /// Writes batches that others decided, then applies them: they are durable in the log. Blocks. Not while decisions are made here.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn apply(&self, batches: Vec<StoredBatch>) -> Result<(), ApplyError> {
        let mut decoded = Vec::with_capacity(batches.len());
        for StoredBatch { batch, .. } in &batches {
            decoded.push(Arc::new(entries(batch)?));
        }
        let syncer = self.syncer.upgrade().ok_or(quota_journal::Error::Closed)?;
        let mut before = syncer.durable.borrow().time;
        let durable = {
            let mut journal = syncer.journal.lock();
            let replica = journal.replica();
            for StoredBatch { batch, .. } in batches {
                replica.append(batch)?;
            }
            replica.write()?
        };
        {
            let mut state = self.ledger.state.write();
            for entries in &decoded {
                entries.iter().for_each(|entry| state.apply(entry));
                let head = state.head();
                let marks = syncer.marks.get();
                if let Some(marks) = marks.filter(|marks| marks.is_due(before, head.time)) {
                    let (sequence, image) = (head.sequence, state.image());
                    marks.take(Marked { sequence, image });
                }
                before = head.time;
            }
            self.ledger.watermark.follow(&state);
            // Whoever holds the state's lock sees both or neither.
            syncer.durable.send_replace(durable);
        }
        for entries in decoded {
            metrics::recorded(&entries);
            syncer.show(&entries);
        }
        Ok(())
    }

    /// From now on images are taken of the state behind the first batch of each period of ledger time: the same on each
    /// replica. Once; none: the ledger is closed.
    #[must_use]
    pub fn mark(&self, period: Span) -> Option<mpsc::Receiver<Marked>> {
        let (marks, marked) = Marks::new(period);
        let set = self.syncer.upgrade()?.marks.set(marks);
        set.is_ok().then_some(marked)
    }

    /// From now on decisions are made here, unless that is barred. Everything before is applied.
    pub fn lead(&self) {
        self.ledger.inbox.open();
    }

    /// Takes no more decisions, and waits until those that were taken are durable or void.
    pub async fn shut(&self) -> Shut {
        let mut gate = self.ledger.inbox.gate();
        self.ledger.inbox.begin_to_shut();
        let shut = gate.wait_for(|gate| matches!(gate, Gate::Shut | Gate::Void));
        match shut.await.as_deref() {
            Ok(Gate::Shut) => Shut::Durable,
            _ => Shut::Void,
        }
    }

    /// Takes decisions again, since the lead was not given away after all.
    pub(crate) fn stay(&self) {
        self.ledger.inbox.stay_open();
    }

    /// Nothing is decided here any more, whoever leads: neither requests nor events, nor what is due. What was decided
    /// before becomes durable.
    pub fn bar(&self) {
        self.ledger.inbox.bar();
    }

    /// Another node leads: drops what was decided here and is not durable. Gives whether that can be anything: then
    /// [`Replica::rebuild`] has to follow.
    pub async fn void(&self) -> Shut {
        let mut gate = self.ledger.inbox.gate();
        let inbox = &self.ledger.inbox;
        if *gate.borrow() == Gate::Shut {
            return Shut::Durable;
        }
        inbox.void(inbox.term());
        let _ = gate.wait_for(|gate| *gate == Gate::Void).await;
        Shut::Void
    }

    /// Puts the fold of the durable entries in the place of a state that holds decisions which were dropped.
    pub fn rebuild(&self, rebuilt: State) {
        {
            let mut state = self.ledger.state.write();
            // Whoever has read the state before must not take its answer for durable.
            self.ledger.rebuilt.fetch_add(1, Ordering::AcqRel);
            *state = rebuilt;
        }
        self.ledger.inbox.is_rebuilt();
    }
}

fn entries(batch: &quota_journal::Batch) -> Result<Vec<Entry>, ApplyError> {
    let decoded = codec::decode_entries(batch.first_sequence, batch.count, &batch.payload);
    decoded.map_err(|error| ApplyError::NotUnderstood {
        first: batch.first_sequence,
        why: error.to_string(),
    })
}
