//! The writer of a cluster node: applies the leader's batches, and switches between following and leading.

use std::sync::{Arc, Weak, atomic::Ordering};

use quota_core::{codec, event::Entry, state::State};
use quota_journal::{Durable, Journal, StoredBatch};
use quota_replication::jetstream::{ApplyError, Handle, ReplicatedJournal};
use quota_semantics::Span;
use tokio::sync::mpsc;

use super::{
    Ledger, Marked,
    digest_points::Marks,
    inbox::{Gate, Inbox},
    syncer::Syncer,
};
use crate::metrics;

/// The replica of a node. Cheap to clone.
pub struct Replica<J> {
    ledger: Ledger,
    /// Gone once the ledger is closed.
    syncer: Weak<Syncer<ReplicatedJournal<J>>>,
}

impl<J> Clone for Replica<J> {
    fn clone(&self) -> Self {
        Self { ledger: self.ledger.clone(), syncer: self.syncer.clone() }
    }
}

/// The fate of pending decisions after a shutdown of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDecisions {
    /// All decisions are durable.
    Durable,
    /// Another node leads, and some decisions were dropped: [`Replica::rebuild`] has to follow.
    Void,
}

/// The end of this node's decisions, so that another node can lead. If it is dropped before it is complete, this node
/// accepts decisions again.
#[must_use]
pub(crate) struct Handover<'a>(&'a Inbox);

impl Handover<'_> {
    /// The other node is asked to lead.
    pub(crate) fn complete(self) {
        self.0.stay_shut();
    }
}

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        self.0.stay_open();
    }
}

impl<J: Journal + 'static> Replica<J> {
    pub(super) fn new(ledger: &Ledger, syncer: &Arc<Syncer<ReplicatedJournal<J>>>) -> Self {
        Self { ledger: ledger.clone(), syncer: Arc::downgrade(syncer) }
    }

    /// The end of the replica, durable in the log.
    #[must_use]
    pub fn end(&self) -> Durable {
        self.ledger.durable()
    }

    /// Appends batches through this member of the cluster from now on.
    pub fn attach(&self, handle: Handle) {
        if let Some(syncer) = self.syncer.upgrade() {
            syncer.journal.lock().attach(handle);
        }
    }

    /// Writes batches of the leader, then applies them: they are durable in the log. Blocks. Must not be called while
    /// this node makes decisions.
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
                let head = state.head().sequence;
                let first = entries.first().map_or(head + 1, |entry| entry.sequence);
                if first != head + 1 {
                    return Err(ApplyError::OutOfStep { head, first });
                }
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
            // Readers hold the state's lock, so they see both changes or neither.
            syncer.durable.send_replace(durable);
        }
        for entries in decoded {
            metrics::recorded(&entries);
            syncer.show(&entries);
        }
        Ok(())
    }

    /// Takes images of the state after the first batch of each period of ledger time from now on, as all replicas do.
    /// May be called once; none if the ledger is closed.
    #[must_use]
    pub fn mark(&self, period: Span) -> Option<mpsc::Receiver<Marked>> {
        let (marks, marked) = Marks::new(period);
        let set = self.syncer.upgrade()?.marks.set(marks);
        set.is_ok().then_some(marked)
    }

    /// Begins to make decisions, unless barred. All earlier batches are applied.
    pub fn lead(&self) {
        self.ledger.inbox.open();
    }

    /// Accepts no more decisions, and waits until the accepted ones are durable or void.
    pub async fn shut(&self) -> PendingDecisions {
        let mut gate = self.ledger.inbox.gate();
        self.ledger.inbox.begin_to_shut();
        let shut = gate.wait_for(|gate| matches!(gate, Gate::Shut | Gate::Void));
        match shut.await.as_deref() {
            Ok(Gate::Shut) => PendingDecisions::Durable,
            _ => PendingDecisions::Void,
        }
    }

    /// As [`Replica::shut`], for a handover.
    pub(crate) async fn prepare_handover(&self) -> (Handover<'_>, PendingDecisions) {
        let handover = Handover(&self.ledger.inbox);
        let shut = self.shut().await;
        (handover, shut)
    }

    /// Ends all decisions on this node, whichever node leads: requests, events and due events. Earlier decisions become
    /// durable.
    pub fn bar(&self) {
        self.ledger.inbox.bar();
    }

    /// As [`Replica::bar`], until [`Replica::resume`].
    pub fn suspend(&self) {
        self.ledger.inbox.suspend();
    }

    /// Decisions can be made again once this node leads.
    pub fn resume(&self) {
        self.ledger.inbox.resume();
    }

    /// Whether decisions were suspended: by [`Replica::suspend`], or by the writer, since its clock is wrong.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.ledger.inbox.is_suspended()
    }

    /// Another node leads: drops decisions that are not durable. Answers whether there may have been any: then
    /// [`Replica::rebuild`] has to follow.
    pub async fn void(&self) -> PendingDecisions {
        let mut gate = self.ledger.inbox.gate();
        let inbox = &self.ledger.inbox;
        if *gate.borrow() == Gate::Shut {
            return PendingDecisions::Durable;
        }
        inbox.void(inbox.term());
        let _ = gate.wait_for(|gate| *gate == Gate::Void).await;
        PendingDecisions::Void
    }

    /// Replaces a state that holds dropped decisions by the fold of the durable entries.
    pub fn rebuild(&self, rebuilt: State) {
        {
            let mut state = self.ledger.state.write();
            // A reader of the previous state must not take its answer for durable.
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
