//! The single writer: every change of the ledger goes through its thread.
//!
//! Callers submit a decision, a function over the [`WriteTransaction`]. They get its result once all entries that it
//! relies on are durable. While a large batch is being synced the next one is being decided.

mod consumed;
mod decider;
mod digest_points;
mod inbox;
mod ledger;
mod linger;
mod recent;
mod replica;
mod syncer;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use parking_lot::{Mutex, RwLock};
use quota_core::{decide::Policy, state::State, transaction::WriteTransaction};
use quota_journal::{Durable, Journal};
use quota_ledger::group_commit::BATCH_BYTES;
use quota_replication::jetstream::{ReplicatedJournal, WallClock};
use quota_semantics::admission::Coverage;
use tokio::{
    runtime::Handle,
    sync::{broadcast, watch},
};

pub use consumed::{Required, Watermark};
pub use digest_points::Marked;
pub(crate) use ledger::For;
pub use ledger::Ledger;
pub use recent::{Batch, Recent};
pub use replica::{PendingDecisions, Replica};

use self::{
    decider::{Batching, Decider},
    inbox::{Gate, Inbox},
    linger::Linger,
    syncer::Syncer,
};
use crate::{enforcement::Enforcement, fatal, reason::Reason};

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
    #[must_use]
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
