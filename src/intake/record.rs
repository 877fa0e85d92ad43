//! Turns events into entries, in one batch with the position of their source.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc, time::Duration};

use parking_lot::Mutex;
pub use quota_core::source::{Consumed, Recorded};
use quota_core::{
    decide::{self, Refusal, Relist},
    event::{Actor, Cursor, DEAD_LETTER_MAX_BYTES, DeadLetter, Event, RelistEnd, RelistOutcome},
    size,
    source::{self, Observation},
    state::RelistView,
};
use quota_semantics::{Name, Timestamp, uid::Uid};

use super::payload::{Incoming, Rejected, SIGHTING_MAX_BYTES};
use crate::{
    log_limiter::{LogLimiter, cut},
    metrics::{self, Correction, CorrectionCause, Relisted, Source},
    writer::{DecisionContext, Ledger, Unavailable},
};

/// A chunk is full at this size in bytes, so that its entries fit into one batch with entries of other jobs.
const CHUNK_BYTES: usize = 2 * 1024 * 1024;

/// A chunk is full with this many events: they are decided in one job, while readers wait for the state and other jobs
/// for their decisions.
const CHUNK_EVENTS: usize = 1024;

// A batch that is about to be closed, a chunk, and the event that filled it have to fit into one message of the
// cluster.
const _: () = assert!(
    quota_replication::jetstream::BATCH_BYTES + CHUNK_BYTES + SIGHTING_MAX_BYTES
        < quota_replication::jetstream::PAYLOAD_MAX
);

/// Events that become entries in one batch.
#[derive(Debug, Default)]
pub struct Chunk {
    observations: Vec<Observation>,
    ignored: u64,
    size: usize,
}

impl Chunk {
    /// A chunk with the capacity of another one: consecutive chunks of a source have similar sizes.
    pub(crate) fn like(other: &Self) -> Self {
        Self { observations: Vec::with_capacity(other.observations.len()), ..Self::default() }
    }

    /// Adds an event that was sent just now.
    pub fn add(&mut self, incoming: Incoming) {
        self.size += incoming.size;
        match incoming.observation {
            Some(observation) => self.observations.push(observation),
            None => self.ignored += 1,
        }
    }

    /// Adds an event that a source received at this time.
    pub(crate) fn add_received(&mut self, mut incoming: Incoming, source: &Name, time: Timestamp) {
        match &mut incoming.observation {
            Some(Observation::Relist { received, .. }) => *received = Some((source.clone(), time)),
            Some(Observation::Bookmark { received, .. }) => *received = Some(time),
            _ => {}
        }
        self.add(incoming);
    }

    /// Adds a rejected event, as a dead letter of `source` at `position`.
    pub(crate) fn add_rejected(&mut self, source: &Name, position: u64, rejected: Rejected) {
        let Rejected { rejection, reason, resource, text, .. } = rejected;
        metrics::events_rejected(rejection);
        tracing::debug!(%source, position, reason, "an event was rejected");
        let kept = &text[..text.len().min(DEAD_LETTER_MAX_BYTES)];
        let payload = String::from_utf8_lossy(kept);
        let payload = cut(&payload, DEAD_LETTER_MAX_BYTES);
        self.size += size::ENTRY + payload.len() + reason.len();
        let (source, reason, payload) = (source.clone(), reason.into(), payload.into());
        let letter = DeadLetter { source, position, reason, payload };
        self.observations.push(Observation::Rejected { letter, resource });
    }

    /// Counts a message that reports nothing.
    pub(crate) const fn add_ignored(&mut self) {
        self.ignored += 1;
    }

    /// Records that positions of a source were lost before they could be consumed. Must be called before events after
    /// the gap are added.
    pub(crate) fn add_gap(&mut self, source: &Name, positions: RangeInclusive<u64>) {
        self.size += size::ENTRY;
        let source = source.clone();
        self.observations.push(Observation::Gap { source, positions });
    }

    /// Whether the chunk has to be recorded before more is added.
    pub fn is_full(&self, max_entries: usize) -> bool {
        self.observations.len() >= max_entries.min(CHUNK_EVENTS) || self.size >= CHUNK_BYTES
    }

    /// Whether the chunk is empty.
    pub const fn is_empty(&self) -> bool {
        self.observations.is_empty() && self.ignored == 0
    }
}

/// The outcome for a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Counts of recorded events.
    pub recorded: Recorded,
    /// The kinds whose relists ended without effect, since an event was lost or rejected meanwhile.
    pub incomplete: BTreeSet<Name>,
}

/// Turns a chunk into entries, in one batch; answers when they are durable.
///
/// # Errors
/// [`Unavailable`]. Recording the same events again is safe.
pub async fn record(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    chunk: Chunk,
) -> Result<Recorded, Unavailable> {
    let pending = Pending::new(chunk, None);
    let done = record_pending(ledger, actor, from, pending).await?;
    Ok(done.recorded)
}

/// Like [`record`], in one batch with the position of the source. If the recorded position is not lower, nothing
/// happens. While the queue is full or the disk is low, this waits and retries.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub(crate) async fn record_patiently(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    chunk: Chunk,
    consumed: Option<Consumed>,
) -> Result<Done, Unavailable> {
    let pending = Pending::new(chunk, consumed);
    until_decided(|| record_pending(ledger, actor, from, pending.clone())).await
}

/// The recorded position of a source, after all earlier jobs: an aborted session may have left a job in the queue.
/// While the queue is full, this waits and retries.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn cursor(ledger: &Ledger, source: &Name) -> Result<Option<Cursor>, Unavailable> {
    until_decided(|| {
        let source = source.clone();
        ledger.decide(move |context| context.transaction.state().sources().get(&source).cloned())
    })
    .await
}

/// Resets a source. While the queue is full or the disk is low, this waits and retries.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn reset(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    source: &Name,
    incarnation: &Name,
) -> Result<(), Unavailable> {
    until_decided(|| {
        let (actor, source, incarnation) = (actor.clone(), source.clone(), incarnation.clone());
        ledger.decide(move |context| {
            let transaction = &mut context.transaction;
            let events = decide::reset(transaction.state(), &source, &incarnation);
            transaction.record(&actor, events);
        })
    })
    .await
}

/// Records an event without a source position. While the queue is full or the disk is low, this waits and retries.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn note(ledger: &Ledger, actor: &Arc<Actor>, event: Event) -> Result<(), Unavailable> {
    until_decided(|| {
        let (actor, event) = (actor.clone(), event.clone());
        ledger.decide(move |context| {
            context.transaction.record(&actor, [event]);
        })
    })
    .await
}

/// Records which workloads are charged for their pods. While the queue is full or the disk is low, this waits and
/// retries. Answers whether the record changed.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn set_charging(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    kinds: &BTreeSet<Name>,
    source: Option<&Name>,
) -> Result<bool, Unavailable> {
    if ledger.peek(|state| decide::is_charging(state, kinds)) {
        return Ok(false);
    }
    until_decided(|| {
        let (actor, kinds, source) = (actor.clone(), kinds.clone(), source.cloned());
        ledger.decide(move |context| {
            let transaction = &mut context.transaction;
            let events = decide::set_charging(transaction.state(), &kinds, source.as_ref());
            transaction.record(&actor, events);
            true
        })
    })
    .await
}

/// Records which labels of objects are kept for groups to select by. Waits as [`set_charging`] does. Answers whether
/// the record changed.
///
/// # Errors
/// [`Unavailable::Stopped`]; the inner error is a conflict with existing groups.
pub async fn set_object_labels(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    keys: &BTreeSet<Name>,
    source: Option<&Name>,
) -> Result<Result<bool, Refusal>, Unavailable> {
    if ledger.peek(|state| state.object_labels() == keys) {
        return Ok(Ok(false));
    }
    until_decided(|| {
        let (actor, keys, source) = (actor.clone(), keys.clone(), source.cloned());
        ledger.decide(move |context| {
            let transaction = &mut context.transaction;
            let events = decide::set_object_labels(transaction.state(), &keys, source.as_ref())?;
            transaction.record(&actor, events);
            Ok(true)
        })
    })
    .await
}

/// The data to record. It is kept until the decision is made: a refused attempt leaves it for the next one.
#[derive(Clone)]
struct Pending(Arc<Mutex<Option<Part>>>);

/// Events to record, and the position up to which they consume the source.
type Part = (Chunk, Option<Consumed>);

impl Pending {
    fn new(chunk: Chunk, consumed: Option<Consumed>) -> Self {
        Self(Arc::new(Mutex::new(Some((chunk, consumed)))))
    }

    fn record(
        &self,
        context: &mut DecisionContext<'_>,
        by: &Arc<Actor>,
    ) -> (Recorded, source::Relisted) {
        let Some((chunk, consumed)) = self.0.lock().take() else {
            return <_>::default();
        };
        let Chunk { observations, ignored, .. } = chunk;
        source::record(&mut context.transaction, by, observations, ignored, consumed.as_ref())
    }
}

/// Requests with rejected events that are logged per second.
static REJECTIONS: LogLimiter = LogLimiter::new(10);

async fn record_pending(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    pending: Pending,
) -> Result<Done, Unavailable> {
    let by = actor.clone();
    let decision = move |context: &mut DecisionContext<'_>| pending.record(context, &by);
    let (recorded, relisted) = ledger.decide(decision).await?;
    let incomplete = follow(ledger, &actor.principal, &relisted).await;
    let incomplete = incomplete.map_err(|refused| refused.with_part_made(true))?;
    let Recorded { accepted, ignored, rejected } = recorded;
    metrics::events_consumed(from, accepted + ignored);
    metrics::events_duplicate(from, ignored);
    if rejected > 0 {
        let source = &actor.principal;
        if let Some(held_back) = REJECTIONS.pass() {
            tracing::warn!(%source, rejected, held_back, "events were rejected; they are kept as dead letters");
        }
    }
    Ok(Done { recorded, incomplete })
}

/// First and longest wait before the next attempt.
const WAITS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// Retries until the writer decides.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub(super) async fn until_decided<R, F: Future<Output = Result<R, Unavailable>>>(
    attempt: impl Fn() -> F,
) -> Result<R, Unavailable> {
    let [mut wait, longest] = WAITS;
    loop {
        match attempt().await {
            Err(Unavailable::Overloaded | Unavailable::DiskLow) => tokio::time::sleep(wait).await,
            answer => return answer,
        }
        wait = (wait * 2).min(longest);
    }
}

// Ends relists: objects that were not listed are ended, a few per decision, so that other jobs need not wait.

/// Table places that are scanned while the state is locked once.
const PLACES: u32 = 16_384;

/// Most objects that one decision ends.
const ENDED: usize = 500;

/// Lines about relists that are logged per second: publishers may send many.
static LINES: LogLimiter = LogLimiter::new(10);

/// Reports the outcome of relists, and finishes those that were closed. Answers the kinds whose relists ended without
/// effect, since an event was lost or rejected meanwhile.
pub(super) async fn follow(
    ledger: &Ledger,
    source: &Name,
    relisted: &source::Relisted,
) -> Result<BTreeSet<Name>, Unavailable> {
    for relist in &relisted.passed_over {
        if let Some(held_back) = LINES.pass() {
            tracing::warn!(%source, ?relist, held_back, "relist ignored: too many relists are open, or its beginning was not received");
        }
        metrics::relists(match relist {
            Relist::Begin { .. } => Relisted::Refused,
            Relist::Finish(_) => Relisted::NotBegun,
        });
    }
    for relist in &relisted.outdated {
        if let Relist::Begin { resource, .. } = relist {
            if let Some(held_back) = LINES.pass() {
                tracing::info!(%source, %resource, held_back, "a relist was ignored: it was recorded before, and its stream is read again");
            }
            metrics::relists(Relisted::Outdated);
        }
    }
    relisted.decided.iter().for_each(report);
    let is_closed = |event: &Event| matches!(event, Event::RelistClosed(_));
    if relisted.decided.iter().any(is_closed) {
        finish(ledger).await?;
    }
    let incomplete = relisted.decided.iter().filter_map(|event| match event {
        Event::RelistEnded(end) if end.outcome == RelistOutcome::Incomplete => {
            Some(end.scope.resource.clone())
        }
        _ => None,
    });
    Ok(incomplete.collect())
}

/// Ends the objects that closed relists have not listed, and then the relists. Answers when all of this is durable.
///
/// To be called after a relist was closed, and after a start, to resume the work after a crash.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn finish(ledger: &Ledger) -> Result<(), Unavailable> {
    while let Some(relist) = ledger.peek(quota_core::state::State::closed_relist) {
        sweep(ledger, &relist).await?;
    }
    Ok(())
}

async fn sweep(ledger: &Ledger, relist: &RelistView) -> Result<(), Unavailable> {
    let mut next = Some(0);
    while let Some(from) = next {
        let (uids, then) = ledger.peek(|state| state.unlisted(&relist.scope, from, PLACES));
        next = then;
        for uids in uids.chunks(ENDED) {
            // Ended objects are skipped: the same call again ends the remaining ones.
            while end(ledger, relist, uids.to_vec()).await? {}
        }
    }
    let over = decide_on(ledger, relist, |state, relist| {
        let end = decide::end_relist(state, &relist.scope, relist.began);
        end.into_iter().collect()
    });
    over.await.map(drop)
}

/// Ends as many objects as fit into one decision. Answers whether there were any.
async fn end(
    ledger: &Ledger,
    relist: &RelistView,
    uids: Vec<(Name, Uid)>,
) -> Result<bool, Unavailable> {
    let ended = decide_on(ledger, relist, move |state, relist| {
        let events = decide::end_unlisted(state, &relist.scope, relist.began, &uids);
        size::at_once(events, ENDED).0
    });
    Ok(ended.await? > 0)
}

/// Records a decision on a relist. Answers the number of its events.
async fn decide_on(
    ledger: &Ledger,
    relist: &RelistView,
    decision: impl Fn(&quota_core::state::State, &RelistView) -> Vec<Event> + Clone + Send + 'static,
) -> Result<usize, Unavailable> {
    let actor = Actor::named(&relist.scope.source);
    let events = until_decided(|| {
        let (actor, relist, decision) = (actor.clone(), relist.clone(), decision.clone());
        ledger.decide(move |context| {
            let transaction = &mut context.transaction;
            let events = decision(transaction.state(), &relist);
            transaction.record(&actor, events.clone());
            events
        })
    })
    .await?;
    events.iter().for_each(report);
    Ok(events.len())
}

/// Reports the outcome of a relist to the metrics and the log.
fn report(event: &Event) {
    match event {
        Event::ObjectEnded(_) | Event::NamespaceDeleted { .. } => {
            metrics::drift_corrected(Correction::Ended, CorrectionCause::Relist, 1);
        }
        Event::RelistEnded(end) => {
            if let Some(held_back) = LINES.pass() {
                log(end, held_back);
            }
            metrics::relists(match end.outcome {
                RelistOutcome::Complete => Relisted::Complete,
                RelistOutcome::Empty => Relisted::Empty,
                RelistOutcome::Incomplete => Relisted::Incomplete,
            });
        }
        _ => {}
    }
}

fn log(end: &RelistEnd, held_back: u64) {
    let RelistEnd { scope, outcome, listed, ended, .. } = end;
    let namespace = scope.namespace.as_deref().unwrap_or("*");
    let (source, resource) = (&scope.source, &scope.resource);
    match outcome {
        RelistOutcome::Complete if *ended == 0 => {
            tracing::info!(%source, %resource, namespace, listed, held_back, "relisted: nothing was missing");
        }
        RelistOutcome::Complete => {
            tracing::warn!(%source, %resource, namespace, listed, ended, held_back, "relisted: objects that were not listed were ended");
        }
        RelistOutcome::Empty => {
            tracing::warn!(%source, %resource, namespace, held_back, "a relist was empty, and nothing was ended; it has to say allowEmpty if there are none");
        }
        RelistOutcome::Incomplete => {
            tracing::warn!(%source, %resource, namespace, held_back, "an event was lost or rejected during a relist, and nothing was ended");
        }
    }
}
