//! Differences between the ledger and a listing.

use axum::{extract::State, response::Response};
use quota_client::wire::{Compared, ComparedQuota, Difference, DriftAnswer, DriftRequest};
use quota_core::{
    decide::{self, Comparison},
    event::{QuotaRecord, Sequence},
    state::{ObjectView, State as LedgerState},
};
use quota_semantics::Timestamp;
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

use super::{
    App, Caller, answer,
    body::JsonText,
    measure::{Operation, measured},
    objects::{listed as as_listed, object_response},
    problem::{Problem, at_most},
};
use crate::{
    clock::now,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn},
    intake::payload::Listed,
};

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
                as_of: answer::as_of(as_of),
                lagging: app.lags(),
            };
            answer::large(turn, &body)
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
