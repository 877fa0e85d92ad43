//! `ledger dump`: entries, one JSON object per line.

use std::io::{self, BufWriter, Write};

use quota_ledger::{
    event::{Entry, Event},
    journal::Offline,
    replay::Until,
    state::State,
    uid::Uid,
};

use super::{each_entry, replay};
use crate::cli::{
    failure::{Failure, Outcome},
    output::{note, written},
};

/// Prints the entries `from..=to`, of one namespace or of all.
pub(super) fn run(ledger: &Offline, namespace: Option<&str>, from: u64, to: u64) -> Outcome {
    let first = ledger.first_sequence();
    if from.max(1) < first {
        note(format!(
            "note: the entries before {first} were compacted away"
        ));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match namespace {
        None => each_entry(ledger, from, to, |entry| print(&mut out, entry))?,
        Some(namespace) => {
            // Many events name only a uid: which namespace it belongs to, the state knows.
            let before = Until::Sequence(from.saturating_sub(1));
            let mut state = replay::beginning(ledger, before)?;
            replay::fold(ledger, &mut state, before)?;
            each_entry(ledger, from, to, |entry| {
                if is_in(&state, &entry.event, namespace) {
                    print(&mut out, entry)?;
                }
                state.apply(entry);
                Ok(())
            })?;
        }
    }
    written(out.flush())
}

fn print(out: &mut impl Write, entry: &Entry) -> Outcome {
    let line = serde_json::to_string(entry).map_err(|error| Failure::general(error.to_string()))?;
    written(writeln!(out, "{line}"))
}

/// Whether an event is about a namespace, in the state before it.
fn is_in(state: &State, event: &Event, namespace: &str) -> bool {
    let of = |uid: &Uid| {
        let object = state.object(uid).map(|object| object.namespace);
        object.or_else(|| {
            state
                .reservation(uid)
                .map(|view| view.reservation.namespace.clone())
        })
    };
    match event {
        Event::QuotaSet(quota) => quota.namespace == *namespace,
        Event::QuotaDeleted { namespace: own, .. }
        | Event::ObjectDeleted { namespace: own, .. } => own == namespace,
        Event::ObjectObserved(object) => object.namespace == *namespace,
        Event::ReservationGranted(reservation) => reservation.namespace == *namespace,
        Event::ObjectRefreshed { uid, .. }
        | Event::ObjectLapsed { uid, .. }
        | Event::ReservationGrown { uid, .. }
        | Event::ReservationExtended { uid, .. }
        | Event::ReservationCommitted { uid, .. }
        | Event::ReservationReleased { uid }
        | Event::ReservationExpired { uid }
        | Event::ReservationSuperseded { uid, .. } => of(uid).is_some_and(|own| own == *namespace),
        Event::SourceAdvanced { .. }
        | Event::SourceReset { .. }
        | Event::SourceGapped { .. }
        | Event::MessageRejected(_) => false,
    }
}
