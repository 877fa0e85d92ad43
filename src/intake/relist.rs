//! Ends relists: objects that were not listed are ended, a few per decision, so that other jobs need not wait.

use std::collections::BTreeSet;

use quota_core::{
    decide::{self, Relist},
    event::{Actor, Event, RelistEnd, RelistOutcome},
    size, source,
    state::RelistView,
};
use quota_semantics::{Name, uid::Uid};

use super::record::until_decided;
use crate::{
    log_limiter::LogLimiter,
    metrics::{self, Correction, CorrectionCause, Relisted},
    writer::{Ledger, Unavailable},
};

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
