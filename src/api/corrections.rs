//! Corrections of the ledger's record where a listing has shown that it is wrong, recorded under the caller's name.

use std::{borrow::Cow, sync::Arc};

use axum::{extract::State, response::Response};
use quota_client::wire::{
    Compared, ComparedQuota, Corrected, CorrectionOutcome, CorrectionRequest, CorrectionsAnswer,
    CorrectionsRequest, Difference, DriftAnswer, DriftRequest, ExpectedObject,
};
use quota_core::{
    decide::{self, ComparedRecord, Comparison, Repair, Repaired},
    event::{Actor, Event, QuotaRecord, Sequence},
    size,
    state::{ObjectView, State as LedgerState},
};
use quota_semantics::Timestamp;
use serde_json::value::RawValue;

use super::{
    App, Caller, JsonText,
    explain::{listed as as_listed, object_response},
    problem::{FieldProblem, Problem, at_most},
    reservations::{Operation, measured},
};
use crate::{
    auth::{CHANGE_REASON_MAX_BYTES, is_change_reason},
    fairness::{BYTES_PER_AMOUNT, Permit, Turn},
    intake::payload::Listed,
    log_limiter::{LogLimiter, shortened},
    metrics::{self, Correction, CorrectionCause},
    now,
    writer::{DecisionContext, For},
};

/// Most corrections of one call.
const ITEMS_MAX: usize = 1000;

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
        let repairs = Arc::from(repairs(&app, &request.items)?);
        let items = record(&app, &actor, &repairs).await?;
        let as_of = app.ledger.read(LedgerState::head).await;
        let as_of = as_of.map_err(|refused| refused.with_part_made(!items.is_empty()))?;
        Ok(super::ok(&CorrectionsAnswer { items, as_of: super::as_of(as_of), lagging: app.lags() }))
    })
    .await
}

/// The same actor, with the reason of the correction.
fn because(actor: &Actor, reason: Option<&str>) -> Result<Arc<Actor>, Problem> {
    let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) else {
        let cause = FieldProblem::required("reason", "a correction says why it is made");
        return Err(cause.into());
    };
    if !is_change_reason(reason) {
        let wrong = format!("at most {CHANGE_REASON_MAX_BYTES} bytes, no control characters");
        return Err(FieldProblem::invalid("reason", reason, &wrong).into());
    }
    Ok(Arc::new(Actor { reason: Some(reason.into()), ..actor.clone() }))
}

fn repairs(app: &App, items: &[CorrectionRequest<'_>]) -> Result<Vec<Repair>, Problem> {
    at_most("items", items.len(), ITEMS_MAX, "items")?;
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

fn repair(app: &App, item: &CorrectionRequest<'_>, now: Timestamp) -> Result<Repair, FieldProblem> {
    let seen = item.known.as_ref().map(seen).transpose()?;
    match (item.object, &item.uid) {
        (Some(object), None) => {
            let read = app.events.read_listed(object.get().as_bytes(), now);
            let listed = read.and_then(|listed| {
                listed.ok_or_else(|| "it is of no concern to quotas".to_owned())
            });
            let listed = listed.map_err(|why| FieldProblem::invalid("object", "…", &why))?;
            let Listed { object, quota } = listed;
            Ok(Repair::Set { object, quota, seen, quota_seen: item.quota_sequence })
        }
        (None, Some(uid)) => {
            let why = "what was known of the object that is gone";
            let seen = seen.ok_or_else(|| FieldProblem::required("known", why))?;
            let uid = uid.clone();
            let namespace = item.namespace.clone();
            Ok(Repair::End { namespace, uid, seen })
        }
        _ => Err(FieldProblem::required(
            "object",
            "either the object that is there, or the uid of the one that is gone",
        )),
    }
}

fn seen(expected: &ExpectedObject) -> Result<ComparedRecord, FieldProblem> {
    let version = expected.resource_version.as_deref();
    let number = version.map_or(Ok(0), str::parse);
    let version = number.map_err(|_| {
        let text = version.unwrap_or_default();
        FieldProblem::invalid("known.resourceVersion", text, "not a number")
    })?;
    Ok(ComparedRecord { entry: expected.sequence, version })
}

/// Records the repairs, in as many decisions as their entries need.
async fn record(
    app: &App,
    actor: &Arc<Actor>,
    repairs: &Arc<[Repair]>,
) -> Result<Vec<Corrected>, Problem> {
    let most = (app.max_batch_entries / ENTRIES_EACH).max(1);
    let mut outcomes = Vec::with_capacity(repairs.len());
    while outcomes.len() < repairs.len() {
        let (by, repairs, from) = (actor.clone(), repairs.clone(), outcomes.len());
        let decision = move |context: &mut DecisionContext<'_>| {
            put_right(context, &by, repairs.iter().skip(from).take(most))
        };
        let principal = For::Principal(&actor.principal);
        let made = app.ledger.decide_for(principal, decision).await;
        let is_part_made = !outcomes.is_empty();
        let made = made.map_err(|refused| refused.with_part_made(is_part_made))?;
        report(actor, &made);
        outcomes.extend(made.into_iter().map(|(outcome, _)| Corrected { outcome }));
    }
    Ok(outcomes)
}

/// The outcome of a repair, and the correction that it made.
type Outcome = (CorrectionOutcome, Option<Correction>);

/// Corrections that are logged per second; the ledger has all.
static CORRECTIONS: LogLimiter = LogLimiter::new(10);

fn report(actor: &Actor, made: &[Outcome]) {
    for kind in made.iter().filter_map(|(_, kind)| *kind) {
        metrics::drift_corrected(kind, CorrectionCause::Drift, 1);
    }
    let corrected = made.iter().filter(|(_, kind)| kind.is_some()).count();
    let (principal, reason) = (&actor.principal, actor.reason.as_deref());
    if let Some(held_back) = CORRECTIONS.pass() {
        let (reason, of) = (reason.map(shortened), made.len());
        tracing::warn!(%principal, reason, corrected, of, held_back, "objects were corrected");
    }
}

/// Makes the first of these repairs: as many as one batch can hold. An entry names all amounts of the object that was
/// there, so a short request can make long entries.
fn put_right<'r>(
    context: &mut DecisionContext<'_>,
    by: &Arc<Actor>,
    repairs: impl Iterator<Item = &'r Repair>,
) -> Vec<Outcome> {
    let transaction = &mut context.transaction;
    let (mut outcomes, mut bytes) = (Vec::new(), 0);
    for repair in repairs {
        outcomes.push(match decide::repair(transaction.state(), repair, transaction.now()) {
            Repaired::Done(events) => {
                bytes += events.iter().map(size::of_event).sum::<usize>();
                let kind = events.first().and_then(correction);
                transaction.record(by, events);
                (CorrectionOutcome::Corrected, kind)
            }
            Repaired::Right => (CorrectionOutcome::Right, None),
            Repaired::Changed => (CorrectionOutcome::Conflict, None),
        });
        if bytes >= size::AT_ONCE {
            break;
        }
    }
    outcomes
}

const fn correction(event: &Event) -> Option<Correction> {
    match event {
        Event::ObjectCorrected(_) => Some(Correction::Set),
        Event::ObjectEnded(_) => Some(Correction::Ended),
        _ => None,
    }
}

// Differences between the ledger and a listing.

/// Most objects of one call.
const LISTING_MAX: usize = 500;

/// `POST /v1/drift`: compares listed objects with the ledger's objects, one by one. Writes nothing.
pub(super) async fn compare(
    State(app): State<App>,
    Caller(actor): Caller,
    text: JsonText,
) -> Result<Response, Problem> {
    measured(Operation::Compare, async {
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let permit = Permit::to_read(&actor.principal)?;
        let comparing = app.clone();
        let before = app.ledger.before_peeks();
        let compare = move |turn: &Turn| compare_all(&comparing, &text, turn);
        let compared = permit.make(amounts, compare).await?;
        // The compared objects are durable once the ledger is durable up to this head.
        let as_of = app.ledger.read_after(before, LedgerState::head).await?;
        let make = move |turn: &Turn| {
            let items = compared.iter();
            let items = items.map(|(listed, found)| compared_of(listed, found));
            let body = DriftAnswer {
                items: items.collect(),
                as_of: super::as_of(as_of),
                lagging: app.lags(),
            };
            super::large(turn, &body)
        };
        Ok(permit.make(amounts, make).await)
    })
    .await
}

/// A listed object, or why it cannot be read; and the ledger's counterpart of it.
type ComparedObject = (Result<Option<Listed>, String>, Found);

fn compare_all(app: &App, text: &JsonText, turn: &Turn) -> Result<Vec<ComparedObject>, Problem> {
    let request = text.read::<DriftRequest<'_>>()?;
    at_most("listing", request.listing.len(), LISTING_MAX, "objects")?;
    let now = now();
    let compare = |object: &&RawValue| {
        turn.pause();
        let listed = app.events.read_listed(object.get().as_bytes(), now);
        let found = app.ledger.peek(|state| find(state, &listed, now));
        (listed, found)
    };
    Ok(request.listing.iter().map(compare).collect())
}

/// The ledger's counterpart of a listed object.
struct Found {
    difference: Difference,
    recorded: Option<ObjectView>,
    quota: Option<(Arc<QuotaRecord>, Sequence)>,
}

fn find(state: &LedgerState, listed: &Result<Option<Listed>, String>, now: Timestamp) -> Found {
    let nothing = |difference| Found { difference, recorded: None, quota: None };
    let listed = match listed {
        Ok(Some(listed)) => listed,
        Ok(None) => return nothing(Difference::Ignored),
        Err(_) => return nothing(Difference::Unreadable),
    };
    let Listed { object, quota } = listed;
    let (difference, recorded) = match decide::compare(state, object, quota.as_deref(), now) {
        Comparison::Same => (Difference::None, None),
        Comparison::Newer => (Difference::Newer, state.object(&object.namespace, &object.uid)),
        Comparison::Missing => (Difference::Missing, None),
        Comparison::Recreated(other) => (Difference::Recreated, Some(other)),
        Comparison::Changed(recorded) => (Difference::Changed, Some(recorded)),
    };
    let current = state.quota_record(&object.namespace, &object.name);
    let current = current.map(|(record, entry)| (record.clone(), entry));
    Found { difference, recorded, quota: current.filter(|_| quota.is_some()) }
}

fn compared_of<'a>(listed: &'a Result<Option<Listed>, String>, found: &'a Found) -> Compared<'a> {
    let reason = listed.as_ref().err().map(|why| Cow::Borrowed(&**why));
    let listed = listed.as_ref().ok().and_then(Option::as_ref);
    let limits = |listed: &'a Listed| {
        let quota = listed.quota.as_deref()?;
        let current = found.quota.as_ref();
        Some(ComparedQuota {
            listed: Cow::Borrowed(&quota.spec),
            known: current.map(|(record, _)| Cow::Borrowed(&record.spec)),
            sequence: current.map(|(_, entry)| *entry),
        })
    };
    let recorded = found.recorded.as_ref();
    Compared {
        difference: found.difference,
        object: listed.map(|listed| as_listed(&listed.object)),
        known: recorded.map(object_response),
        quota: listed.and_then(limits),
        reason,
    }
}
