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
    App, answer,
    body::JsonText,
    measure::{Operation, measured},
    objects::{believed, listed as as_listed},
    problem::{Cause, Problem},
};
use crate::{intake::payload::Listed, writer::now};

/// Most objects of one call: they are compared while the state is locked once.
const LISTING_MAX: usize = 500;

/// `POST /v1/drift`: compares listed objects with the ledger's objects, one by one. Writes nothing.
pub(super) async fn compare(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    measured(Operation::Compare, async {
        let request = text.read::<DriftRequest<'_>>()?;
        let count = request.listing.len();
        if count > LISTING_MAX {
            let wrong = format!("at most {LISTING_MAX} objects");
            let cause = Cause::invalid("listing", &count.to_string(), &wrong);
            return Err(Problem::invalid(vec![cause]));
        }
        let now = now();
        let read = |object: &&RawValue| app.events.read_listed(object.get().as_bytes(), now);
        let listing: Vec<_> = request.listing.iter().map(read).collect();
        let compared = app.ledger.read(|state| {
            let found = listing.iter().map(|listed| find(state, listed, now));
            (found.collect::<Vec<_>>(), state.head())
        });
        let (found, as_of) = compared.await?;
        let items = listing.iter().zip(&found);
        Ok(answer::ok(&DriftAnswer {
            items: items
                .map(|(listed, found)| compared_of(listed, found))
                .collect(),
            as_of: answer::as_of(as_of),
            lagging: app.lags(),
        }))
    })
    .await
}

/// The ledger's counterpart of a listed object.
struct Found {
    difference: Difference,
    recorded: Option<ObjectView>,
    awaited_since: Option<Timestamp>,
    quota: Option<(Arc<QuotaRecord>, Sequence)>,
}

fn find(state: &LedgerState, listed: &Result<Option<Listed>, String>, now: Timestamp) -> Found {
    let nothing = |difference| Found {
        difference,
        recorded: None,
        awaited_since: None,
        quota: None,
    };
    let listed = match listed {
        Ok(Some(listed)) => listed,
        Ok(None) => return nothing(Difference::Ignored),
        Err(_) => return nothing(Difference::Unreadable),
    };
    let Listed { object, quota } = listed;
    let (difference, recorded) = match decide::compare(state, object, quota.as_deref(), now) {
        Comparison::Same => (Difference::None, None),
        Comparison::Newer => (
            Difference::Newer,
            state.object(&object.namespace, &object.uid),
        ),
        Comparison::Missing => (Difference::Missing, None),
        Comparison::Recreated(other) => (Difference::Recreated, Some(other)),
        Comparison::Changed(recorded) => (Difference::Changed, Some(recorded)),
    };
    let current = state.quota_record(&object.namespace, &object.name);
    let current = current.map(|(record, entry)| (record.clone(), entry));
    Found {
        difference,
        awaited_since: recorded
            .as_ref()
            .and_then(|recorded| state.committed_lately(recorded, now)),
        recorded,
        quota: current.filter(|_| quota.is_some()),
    }
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
        known: recorded.map(|recorded| believed(recorded, found.awaited_since)),
        quota: listed.and_then(limits),
        reason,
    }
}
