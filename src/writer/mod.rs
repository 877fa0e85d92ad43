//! The single writer: every change of the ledger goes through its thread.
//!
//! Callers submit a decision, a function over the [`WriteTransaction`]. They get its result once all entries that it
//! relies on are durable. While a large batch is being synced the next one is being decided.

mod decider;
mod inbox;
mod ledger;
mod syncer;
mod watermark;

#[cfg(test)]
mod tests;

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::{Mutex, RwLock};
use quota_core::{
    codec, decide::Policy, event::Entry, state::State, transaction::WriteTransaction,
};
use quota_journal::{Durable, Journal, StoredBatch};
use quota_ledger::group_commit::BATCH_BYTES;
use quota_replication::jetstream::{
    ApplyError, Handle as MemberHandle, ReplicatedJournal, WallClock,
};
use quota_semantics::{Span, admission::Coverage};
use tokio::{
    runtime::Handle,
    sync::{broadcast, mpsc, watch},
};

use decider::{Batching, Decider, Linger};
use inbox::{Gate, Inbox};
pub(crate) use ledger::For;
pub use ledger::Ledger;
pub use syncer::{Batch, Marked, Recent};
use syncer::{Marks, Syncer};
pub use watermark::{Required, Watermark};

use crate::{enforcement::Enforcement, fatal, metrics, problem::Reason};

/// How many batches a follower may lag before it has to begin anew. Followers never wait for a client, so these batches
/// are in memory only for as long as the processors are busy.
const FOLLOWED_BATCHES: usize = 1024;

/// The options of the writer.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules of all decisions.
    pub policy: Policy,
    /// Most decisions that wait in the queue; further ones are refused.
    pub queue: usize,
    /// Most entries of one batch.
    pub max_batch_entries: usize,
}

/// Why the writer did not answer with a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The queue is full: try again later.
    #[error("too many requests are waiting for the ledger")]
    Overloaded,
    /// Disk space is too low for decisions that grow the ledger.
    #[error(
        "the disk is low: nothing is granted, and no events are taken in, until there is room again"
    )]
    DiskLow,
    /// Another node of the cluster leads, or none does: nothing was decided.
    #[error("this node does not lead the cluster: nothing was decided")]
    NotLeader,
    /// Another node of the cluster leads, and a part of the request was decided before that.
    #[error(
        "another node of the cluster leads: only a part of this was carried out; send the same request again"
    )]
    OutcomeUnknown,
    /// A write or fsync failed, or the daemon is stopping: there will be no answer.
    #[error("the ledger takes no more entries")]
    Stopped,
}

impl Unavailable {
    /// The same for a request of several decisions, of which some may be made: then it is not so that nothing was
    /// decided.
    pub(crate) fn with_part_made(self, is_part_made: bool) -> Self {
        match self {
            Self::NotLeader if is_part_made => Self::OutcomeUnknown,
            refused => refused,
        }
    }
}

impl From<Unavailable> for Reason {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Overloaded => Self::Overloaded,
            Unavailable::DiskLow => Self::DiskLow,
            Unavailable::NotLeader => Self::NotLeader,
            Unavailable::OutcomeUnknown => Self::OutcomeUnknown,
            Unavailable::Stopped => Self::Stopped,
        }
    }
}

/// Called with the position of the ledger once the batch is durable.
type Answer = Box<dyn FnOnce(&Durable) + Send>;

/// A decision: made on the transaction, answered when durable.
type Job = Box<dyn FnOnce(&mut DecisionContext<'_>) -> Answer + Send>;

/// The transaction and other inputs of a decision.
pub struct DecisionContext<'a> {
    /// The transaction.
    pub transaction: WriteTransaction<'a>,
    /// The rules of all decisions.
    pub policy: &'a Policy,
    /// Whether the batch ends with this decision.
    closes: bool,
}

/// The writer's threads.
pub struct Threads<J> {
    decider: std::thread::JoinHandle<()>,
    syncing: std::thread::JoinHandle<()>,
    syncer: Arc<Syncer<J>>,
}

/// Starts the writer on a recovered state and its journal.
///
/// `failed` is called, once, when a write or fsync has failed: the process has to stop.
///
/// # Errors
/// If a thread cannot be started.
pub fn start<J: Journal + 'static>(
    state: State,
    journal: J,
    durable: Durable,
    watermark: Arc<Watermark>,
    options: Options,
    failed: impl FnOnce(&quota_journal::Error) + Send + 'static,
) -> std::io::Result<(Ledger, Threads<J>)> {
    let parts = (state, journal, durable);
    let batching = Batching { max_bytes: BATCH_BYTES, own_max: 32, linger: Linger::new(false) };
    start_at(Gate::Open, batching, parts, watermark, options, failed)
}

/// Starts the writer of a node of a cluster: it decides nothing before [`Replica::lead`].
///
/// # Errors
/// If a thread cannot be started.
pub fn start_following<J: Journal + 'static>(
    state: State,
    journal: ReplicatedJournal<J>,
    durable: Durable,
    watermark: Arc<Watermark>,
    options: Options,
    failed: impl FnOnce(&quota_journal::Error) + Send + 'static,
) -> std::io::Result<(Ledger, Threads<ReplicatedJournal<J>>, Replica<J>)> {
    let parts = (state, journal, durable);
    let batching = Batching {
        max_bytes: quota_replication::jetstream::BATCH_BYTES,
        own_max: 8,
        linger: Linger::new(true),
    };
    let (ledger, threads) = start_at(Gate::Shut, batching, parts, watermark, options, failed)?;
    let replica = Replica::new(&ledger, &threads.syncer);
    Ok((ledger, threads, replica))
}

fn start_at<J: Journal + 'static>(
    gate: Gate,
    batching: Batching,
    (state, journal, durable): (State, J, Durable),
    watermark: Arc<Watermark>,
    options: Options,
    failed: impl FnOnce(&quota_journal::Error) + Send + 'static,
) -> std::io::Result<(Ledger, Threads<J>)> {
    let inbox = Arc::new(Inbox::new(options.queue, gate));
    let (durable_out, durable) = watch::channel(durable);
    let (followed, _) = broadcast::channel(FOLLOWED_BATCHES);
    let recent = Arc::new(Recent::new());
    let state = Arc::new(RwLock::new(state));
    let policy = Arc::new(options.policy.clone());
    let syncer = Arc::new(Syncer {
        journal: Mutex::new(journal),
        inbox: inbox.clone(),
        durable: durable_out,
        followers: followed.clone(),
        recent: recent.clone(),
        runtime: Handle::try_current().ok(),
        marks: OnceLock::new(),
        failed: Mutex::new(Some(Box::new(failed))),
        error: Mutex::new(None),
    });
    let clock = Arc::new(WallClock::default());
    let decider = Decider::new(
        inbox.clone(),
        syncer.clone(),
        state.clone(),
        watermark.clone(),
        (options, clock.clone()),
        batching,
    );
    let syncs = syncer.clone();
    let syncing = spawn("syncer", move || syncs.run())?;
    let decider = spawn("decider", move || decider.run())?;
    let enforcement = Enforcement::new(Coverage::everything(), watermark.clone(), state.clone());
    let ledger = Ledger {
        inbox,
        state,
        durable,
        batches: followed,
        recent,
        watermark,
        disk_low: Arc::new(AtomicBool::new(false)),
        is_stopping: Arc::new(AtomicBool::new(false)),
        denials: None,
        enforcement: Arc::new(enforcement),
        policy,
        rebuilt: Arc::default(),
        confirm_read: Arc::default(),
        clock,
    };
    let threads = Threads { decider, syncing, syncer };
    Ok((ledger, threads))
}

impl<J> Threads<J> {
    /// Waits until all decisions are durable, after [`Ledger::close`], and returns the journal.
    ///
    /// # Errors
    /// The failed write or fsync, if there was one.
    pub fn join(self) -> Result<J, quota_journal::Error> {
        if self.decider.join().is_err() {
            tracing::error!("the deciding thread panicked");
        }
        if let Err(panic) = self.syncing.join() {
            std::panic::resume_unwind(panic);
        }
        let syncer = Arc::into_inner(self.syncer).expect("the threads that shared it have ended");
        match syncer.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(syncer.journal.into_inner()),
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = fatal::EndOnPanic;
        run()
    })
}

// The writer of a cluster node: applies the leader's batches, and switches between following and leading.

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
    fn new(ledger: &Ledger, syncer: &Arc<Syncer<ReplicatedJournal<J>>>) -> Self {
        Self { ledger: ledger.clone(), syncer: Arc::downgrade(syncer) }
    }

    /// The end of the replica, durable in the log.
    pub fn end(&self) -> Durable {
        self.ledger.durable()
    }

    /// Appends batches through this member of the cluster from now on.
    pub fn attach(&self, handle: MemberHandle) {
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
            syncer.notify(&entries);
        }
        Ok(())
    }

    /// Takes images of the state after the first batch of each period of ledger time from now on, as all replicas do.
    /// May be called once; none if the ledger is closed.
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
