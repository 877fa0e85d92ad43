//! The life cycle of a reservation: extend, commit, release.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::StatusCode;
use quota_core::{
    decide,
    decide::{Policy, Refusal},
    event::{Actor, Event},
    state::{Head, ReservationStatus},
};
use quota_semantics::{Name, Span, Timestamp, uid::Uid};
use serde::Deserialize;

use super::{
    App, Caller,
    body::JsonText,
    caller,
    measure::{Operation, measured},
    page::Target,
    problem::{Problem, Reason},
    reservations::show,
    reserve_request::{Amounts, read_ttl},
};
use crate::auth::Principal;

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
    State(app): State<App>,
    Target((namespace, uid)): Target<(String, String)>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let extended = measured(Operation::Extend, async {
        let ttl = read_more(&text)?;
        let uid = parse_uid(&uid)?;
        let by = caller::by(&actor, &principal, &namespace);
        change(
            &app,
            actor,
            namespace.into(),
            uid,
            move |state, now, namespace, uid, policy| {
                decide::extend(state, now, &by, namespace, uid, ttl, policy)
            },
        )
        .await
    });
    shown(&app, extended.await)
}

fn read_more(text: &JsonText) -> Result<Span, Problem> {
    let mut causes = Vec::new();
    let ttl = read_ttl(Some(&text.read::<More>()?.ttl), &mut causes);
    ttl.map(crate::config::Period::span)
        .ok_or_else(|| Problem::invalid(causes))
}

/// `POST …/reservations/{uid}/commit`
pub(super) async fn commit(
    State(app): State<App>,
    Target((namespace, uid)): Target<(String, String)>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let committed = measured(Operation::Commit, async {
        let commitment = if text.is_empty() {
            Commitment::default()
        } else {
            text.read::<Commitment<'_>>()?
        };
        let mut causes = Vec::new();
        let resources = commitment
            .reserved
            .map(|amounts| amounts.read("reserved", &mut causes));
        if !causes.is_empty() {
            return Err(Problem::invalid(causes));
        }
        let uid = parse_uid(&uid)?;
        let by = caller::by(&actor, &principal, &namespace);
        change(
            &app,
            actor,
            namespace.into(),
            uid,
            move |state, _, namespace, uid, policy| {
                let (resources, bounds) = (resources.as_ref(), &policy.bounds);
                decide::commit(state, &by, namespace, uid, resources, bounds)
            },
        )
        .await
    });
    shown(&app, committed.await)
}

/// `DELETE …/reservations/{uid}`
pub(super) async fn release(
    State(app): State<App>,
    Target((namespace, uid)): Target<(String, String)>,
    principal: Principal,
    Caller(actor): Caller,
) -> Response {
    let by = caller::by(&actor, &principal, &namespace);
    let namespace = Name::from(namespace);
    let released = measured(Operation::Release, async {
        let uid = parse_uid(&uid)?;
        change(
            &app,
            actor,
            namespace,
            uid,
            move |state, _, namespace, uid, _| decide::release(state, &by, namespace, uid),
        )
        .await
    });
    match released.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem.into_response(),
    }
}

fn parse_uid(uid: &str) -> Result<Uid, Problem> {
    let not_found = |_| Problem::new(Reason::NotFound, format!("reservation {uid:?} not found"));
    Uid::new(uid).map_err(not_found)
}

type Changed = (ReservationStatus, Head);

fn change(
    app: &App,
    actor: Arc<Actor>,
    namespace: Name,
    uid: Uid,
    decision: impl FnOnce(
        &quota_core::state::State,
        Timestamp,
        &Name,
        &Uid,
        &Policy,
    ) -> Result<Vec<Event>, Refusal>
    + Send
    + 'static,
) -> impl Future<Output = Result<Changed, Problem>> + Send {
    let principal = actor.principal.clone();
    let decided = app.ledger.decide_always(&principal, move |context| {
        let transaction = &mut context.transaction;
        let events = decision(
            transaction.state(),
            transaction.now(),
            &namespace,
            &uid,
            context.policy,
        );
        let changed = events.map(|events| {
            transaction.record(&actor, events);
            transaction.state().reservation_status(&namespace, &uid)
        });
        (changed, transaction.state().head())
    });
    decided.map(|decided| {
        let (changed, head) = decided?;
        match changed {
            Ok(Some(reservation)) => Ok((reservation, head)),
            Ok(None) => Err(Problem::internal(
                &"a changed reservation is not remembered",
            )),
            Err(refusal) => Err(Problem::from(refusal).as_of(head)),
        }
    })
}

fn shown(app: &App, changed: Result<Changed, Problem>) -> Response {
    match changed {
        Ok((reservation, head)) => show(app, StatusCode::OK, &reservation, head),
        Err(problem) => problem.into_response(),
    }
}
