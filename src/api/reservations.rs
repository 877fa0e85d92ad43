//! Makes and reads reservations.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use quota_client::wire::{AsOf, Reservation};
use quota_core::{
    decide::{self, Audience, Decision, FingerprintedRequest, Notice, Policy, Refusal, Requester},
    event::{Actor, Sequence},
    state::{self, Head, ReservationPlace, ReservationState, ReservationStatus, ReservationsView},
    transaction::WriteTransaction,
};
use quota_semantics::{Name, Timestamp};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    body::JsonText,
    caller,
    lifecycle::{not_found, parse_uid},
    measure::{Operation, decided, log_denied, measured},
    page::{self, Page, Params, Target, token},
    past::{self, When},
    problem::Problem,
    reserve_request::ReserveRequest,
};
use crate::{
    auth::Principal,
    clock,
    denials::Denials,
    fairness::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Turn, make_sized},
    log_limiter::{LogLimiter, shortened},
    metrics,
    render::reservation::{item, whole, write},
    server::warn,
    writer::{DecisionContext, For},
};

/// The response for one reservation.
pub(super) fn show(
    app: &App,
    status: StatusCode,
    reservation: &ReservationStatus,
    head: Head,
) -> Response {
    show_with(app, status, reservation, &[], head)
}

fn show_with(
    app: &App,
    status: StatusCode,
    reservation: &ReservationStatus,
    warnings: &[String],
    Head { sequence, time }: Head,
) -> Response {
    let reservation = Reservation {
        as_of: Some(AsOf { sequence, time }),
        lagging: app.lags(),
        ..whole(reservation, warnings)
    };
    let mut text = Vec::with_capacity(answer::ANSWER_BYTES);
    write(&reservation, &mut text);
    answer::written(status, text)
}

/// A granted request.
pub(super) struct Granted {
    pub(super) status: ReservationStatus,
    pub(super) replayed: bool,
    /// Warnings for the caller.
    pub(super) warnings: Vec<String>,
}

/// A decision as the answer tells it.
pub(super) fn granted(decided: Result<Decision, Refusal>) -> Result<Granted, Problem> {
    let Decision { status, replayed, notices, unlimited, .. } = decided?;
    let status =
        status.ok_or_else(|| Problem::internal(&"a granted reservation is not remembered"))?;
    let warnings = warnings(&status.reservation.namespace, &notices, &unlimited);
    Ok(Granted { status, replayed: replayed.is_some(), warnings })
}

/// Decides a request, and notes for auditors what was decided, whether or not the caller still waits.
pub(super) fn reserve(
    transaction: &mut WriteTransaction<'_>,
    policy: &Policy,
    actor: &Arc<Actor>,
    by: &Requester,
    request: &FingerprintedRequest,
    denials: Option<&Denials>,
) -> Result<Decision, Refusal> {
    let decided = transaction.reserve(actor, by, request, policy);
    match (&decided, denials) {
        (Ok(decision), _) => note(&decision.notices),
        (Err(refusal), Some(denials)) => {
            denials.note(actor, request, refusal, transaction.state().head());
        }
        (Err(_), None) => {}
    }
    decided
}

/// Warnings for the caller.
pub(super) fn warnings(namespace: &str, notices: &[Notice], unlimited: &[Name]) -> Vec<String> {
    let for_caller = |notice: &&Notice| notice.audience == Audience::Caller;
    let messages = notices.iter().filter(for_caller);
    decide::warning_of_unlimited(namespace, unlimited)
        .into_iter()
        .chain(messages.map(|notice| notice.message.clone()))
        .collect()
}

/// Exceeded limits that are logged per second.
static EXCEEDED: LogLimiter = LogLimiter::new(10);

/// Logs and counts notices for auditors.
pub(super) fn note(notices: &[Notice]) {
    let for_auditors = |notice: &&Notice| notice.audience == Audience::Auditors;
    for notice in notices.iter().filter(for_auditors) {
        metrics::limit_passed();
        if let Some(held_back) = EXCEEDED.pass() {
            let message = shortened(&notice.message);
            tracing::info!(quota = %notice.quota, message, held_back, "a limit that is not enforced was exceeded");
        }
    }
}

/// `POST /v1/namespaces/{namespace}/reservations`
pub(super) async fn create(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let by = caller::by(&actor, &principal, &namespace);
    let granted = measured(Operation::Reserve, async {
        app.may_grant()?;
        let (reading, place) = (app.clone(), namespace.clone());
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let read = move |_: &Turn| read(&reading, &text, &place);
        let request = make_sized(&actor.principal, amounts, read).await??;
        let denials = app.ledger.denials().cloned();
        let principal = actor.principal.clone();
        let decide = move |context: &mut DecisionContext<'_>, request: &_| {
            let DecisionContext { transaction, policy, .. } = context;
            let decided = reserve(transaction, policy, &actor, &by, request, denials.as_ref());
            (decided, transaction.state().head())
        };
        let ledger = &app.ledger;
        let decision = ledger.decide_about(For::Principal(&principal), request.clone(), decide);
        let (decided, head) = decision.await?;
        match granted(decided) {
            Ok(granted) => Ok((granted, head)),
            Err(problem) => {
                log_denied(&request, &problem, head.sequence);
                Err(problem.as_of(head))
            }
        }
    })
    .await;
    match &granted {
        Ok((granted, _)) => decided(None, granted.replayed),
        Err(problem) => decided(Some(problem), false),
    }
    match granted {
        Ok((granted, head)) => created(&app, &granted, head),
        // What one denial shows is bounded, so that its answer need not wait for a turn.
        Err(problem) => problem.into_response(),
    }
}

/// The request of a body. The digest is computed here, not on the decider thread, which all other jobs wait for; the
/// request is shared, so that it is freed here.
fn read(
    app: &App,
    text: &JsonText,
    namespace: &Name,
) -> Result<Arc<FingerprintedRequest>, Problem> {
    let request = text.read::<ReserveRequest<'_>>()?;
    let request = request.request(app, namespace, clock::now(), None)?;
    request.digest();
    Ok(Arc::new(request))
}

fn created(app: &App, granted: &Granted, head: Head) -> Response {
    if granted.replayed {
        let mut response = show(app, StatusCode::OK, &granted.status, head);
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
        return response;
    }
    let Granted { status, warnings, .. } = granted;
    let mut response = show_with(app, StatusCode::CREATED, status, warnings, head);
    let reservation = &granted.status.reservation;
    let uid = reservation.uid.to_string();
    let location =
        answer::location(&[("/v1/namespaces/", &reservation.namespace), ("/reservations/", &uid)]);
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    warn(response.headers_mut(), &granted.warnings);
    response
}

/// `GET /v1/namespaces/{namespace}/reservations/{uid}`
pub(super) async fn get(
    State(app): State<App>,
    Target([namespace, uid]): Target<2>,
) -> Result<Response, Problem> {
    let parsed = parse_uid(&uid)?;
    let found =
        app.ledger.read(|state| (state.reservation_status(&namespace, &parsed), state.head()));
    let (status, head) = found.await?;
    let status = status.ok_or_else(|| not_found(&uid))?;
    Ok(show(&app, StatusCode::OK, &status, head))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    state: ReservationState,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/namespaces/{namespace}/reservations`: the pending ones, or those in another `state`; of now, or `?at=TIME`,
/// or `?sequence=N`.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<ListQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    // Pages are ordered by the entry that granted or ended a reservation, which stays the same between two pages.
    let after: ReservationPlace = page::after(query.after.as_deref())?.unwrap_or_default();
    let when = When { at: query.at, sequence: query.sequence };
    let copied = move |state: &state::State| {
        let view = state.reservations_view(&namespace, query.state, after);
        (view, state.head())
    };
    // All of them are scanned, but outside the lock of the state. A few reservations may have many amounts.
    let amounts = |(view, _): &(ReservationsView, Head)| view.amounts(AMOUNTS_AT_ONCE);
    let make = move |(view, head): (ReservationsView, Head), lagging, turn: &Turn| {
        let (reservations, next) = view.page(after, limit, || turn.pause());
        let items = reservations.iter();
        Ok(answer::large(
            turn,
            &Page {
                items: items.map(|(reservation, end)| item(reservation, *end)).collect(),
                next: next.as_ref().map(token).transpose()?,
                as_of: answer::as_of(head),
                lagging,
            },
        ))
    };
    past::answer(&app, &actor.principal, &when, copied, amounts, make).await?
}
