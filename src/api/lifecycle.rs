//! The life cycle of a reservation: extend, commit, release.

use std::sync::Arc;

use axum::{
    extract,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use quota_core::{
    decide::{self, Policy, Refusal, Requester},
    event::{Actor, Event},
    state::{Head, ReservationStatus, State},
};
use quota_semantics::{Name, Span, Timestamp, uid::Uid};
use serde::Deserialize;

use super::{
    App, Caller, JsonText, Target,
    problem::{Problem, Reason},
    reservations::{Amounts, Operation, measured, read_ttl, show},
};
use crate::{
    auth::{Principal, requester},
    writer::For,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct More {
    ttl: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Commitment<'a> {
    #[serde(borrow)]
    reserved: Option<Amounts<'a>>,
}

/// `POST …/reservations/{uid}/extend`
pub(super) async fn extend(
    extract::State(app): extract::State<App>,
    Target(place): Target<2>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let extended = measured(Operation::Extend, async {
        let ttl = read_more(&text)?;
        let extension = move |it: Change<'_>| {
            decide::extend(it.state, it.now, it.by, it.namespace, it.uid, ttl, it.policy)
        };
        change(&app, &principal, actor, place, extension, State::reservation_status).await
    });
    respond(&app, extended.await)
}

fn read_more(text: &JsonText) -> Result<Span, Problem> {
    let mut causes = Vec::new();
    let ttl = read_ttl(Some(&text.read::<More>()?.ttl), &mut causes);
    ttl.map(crate::config::Period::span).ok_or_else(|| Problem::invalid(causes))
}

/// `POST …/reservations/{uid}/commit`
pub(super) async fn commit(
    extract::State(app): extract::State<App>,
    Target(place): Target<2>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let committed = measured(Operation::Commit, async {
        let commitment =
            if text.is_empty() { Commitment::default() } else { text.read::<Commitment<'_>>()? };
        let mut causes = Vec::new();
        let resources = commitment.reserved.map(|amounts| amounts.read("reserved", &mut causes));
        if !causes.is_empty() {
            return Err(Problem::invalid(causes));
        }
        let commitment = move |it: Change<'_>| {
            let (resources, bounds) = (resources.as_ref(), &it.policy.bounds);
            decide::commit(it.state, it.by, it.namespace, it.uid, resources, bounds)
        };
        change(&app, &principal, actor, place, commitment, State::reservation_status).await
    });
    respond(&app, committed.await)
}

/// `DELETE …/reservations/{uid}`
pub(super) async fn release(
    extract::State(app): extract::State<App>,
    Target(place): Target<2>,
    principal: Principal,
    Caller(actor): Caller,
) -> Response {
    let release = |it: Change<'_>| decide::release(it.state, it.by, it.namespace, it.uid);
    let released =
        measured(Operation::Release, change(&app, &principal, actor, place, release, |_, _, _| ()));
    match released.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem.into_response(),
    }
}

pub(super) fn not_found(uid: &str) -> Problem {
    Problem::new(Reason::NotFound, format!("reservation {uid:?} not found"))
}

/// The uid of a reservation; a text that is not a uid names none.
pub(super) fn parse_uid(uid: &str) -> Result<Uid, Problem> {
    Uid::new(uid).map_err(|_| not_found(uid))
}

/// The reservation after a change.
type Changed = (Option<ReservationStatus>, Head);

/// What the decision on a change of a reservation relies on.
struct Change<'a> {
    state: &'a State,
    now: Timestamp,
    policy: &'a Policy,
    by: &'a Requester,
    namespace: &'a Name,
    uid: &'a Uid,
}

/// Changes the reservation at this place. `read` reads the state after the change.
async fn change<R: Send + 'static>(
    app: &App,
    principal: &Principal,
    actor: Arc<Actor>,
    [namespace, uid]: [Name; 2],
    decision: impl FnOnce(Change<'_>) -> Result<Vec<Event>, Refusal> + Send + 'static,
    read: impl FnOnce(&State, &str, &Uid) -> R + Send + 'static,
) -> Result<(R, Head), Problem> {
    let uid = parse_uid(&uid)?;
    let by = requester(&actor, principal, &namespace);
    let name = actor.principal.clone();
    let decided = app.ledger.decide_for(For::Always(&name), move |context| {
        let transaction = &mut context.transaction;
        let events = decision(Change {
            state: transaction.state(),
            now: transaction.now(),
            policy: context.policy,
            by: &by,
            namespace: &namespace,
            uid: &uid,
        });
        let changed = events.map(|events| {
            transaction.record(&actor, events);
            read(transaction.state(), &namespace, &uid)
        });
        (changed, transaction.state().head())
    });
    let (changed, head) = decided.await?;
    match changed {
        Ok(changed) => Ok((changed, head)),
        Err(refusal) => Err(Problem::from(refusal).as_of(head)),
    }
}

fn respond(app: &App, changed: Result<Changed, Problem>) -> Response {
    match changed {
        Ok((Some(reservation), head)) => show(app, StatusCode::OK, &reservation, head),
        Ok((None, _)) => {
            Problem::internal(&"a changed reservation is not remembered").into_response()
        }
        Err(problem) => problem.into_response(),
    }
}
