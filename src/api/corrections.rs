//! Corrections of the ledger's record where a listing has shown that it is wrong, recorded under the caller's name.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use quota_client::wire::{
    Corrected, CorrectionOutcome, CorrectionRequest, CorrectionsAnswer, CorrectionsRequest,
    ExpectedObject,
};
use quota_core::{
    decide::{self, Repair, Repaired, Seen},
    event::{Actor, Event},
    size,
    state::State as LedgerState,
};
use quota_semantics::Timestamp;

use super::{
    App, Caller, answer,
    body::JsonText,
    caller,
    measure::{Operation, measured},
    problem::{Cause, Problem},
};
use crate::{
    intake::payload::Listed,
    metrics::{self, Correction, CorrectionCause},
    writer::{DecisionContext, now},
};

/// Most corrections of one call.
const ITEMS_MAX: usize = 1000;

/// Bytes of entries that are decided in one job, so that they fit into one batch with entries of other jobs.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Most entries of one correction: one for the object, and one for the quota if the object is a quota.
const ENTRIES_EACH: usize = 2;

/// `POST /v1/corrections`: an item is corrected if the ledger's object is still the one that was compared. Answers when
/// all corrections are durable.
///
/// Many items become several batches, so after an error some of them may be corrected already. A repeated call is safe.
pub(super) async fn correct(
    State(app): State<App>,
    Caller(actor): Caller,
    text: JsonText,
) -> Result<Response, Problem> {
    measured(Operation::Correct, async {
        let request = text.read::<CorrectionsRequest<'_>>()?;
        let actor = because(&actor, request.reason.as_deref())?;
        let repairs = repairs(&app, &request.items)?;
        let mut items = Vec::with_capacity(repairs.len());
        for chunk in chunks(repairs, app.max_batch_entries) {
            items.extend(record(&app, &actor, chunk).await?);
        }
        Ok(answer::ok(&CorrectionsAnswer {
            items,
            as_of: answer::as_of(app.ledger.read(LedgerState::head).await?),
            lagging: app.lags(),
        }))
    })
    .await
}

/// The same actor, with the reason of the correction.
fn because(actor: &Actor, reason: Option<&str>) -> Result<Arc<Actor>, Problem> {
    let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) else {
        let cause = Cause::required("reason", "a correction says why it is made");
        return Err(Problem::invalid(vec![cause]));
    };
    if !caller::is_change_reason(reason) {
        let wrong = format!(
            "at most {} bytes, no control characters",
            caller::CHANGE_REASON_MAX_BYTES
        );
        let cause = Cause::invalid("reason", reason, &wrong);
        return Err(Problem::invalid(vec![cause]));
    }
    Ok(Arc::new(Actor {
        reason: Some(reason.into()),
        ..actor.clone()
    }))
}

/// A repair, and the approximate size of its entries in bytes.
type Sized = (Repair, usize);

fn repairs(app: &App, items: &[CorrectionRequest<'_>]) -> Result<Vec<Sized>, Problem> {
    if items.len() > ITEMS_MAX {
        let (count, wrong) = (
            items.len().to_string(),
            format!("at most {ITEMS_MAX} items"),
        );
        return Err(Problem::invalid(vec![Cause::invalid(
            "items", &count, &wrong,
        )]));
    }
    let (now, mut repairs, mut wrong) = (now(), Vec::with_capacity(items.len()), Vec::new());
    for (index, item) in items.iter().enumerate() {
        match repair(app, item, now) {
            Ok(repair) => repairs.push(repair),
            Err(mut cause) => {
                cause.field = format!("items[{index}].{}", cause.field);
                wrong.push(cause);
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(repairs),
        false => Err(Problem::invalid(wrong)),
    }
}

fn repair(app: &App, item: &CorrectionRequest<'_>, now: Timestamp) -> Result<Sized, Cause> {
    let seen = item.known.as_ref().map(seen).transpose()?;
    match (item.object, &item.uid) {
        (Some(object), None) => {
            let read = app.events.read_listed(object.get().as_bytes(), now);
            let listed = read.and_then(|listed| {
                listed.ok_or_else(|| "it is of no concern to quotas".to_owned())
            });
            let listed = listed.map_err(|why| Cause::invalid("object", "…", &why))?;
            let bytes = listed.size();
            let Listed { object, quota } = listed;
            let repair = Repair::Set {
                object,
                quota,
                seen,
                quota_seen: item.quota_sequence,
            };
            Ok((repair, bytes))
        }
        (None, Some(uid)) => {
            let why = "what was known of the object that is gone";
            let seen = seen.ok_or_else(|| Cause::required("known", why))?;
            let uid = uid.clone();
            let namespace = item.namespace.clone();
            let repair = Repair::End {
                namespace,
                uid,
                seen,
            };
            Ok((repair, ENTRIES_EACH * size::ENTRY))
        }
        _ => Err(Cause::required(
            "object",
            "either the object that is there, or the uid of the one that is gone",
        )),
    }
}

fn seen(expected: &ExpectedObject) -> Result<Seen, Cause> {
    let version = expected.resource_version.as_deref();
    let number = version.map_or(Ok(0), str::parse);
    let version = number.map_err(|_| {
        let text = version.unwrap_or_default();
        Cause::invalid("known.resourceVersion", text, "not a number")
    })?;
    Ok(Seen {
        entry: expected.sequence,
        version,
    })
}

/// Splits repairs into parts that each fit into a batch.
fn chunks(repairs: Vec<Sized>, max_entries: usize) -> Vec<Vec<Repair>> {
    let most = (max_entries / ENTRIES_EACH).max(1);
    let mut chunks: Vec<Vec<Repair>> = Vec::new();
    let mut room = 0;
    for (repair, bytes) in repairs {
        match chunks
            .last_mut()
            .filter(|chunk| chunk.len() < most && bytes <= room)
        {
            Some(chunk) => {
                room -= bytes;
                chunk.push(repair);
            }
            None => {
                room = CHUNK_BYTES.saturating_sub(bytes);
                chunks.push(vec![repair]);
            }
        }
    }
    chunks
}

async fn record(
    app: &App,
    actor: &Arc<Actor>,
    chunk: Vec<Repair>,
) -> Result<Vec<Corrected>, Problem> {
    let by = actor.clone();
    let decision = move |context: &mut DecisionContext<'_>| {
        let put_right = |repair: &Repair| {
            let transaction = &mut context.transaction;
            match decide::repair(transaction.state(), repair, transaction.now()) {
                Repaired::Done(events) => {
                    let kind = events.first().and_then(correction);
                    transaction.record(&by, events);
                    (CorrectionOutcome::Corrected, kind)
                }
                Repaired::Right => (CorrectionOutcome::Right, None),
                Repaired::Changed => (CorrectionOutcome::Conflict, None),
                Repaired::Early => (CorrectionOutcome::Awaited, None),
            }
        };
        chunk.iter().map(put_right).collect::<Vec<_>>()
    };
    let outcomes = app.ledger.decide_for(&actor.principal, decision).await?;
    for kind in outcomes.iter().filter_map(|(_, kind)| *kind) {
        metrics::drift_corrected(kind, CorrectionCause::Drift, 1);
    }
    let corrected = outcomes.iter().filter(|(_, kind)| kind.is_some()).count();
    let (principal, reason) = (&actor.principal, actor.reason.as_deref());
    tracing::warn!(%principal, reason, corrected, of = outcomes.len(), "objects were corrected");
    let done = outcomes
        .into_iter()
        .map(|(outcome, _)| Corrected { outcome });
    Ok(done.collect())
}

const fn correction(event: &Event) -> Option<Correction> {
    match event {
        Event::ObjectCorrected(_) => Some(Correction::Set),
        Event::ObjectEnded(_) => Some(Correction::Ended),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use quota_semantics::uid::Uid;

    use super::*;

    fn end(bytes: usize) -> Sized {
        let seen = Seen {
            entry: 1,
            version: 1,
        };
        let uid = Uid::from_uuid([1; 16]);
        let namespace = None;
        let repair = Repair::End {
            namespace,
            uid,
            seen,
        };
        (repair, bytes)
    }

    #[test]
    fn parts_fit_into_a_batch_and_lose_nothing() {
        let lengths = |sizes: &[usize], most| {
            let repairs = sizes.iter().map(|size| end(*size)).collect();
            let chunks = chunks(repairs, most);
            chunks.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(lengths(&[], 10).is_empty());
        assert_eq!(lengths(&[1; 11], 10), [5, 5, 1]);
        assert_eq!(lengths(&[1; 3], 1), [1, 1, 1]);
        let half = CHUNK_BYTES / 2;
        assert_eq!(
            lengths(&[half, half, 1, CHUNK_BYTES * 2, 1], 10),
            [2, 1, 1, 1]
        );
    }
}
