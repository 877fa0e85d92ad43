//! The one writer: everything that changes the ledger goes through its thread.
//!
//! Callers hand in a decision, a function over the [`WriteTransaction`]; they get its result once all that it rests on is
//! durable. While one batch is being synced the next one is being decided.

mod decider;
mod inbox;
mod lanes;
mod linger;
mod marks;
mod replica;
mod syncer;
#[cfg(test)]
mod tests;
mod watermark;

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};
use quota_cluster::ReplicatedJournal;
use quota_core::{
    decide::Policy,
    event::{Entry, Sequence},
    state::{Image, State},
    transaction::WriteTransaction,
};
use quota_journal::{Durable, Journal};
use quota_ledger::group_commit::BATCH_BYTES;
use quota_semantics::{Name, admission::Coverage};
use quota_service::traces;
use tokio::{
    runtime::Handle,
    sync::{broadcast, oneshot, watch},
};
use tracing::{Instrument as _, Span};

pub use crate::clock::now;
pub use marks::Marked;
pub use replica::{Replica, Shut};
pub use watermark::{Required, Watermark};

use self::{
    inbox::{Gate, Inbox},
    lanes::Turn,
    linger::Linger,
    syncer::Syncer,
};
use crate::{
    denials::Denials,
    metrics::{self, StateLock},
    reason::Reason,
};

/// How many batches a slow watcher may be behind before it has to read the journal again.
const WATCHED_BATCHES: usize = 1024;

/// What the writer is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules of all decisions.
    pub policy: Policy,
    /// Most decisions that wait in the queue; more are refused.
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
    /// There is too little room on the disk for what adds to the ledger.
    #[error(
        "the disk is low: nothing is granted, and no events are taken in, until there is room again"
    )]
    DiskLow,
    /// Another node of the cluster leads, or none does: nothing was decided.
    #[error("this node does not lead the cluster: nothing was decided")]
    NotLeader,
    /// A write or fsync failed, or the daemon is stopping: there will be no answer.
    #[error("the ledger takes no more entries")]
    Stopped,
}

impl From<Unavailable> for Reason {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Overloaded => Self::Overloaded,
            Unavailable::DiskLow => Self::DiskLow,
            Unavailable::NotLeader => Self::NotLeader,
            Unavailable::Stopped => Self::Stopped,
        }
    }
}

/// To be called with where the ledger stands once a batch is durable.
type Answer = Box<dyn FnOnce(&Durable) + Send>;

/// A decision: made on the transaction, answered when durable.
type Job = Box<dyn FnOnce(&mut DecisionContext<'_>) -> Answer + Send>;

/// The transaction, and what else a decision may want.
pub struct DecisionContext<'a> {
    /// The transaction.
    pub transaction: WriteTransaction<'a>,
    /// The rules of all decisions.
    pub policy: &'a Policy,
    closes: bool,
}

/// Entries that have just become durable.
pub type Batch = Arc<Vec<Entry>>;

/// A handle to the writer and to what it has written. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    inbox: Arc<Inbox>,
    state: Arc<RwLock<State>>,
    durable: watch::Receiver<Durable>,
    batches: broadcast::Sender<Batch>,
    watermark: Arc<Watermark>,
    stopped: Arc<AtomicBool>,
    disk_low: Arc<AtomicBool>,
    denials: Option<Denials>,
    coverage: Arc<Coverage>,
    /// How often the state was rebuilt without decisions that it held before.
    rebuilt: Arc<AtomicU64>,
    lease: Arc<OnceLock<Box<dyn Lease>>>,
}

/// Whether nobody else can have decided anything meanwhile.
pub trait Lease: Send + Sync {
    /// Waits until it is certain that this node led when it was called. A node that follows does not wait.
    ///
    /// # Errors
    /// [`Unavailable::NotLeader`]: another may have led.
    fn confirm(&self) -> Pin<Box<dyn Future<Output = Result<(), Unavailable>> + Send + '_>>;
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
    let batches = (BATCH_BYTES, Linger::new(false));
    start_at(Gate::Open, batches, parts, watermark, options, failed)
}

/// The same for a node of a cluster: it decides nothing before [`Replica::lead`].
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
    let batches = (quota_cluster::BATCH_BYTES, Linger::new(true));
    let (ledger, threads) = start_at(Gate::Shut, batches, parts, watermark, options, failed)?;
    let replica = Replica::new(&ledger, &threads.syncer);
    Ok((ledger, threads, replica))
}

fn start_at<J: Journal + 'static>(
    gate: Gate,
    batches: (usize, Linger),
    (state, journal, durable): (State, J, Durable),
    watermark: Arc<Watermark>,
    options: Options,
    failed: impl FnOnce(&quota_journal::Error) + Send + 'static,
) -> std::io::Result<(Ledger, Threads<J>)> {
    let inbox = Arc::new(Inbox::new(options.queue, gate));
    let (durable_out, durable) = watch::channel(durable);
    let (watched, _) = broadcast::channel(WATCHED_BATCHES);
    let state = Arc::new(RwLock::new(state));
    let stopped = Arc::new(AtomicBool::new(false));
    let syncer = Arc::new(Syncer {
        journal: Mutex::new(journal),
        inbox: inbox.clone(),
        durable: durable_out,
        watchers: watched.clone(),
        stopped: stopped.clone(),
        runtime: Handle::try_current().ok(),
        marks: OnceLock::new(),
        failed: Mutex::new(Some(Box::new(failed))),
        error: Mutex::new(None),
    });
    let decider = decider::Decider::new(
        inbox.clone(),
        syncer.clone(),
        state.clone(),
        watermark.clone(),
        options,
        batches,
    );
    let syncs = syncer.clone();
    let syncing = spawn("syncer", move || syncs.run())?;
    let decider = spawn("decider", move || decider.run())?;
    let ledger = Ledger {
        inbox,
        state,
        durable,
        batches: watched,
        watermark,
        stopped,
        disk_low: Arc::new(AtomicBool::new(false)),
        denials: None,
        coverage: Arc::new(Coverage::everything()),
        rebuilt: Arc::default(),
        lease: Arc::default(),
    };
    let threads = Threads {
        decider,
        syncing,
        syncer,
    };
    Ok((ledger, threads))
}

impl<J> Threads<J> {
    /// Waits until everything decided is durable, after [`Ledger::close`], and gives the journal back.
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

impl Ledger {
    /// The same, with a place where denials are kept.
    #[must_use]
    pub fn keeping_denials(mut self, denials: Denials) -> Self {
        self.denials = Some(denials);
        self
    }

    /// Where denials are kept, if they are.
    #[must_use]
    pub const fn denials(&self) -> Option<&Denials> {
        self.denials.as_ref()
    }

    /// The same, with what the API server asks the webhook about.
    #[must_use]
    pub fn with_coverage(mut self, coverage: Coverage) -> Self {
        self.coverage = Arc::new(coverage);
        self
    }

    /// Which limits are enforced.
    #[must_use]
    pub const fn coverage(&self) -> &Arc<Coverage> {
        &self.coverage
    }

    /// Makes a decision that the cluster waits for, before what principals ask for, and answers when all that it rests
    /// on is durable.
    ///
    /// # Errors
    /// [`Unavailable`]; when stopped, whether the decision became durable is not known.
    pub fn decide<R, D>(
        &self,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        let handed = self.unless_disk_low();
        let handed = handed.map(|()| self.decide_one(&Turn::First, decision));
        async move { handed?.await }
    }

    /// As [`Ledger::decide`], for a principal, in turn with others.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn decide_for<R, D>(
        &self,
        principal: &Name,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        let handed = self.unless_disk_low();
        let handed = handed.map(|()| self.decide_always(principal, decision));
        async move { handed?.await }
    }

    /// As [`Ledger::decide_for`], also while the disk is low: for what goes on with reservations that stand, and for
    /// what ends something.
    ///
    /// # Errors
    /// [`Unavailable`], but not for want of room.
    pub fn decide_always<R, D>(
        &self,
        principal: &Name,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        self.decide_one(&Turn::Of(principal.clone()), decision)
    }

    /// As [`Ledger::decide_for`], for several decisions in their order. Others may be decided between them, so that
    /// nobody waits for all of them. When nobody waits for the answer any more, what was decided stands, and the rest is not
    /// decided: while others are active it may be long until its turn comes, and meanwhile the same is asked for again.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn decide_each<R, D>(
        &self,
        principal: &Name,
        decisions: Vec<D>,
    ) -> impl Future<Output = Result<Vec<R>, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        let decisions = decisions.into_iter();
        let jobs = decisions.map(|decision| job(|context| (decision(context), false), true));
        let (jobs, answered): (Vec<_>, Vec<_>) = jobs.unzip();
        let handed = self.unless_disk_low();
        let handed = handed.and_then(|()| self.push(&Turn::Of(principal.clone()), jobs));
        let inbox = self.inbox.clone();
        async move {
            handed?;
            let mut results = Vec::with_capacity(answered.len());
            for answer in answered {
                let (result, _) = answer.await.map_err(|_| inbox.why_dropped())?;
                results.push(result);
            }
            Ok(results)
        }
    }

    fn unless_disk_low(&self) -> Result<(), Unavailable> {
        if self.is_disk_low() {
            metrics::limit_reached(metrics::Limit::MinFree);
            return Err(Unavailable::DiskLow);
        }
        Ok(())
    }

    fn decide_one<R, D>(
        &self,
        turn: &Turn,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        let decided = self.decide_at(turn, |context| (decision(context), false));
        async move { decided.await.map(|(result, _)| result) }
    }

    /// Makes a decision, and answers with where the ledger stood when it became durable. If the decision asks for it,
    /// its batch ends with it.
    ///
    /// The decision is handed in at once: a future that held it would be moved about with it.
    fn decide_at<R, D>(
        &self,
        turn: &Turn,
        decision: D,
    ) -> impl Future<Output = Result<(R, Durable), Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> (R, bool) + Send + 'static,
    {
        let (job, answered) = job(decision, false);
        let handed = self.push(turn, [job]);
        let inbox = self.inbox.clone();
        let decided = async move {
            handed?;
            answered.await.map_err(|_| inbox.why_dropped())
        };
        // What the daemon decides by itself is part of no request, and no trace.
        let span = match Span::current().is_none() {
            true => Span::none(),
            false => tracing::debug_span!(target: traces::TARGET, "decide"),
        };
        decided.instrument(span)
    }

    fn push(&self, turn: &Turn, jobs: impl IntoIterator<Item = Job>) -> Result<(), Unavailable> {
        self.inbox.push(turn, jobs).inspect_err(|refused| {
            if *refused == Unavailable::Overloaded {
                metrics::limit_reached(metrics::Limit::Queue);
            }
        })
    }

    /// Reads the state, and answers when what was read is durable and, on a node that leads, when nobody else can have
    /// decided anything before it was read.
    ///
    /// # Errors
    /// [`Unavailable::Stopped`]; [`Unavailable::NotLeader`] if what was read was dropped, since another node leads.
    pub async fn read<R>(&self, question: impl FnOnce(&State) -> R) -> Result<R, Unavailable> {
        let (answer, sequence, rebuilt) = self.peek(|state| {
            let rebuilt = self.rebuilt.load(Ordering::Acquire);
            (question(state), state.head().sequence, rebuilt)
        });
        self.wait_durable(sequence).await?;
        if self.rebuilt.load(Ordering::Acquire) != rebuilt {
            return Err(Unavailable::NotLeader);
        }
        if let Some(lease) = self.lease.get() {
            lease.confirm().await?;
        }
        Ok(answer)
    }

    /// From now on reads are answered within a lease. Set once.
    pub fn confirm_reads_by(&self, lease: Box<dyn Lease>) {
        let _ = self.lease.set(lease);
    }

    /// Whether decisions are made here. Always, but for a node that follows.
    #[must_use]
    pub fn decides(&self) -> bool {
        self.inbox.is_open()
    }

    /// Waits until decisions are made here, or are not.
    pub async fn wait_until_decides(&self, decides: bool) {
        let mut gate = self.inbox.gate();
        // Fails only without a sender, and that is held here.
        let _ = gate.wait_for(|gate| (*gate == Gate::Open) == decides).await;
    }

    /// Reads the state as it is, durable or not: for what does not leave the daemon, such as computing a
    /// footprint, or tells nothing that could be lost, such as metrics.
    pub fn peek<R>(&self, question: impl FnOnce(&State) -> R) -> R {
        let state = self.state.read();
        let began = Instant::now();
        let answer = question(&state);
        drop(state);
        metrics::state_lock(StateLock::Reader, began.elapsed());
        answer
    }

    /// Waits until an entry is durable.
    ///
    /// # Errors
    /// [`Unavailable::Stopped`].
    pub async fn wait_durable(&self, sequence: Sequence) -> Result<(), Unavailable> {
        let mut durable = self.durable.clone();
        let reached = durable
            .wait_for(|durable| durable.sequence >= sequence)
            .await;
        reached.map(|_| ()).map_err(|_| Unavailable::Stopped)
    }

    /// The state as it stood at the end of a durable batch.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn image(&self) -> Result<(Image, Durable), Unavailable> {
        if !self.decides() {
            return self.image_of_follower();
        }
        self.decide_at(&Turn::First, |context| {
            (context.transaction.state().image(), true)
        })
        .await
    }

    /// A follower applies what is durable, so its state is that of its durable end.
    fn image_of_follower(&self) -> Result<(Image, Durable), Unavailable> {
        let state = self.state.read();
        let durable = *self.durable.borrow();
        match state.head().sequence == durable.sequence {
            true => Ok((state.image(), durable)),
            false => Err(Unavailable::NotLeader),
        }
    }

    /// Where the durable ledger stands.
    #[must_use]
    pub fn durable(&self) -> Durable {
        *self.durable.borrow()
    }

    /// The batches as they become durable, from now on.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Batch> {
        self.batches.subscribe()
    }

    /// Up to when the sources have been consumed.
    #[must_use]
    pub fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// Takes no more decisions. Those that wait are still made.
    pub fn close(&self) {
        self.inbox.close();
    }

    /// From now on there is too little room on the disk, or enough again.
    pub fn set_disk_low(&self, low: bool) {
        self.disk_low.store(low, Ordering::Release);
    }

    /// Whether there is too little room on the disk for what adds to the ledger.
    #[must_use]
    pub fn is_disk_low(&self) -> bool {
        self.disk_low.load(Ordering::Acquire)
    }

    /// Whether a failed write or fsync has ended all writing.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// A decision as a job, and where its result comes out. `if_awaited`: nothing is decided once nobody waits for that.
fn job<R, D>(decision: D, if_awaited: bool) -> (Job, oneshot::Receiver<(R, Durable)>)
where
    R: Send + 'static,
    D: FnOnce(&mut DecisionContext<'_>) -> (R, bool) + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job = move |context: &mut DecisionContext<'_>| -> Answer {
        if if_awaited && answer.is_closed() {
            return Box::new(|_| {});
        }
        let (result, closes) = decision(context);
        context.closes |= closes;
        Box::new(move |durable: &Durable| {
            // Nobody may be waiting any more; the decision stands all the same.
            let _ = answer.send((result, *durable));
        })
    };
    (Box::new(job), answered)
}

/// A panic on one of the writer's threads ends the process: the state may be half changed, and nobody would get
/// an answer any more. What is durable is recovered at the next start.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(i32::from(crate::exit::Exit::Failure.code()));
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _guard = EndOnPanic;
            run()
        })
}
