//! The handle to the writer: submits decisions, and reads the state.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Instant,
};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use parking_lot::RwLock;
use quota_core::{
    decide::Policy,
    event::Sequence,
    state::{Image, State},
};
use quota_journal::Durable;
use quota_replication::jetstream::WallClock;
use quota_semantics::{Name, admission::Coverage};
use quota_service::traces;
use tokio::sync::{broadcast, oneshot, watch};
use tracing::{Instrument as _, Span as TraceSpan};

use super::{
    Answer, Batch, DecisionContext, Job, Recent, Unavailable,
    inbox::{Gate, Inbox},
    watermark::Watermark,
};
use crate::{
    denials::Denials,
    enforcement::Enforcement,
    fairness::Lane,
    metrics::{self, StateLock},
};

/// A handle to the writer and its state. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    pub(super) inbox: Arc<Inbox>,
    pub(super) state: Arc<RwLock<State>>,
    pub(super) durable: watch::Receiver<Durable>,
    pub(super) batches: broadcast::Sender<Batch>,
    pub(super) recent: Arc<Recent>,
    pub(super) watermark: Arc<Watermark>,
    pub(super) disk_low: Arc<AtomicBool>,
    /// Whether the daemon stops, so that nobody waits for disk space any more.
    pub(super) is_stopping: Arc<AtomicBool>,
    pub(super) denials: Option<Denials>,
    pub(super) enforcement: Arc<Enforcement>,
    pub(super) policy: Arc<Policy>,
    /// How often the state was rebuilt without decisions that it had held.
    pub(super) rebuilt: Arc<AtomicU64>,
    pub(super) confirm_read: Arc<OnceLock<ConfirmRead>>,
    pub(super) clock: Arc<WallClock>,
}

/// For whom a decision is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For<'a> {
    /// No principal: events, reviews, and decisions of the daemon itself. They go before the requests of principals.
    System,
    /// A principal, in turn with others.
    Principal(&'a Name),
    /// As `Principal`, and the decision is made while the disk is low, too: it frees capacity, or writes little.
    Always(&'a Name),
}

/// How often the state had been rebuilt before a peek: what the state holds may have been dropped if that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeforePeeks(u64);

/// Confirms that no other node can have decided anything meanwhile: see [`Ledger::confirm_reads_by`].
type ConfirmRead = Box<dyn Fn() -> BoxFuture<'static, Result<(), Unavailable>> + Send + Sync>;

impl Ledger {
    /// The same handle, with a store of denials.
    pub(crate) fn keeping_denials(mut self, denials: Denials) -> Self {
        self.denials = Some(denials);
        self
    }

    /// The store of denials, if there is one.
    pub const fn denials(&self) -> Option<&Denials> {
        self.denials.as_ref()
    }

    /// The same handle, with the kinds for which the API server calls the webhook.
    pub(crate) fn with_coverage(mut self, coverage: Coverage) -> Self {
        let (watermark, state) = (self.watermark.clone(), self.state.clone());
        self.enforcement = Arc::new(Enforcement::new(coverage, watermark, state));
        self
    }

    /// Determines which limits are in force.
    pub const fn enforcement(&self) -> &Arc<Enforcement> {
        &self.enforcement
    }

    /// The rules of all decisions.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Makes a decision for the cluster, before decisions for principals. Answers when all entries that the decision
    /// relies on are durable.
    ///
    /// # Errors
    /// [`Unavailable`]; after `Stopped` it is unknown whether the decision became durable.
    pub fn decide<R, D>(
        &self,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        self.decide_for(For::System, decision)
    }

    /// As [`Ledger::decide`], for the cluster or for a principal.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub(crate) fn decide_for<R, D>(
        &self,
        whom: For<'_>,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> R + Send + 'static,
    {
        let lane = self.lane(whom);
        let decided = self.decide_at(lane, |context| Some(decision(context)));
        decided.map_ok(|(result, _)| result)
    }

    /// As [`Ledger::decide_for`], about a subject that may be large. The job does not keep the subject in memory. If the
    /// caller stops waiting before the decision is made, the subject is freed at once, and nothing is decided: nobody
    /// would learn of the decision, and the caller may repeat the request.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub(crate) fn decide_about<S, R, D>(
        &self,
        whom: For<'_>,
        subject: Arc<S>,
        decision: D,
    ) -> impl Future<Output = Result<R, Unavailable>> + Send + use<S, R, D>
    where
        S: Send + Sync + 'static,
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>, &S) -> R + Send + 'static,
    {
        let decided = self.decide_at(self.lane(whom), while_held(&subject, decision));
        decided.map_ok(move |(result, _)| {
            drop(subject);
            result
        })
    }

    /// As [`Ledger::decide_about`], for several decisions in order. Other jobs may be decided between them, so that they
    /// do not wait for all of these. If the caller stops waiting, decisions already made stand, and the rest is not
    /// decided: while others are active the rest could wait long, and the caller may repeat the request meanwhile.
    ///
    /// # Errors
    /// [`Unavailable`]: none of the decisions was made if it is `NotLeader`, and some if it is `OutcomeUnknown`.
    pub(crate) fn decide_each<S, R, D>(
        &self,
        principal: &Name,
        subject: Arc<S>,
        decisions: Vec<D>,
    ) -> impl Future<Output = Result<Vec<R>, Unavailable>> + Send + use<S, R, D>
    where
        S: Send + Sync + 'static,
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>, &S) -> R + Send + 'static,
    {
        let decisions = decisions.into_iter();
        let jobs = decisions.map(|decision| job(while_held(&subject, decision)));
        let (jobs, answered): (Vec<_>, Vec<_>) = jobs.unzip();
        let lane = self.lane(For::Principal(principal));
        let handed = lane.and_then(|lane| self.push(&lane, jobs));
        let inbox = self.inbox.clone();
        async move {
            let _held = subject;
            handed?;
            let mut results = Vec::with_capacity(answered.len());
            for answer in answered {
                let is_part_made = !results.is_empty();
                let why = || inbox.why_dropped().with_part_made(is_part_made);
                let (result, _) = answer.await.map_err(|_| why())?;
                results.push(result);
            }
            Ok(results)
        }
    }

    fn unless_disk_low(&self) -> Result<(), Unavailable> {
        if !self.is_disk_low() {
            return Ok(());
        }
        metrics::limit_reached(metrics::Limit::MinFree);
        Err(match self.is_stopping.load(Ordering::Acquire) {
            true => Unavailable::Stopped,
            false => Unavailable::DiskLow,
        })
    }

    fn lane(&self, whom: For<'_>) -> Result<Lane, Unavailable> {
        match whom {
            For::System => self.unless_disk_low().map(|()| Lane::First),
            For::Principal(name) => self.unless_disk_low().map(|()| Lane::Of(name.clone())),
            For::Always(name) => Ok(Lane::Of(name.clone())),
        }
    }

    /// Makes a decision, and answers with the position of the ledger when the decision became durable. The decision
    /// returns nothing if it is not made, since nobody waits for it any more.
    ///
    /// The decision is handed in at once, unless it is refused: a future that held it would be moved about with it.
    fn decide_at<R, D>(
        &self,
        lane: Result<Lane, Unavailable>,
        decision: D,
    ) -> impl Future<Output = Result<(R, Durable), Unavailable>> + Send + use<R, D>
    where
        R: Send + 'static,
        D: FnOnce(&mut DecisionContext<'_>) -> Option<R> + Send + 'static,
    {
        let handed = lane.and_then(|lane| {
            let (job, answered) = job(decision);
            self.push(&lane, [job]).map(|()| answered)
        });
        let inbox = self.inbox.clone();
        let decided = Handed { handed, inbox };
        // The daemon's own decisions belong to no request and no trace.
        let span = match TraceSpan::current().is_none() {
            true => TraceSpan::none(),
            false => tracing::debug_span!(target: traces::TARGET, "decide"),
        };
        decided.instrument(span)
    }

    fn push(
        &self,
        lane: &Lane,
        jobs: impl IntoIterator<Item = Job, IntoIter: ExactSizeIterator>,
    ) -> Result<(), Unavailable> {
        self.inbox.push(lane, jobs).inspect_err(|refused| {
            if *refused == Unavailable::Overloaded {
                metrics::limit_reached(metrics::Limit::Queue);
            }
        })
    }

    /// Reads the state. Answers when the data read is durable and, on a leader, when it is certain that no other node
    /// can have decided anything before the read.
    ///
    /// # Errors
    /// [`Unavailable::Stopped`]; [`Unavailable::NotLeader`] if the data read was dropped, since another node leads.
    pub async fn read<R>(&self, question: impl FnOnce(&State) -> R) -> Result<R, Unavailable> {
        let (answer, sequence, rebuilt) = self.peek(|state| {
            let rebuilt = self.before_peeks();
            (question(state), state.head().sequence, rebuilt)
        });
        self.confirm(sequence, rebuilt).await?;
        Ok(answer)
    }

    /// To be called before the first of several peeks of which an answer is put together: [`Ledger::read_after`] confirms
    /// what they have seen.
    pub(crate) fn before_peeks(&self) -> BeforePeeks {
        BeforePeeks(self.rebuilt.load(Ordering::Acquire))
    }

    /// As [`Ledger::read`], also for all that was peeked at since `before`.
    ///
    /// # Errors
    /// As [`Ledger::read`].
    pub(crate) async fn read_after<R>(
        &self,
        before: BeforePeeks,
        question: impl FnOnce(&State) -> R,
    ) -> Result<R, Unavailable> {
        let (answer, sequence) = self.peek(|state| (question(state), state.head().sequence));
        self.confirm(sequence, before).await?;
        Ok(answer)
    }

    /// Waits until entries up to this one are durable. None may have been dropped, and no other node may have decided
    /// anything before the call.
    async fn confirm(&self, sequence: Sequence, before: BeforePeeks) -> Result<(), Unavailable> {
        self.wait_durable(sequence).await?;
        if self.before_peeks() != before {
            return Err(Unavailable::NotLeader);
        }
        match self.confirm_read.get() {
            Some(confirm_read) => confirm_read().await,
            None => Ok(()),
        }
    }

    /// Makes reads wait from now on until it is certain that this node led at the time of the call, unless it follows.
    /// The function answers [`Unavailable::NotLeader`] if another node may have led. Set once.
    pub(crate) fn confirm_reads_by(
        &self,
        confirm_read: impl Fn() -> BoxFuture<'static, Result<(), Unavailable>> + Send + Sync + 'static,
    ) {
        let _ = self.confirm_read.set(Box::new(confirm_read));
    }

    /// Whether decisions are made on this node: always, except on a follower.
    pub fn decides(&self) -> bool {
        self.inbox.is_open()
    }

    /// Waits until decisions are made on this node, or are not.
    pub(crate) async fn wait_until_decides(&self, decides: bool) {
        let mut gate = self.inbox.gate();
        // This fails only without a sender, and `self` holds it.
        let _ = gate.wait_for(|gate| (*gate == Gate::Open) == decides).await;
    }

    /// Reads the state as it is, durable or not: for uses within the daemon, such as computing a footprint, or for
    /// output whose loss does not matter, such as metrics.
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
        let reached = durable.wait_for(|durable| durable.sequence >= sequence).await;
        reached.map(|_| ()).map_err(|_| Unavailable::Stopped)
    }

    /// The state at the end of a durable batch.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn image(&self) -> Result<(Image, Durable), Unavailable> {
        if !self.decides() {
            return self.image_of_follower();
        }
        self.decide_at(Ok(Lane::First), |context| {
            context.closes = true;
            Some(context.transaction.state().image())
        })
        .await
    }

    /// A follower applies only durable batches, so its state is that of the durable end.
    fn image_of_follower(&self) -> Result<(Image, Durable), Unavailable> {
        let state = self.state.read();
        let durable = *self.durable.borrow();
        match state.head().sequence == durable.sequence {
            true => Ok((state.image(), durable)),
            false => Err(Unavailable::NotLeader),
        }
    }

    /// The durable position of the ledger.
    pub fn durable(&self) -> Durable {
        *self.durable.borrow()
    }

    /// The latest durable batches, for watches: whoever waits for a client.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The batches as they become durable, from now on. Batches that the receiver has not taken stay in memory: only
    /// for followers that never wait for a client.
    pub fn watch(&self) -> broadcast::Receiver<Batch> {
        self.batches.subscribe()
    }

    /// The time up to which the sources have been consumed.
    pub fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// The clock by which decisions are dated.
    pub(crate) const fn clock(&self) -> &Arc<WallClock> {
        &self.clock
    }

    /// Accepts no more decisions. Waiting ones are still made.
    pub fn close(&self) {
        self.inbox.close();
    }

    /// Sets whether disk space is low.
    pub(crate) fn set_disk_low(&self, low: bool) {
        self.disk_low.store(low, Ordering::Release);
    }

    /// The daemon stops: what the low disk refuses is refused for good, so that no task waits for space.
    pub(crate) fn stop_waiting_for_space(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Whether disk space is too low for decisions that grow the ledger.
    pub(crate) fn is_disk_low(&self) -> bool {
        self.disk_low.load(Ordering::Acquire)
    }
}

/// A decision that has been handed in, or why it was not.
pub(super) struct Handed<R> {
    pub(super) handed: Result<oneshot::Receiver<(R, Durable)>, Unavailable>,
    pub(super) inbox: Arc<Inbox>,
}

impl<R> Future for Handed<R> {
    type Output = Result<(R, Durable), Unavailable>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handed, inbox } = &mut *self;
        let answered = match handed {
            Ok(answered) => ready!(answered.poll_unpin(cx)),
            Err(refused) => return Poll::Ready(Err(*refused)),
        };
        Poll::Ready(answered.map_err(|_| inbox.why_dropped()))
    }
}

/// A decision about a subject, which is made only if the caller still holds the subject.
pub(super) fn while_held<S, R, D>(
    subject: &Arc<S>,
    decision: D,
) -> impl FnOnce(&mut DecisionContext<'_>) -> Option<R> + Send + use<S, R, D>
where
    S: Send + Sync + 'static,
    D: FnOnce(&mut DecisionContext<'_>, &S) -> R + Send + 'static,
{
    let subject = Arc::downgrade(subject);
    move |context| {
        let subject = subject.upgrade()?;
        Some(decision(context, &subject))
    }
}

/// A decision as a job, and the receiver of its result.
pub(super) fn job<R, D>(decision: D) -> (Job, oneshot::Receiver<(R, Durable)>)
where
    R: Send + 'static,
    D: FnOnce(&mut DecisionContext<'_>) -> Option<R> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job = move |context: &mut DecisionContext<'_>| -> Answer {
        let Some(result) = decision(context) else {
            return Box::new(|_| {});
        };
        Box::new(move |durable: &Durable| {
            // The caller may no longer wait. The decision is valid all the same.
            let _ = answer.send((result, *durable));
        })
    };
    (Box::new(job), answered)
}
