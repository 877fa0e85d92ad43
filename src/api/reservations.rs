//! Making and reading reservations.

mod shown;

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use quota_core::{
    decide::{self, Audience, By, Notice, Policy},
    event::{Actor, Sequence},
    state::{self, Head, ReservationStatus},
    transaction::WriteTransaction,
};
use quota_semantics::{Timestamp, uid::Uid};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    body::JsonText,
    caller,
    measure::{Operation, decided, log_denied, measured},
    page::{self, Page, Params, Target, token},
    past::{self, When},
    problem::{Problem, Reason},
    reserve_request::ReserveRequest,
};
use crate::{auth::Principal, denials::Denials, server::warn, writer};

pub(super) use shown::{HolderView, LAGGING, Shown, write_head};

/// The answer that shows one reservation.
pub(super) fn show(
    app: &App,
    status: StatusCode,
    promise: &ReservationStatus,
    head: Head,
) -> Response {
    let shown = Shown::from(promise).at(head, app.lags());
    let mut text = String::with_capacity(answer::ANSWER_BYTES);
    match shown.write(&mut text) {
        Ok(()) => answer::written(status, text.into()),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// A wish that was granted.
pub(super) struct Granted {
    pub(super) promise: ReservationStatus,
    pub(super) replayed: bool,
    /// What is said of it besides.
    pub(super) warnings: Vec<String>,
}

/// Grants a wish at the transaction, or says why not.
pub(super) fn grant(
    transaction: &mut WriteTransaction<'_>,
    policy: &Policy,
    actor: &Arc<Actor>,
    by: &By,
    request: &decide::FingerprintedRequest,
    denials: Option<&Denials>,
) -> Result<Granted, Problem> {
    let reserved = decide::reserve(transaction.state(), transaction.now(), by, request, policy);
    let reserved = reserved.inspect_err(|refusal| {
        if let Some(denials) = denials {
            denials.note(actor, request, refusal, transaction.state().head());
        }
    })?;
    transaction.record(actor, reserved.events);
    Ok(Granted {
        promise: remembered(transaction.state(), request)?,
        replayed: reserved.replayed,
        warnings: warnings(&reserved.notices),
    })
}

/// What the caller is to learn of; what is not for him is logged.
pub(super) fn warnings(notices: &[Notice]) -> Vec<String> {
    let mut warnings = Vec::new();
    for notice in notices {
        match notice.audience {
            Audience::Caller => warnings.push(notice.message.clone()),
            Audience::Auditors => {
                tracing::info!(quota = %notice.quota, message = notice.message, "a limit that is not enforced was passed");
            }
        }
    }
    warnings
}

/// A reservation that was granted just now or before.
pub(super) fn remembered(
    state: &state::State,
    request: &decide::FingerprintedRequest,
) -> Result<ReservationStatus, Problem> {
    let promise = state.promise(&request.namespace, &request.uid);
    promise.ok_or_else(|| Problem::internal(&"a granted reservation is not remembered"))
}

/// `POST /v1/namespaces/{namespace}/reservations`
pub(super) async fn create(
    State(app): State<App>,
    Target(namespace): Target<String>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let by = caller::by(&actor, &principal, &namespace);
    let granted = measured(Operation::Reserve, async {
        app.may_grant()?;
        let request =
            text.read::<ReserveRequest<'_>>()?
                .request(&app, &namespace, writer::now(), None)?;
        // Here, since all others wait for the thread that decides; and kept, so that it is freed here.
        request.digest();
        let request = Arc::new(request);
        let denials = app.ledger.denials().cloned();
        let decided = request.clone();
        let principal = actor.principal.clone();
        let decision = app.ledger.decide_for(&principal, move |context| {
            let granted = grant(
                &mut context.transaction,
                context.policy,
                &actor,
                &by,
                &decided,
                denials.as_ref(),
            );
            (granted, context.transaction.state().head())
        });
        let (granted, head) = decision.await?;
        match granted {
            Ok(granted) => Ok((granted, head)),
            Err(problem) => {
                log_denied(&request, &problem, head.sequence);
                Err(problem.as_of(head))
            }
        }
    });
    let granted = granted.await;
    match &granted {
        Ok((granted, _)) => decided(None, granted.replayed),
        Err(problem) => decided(Some(problem), false),
    }
    match granted {
        Ok((granted, head)) => created(&app, &granted, head),
        Err(problem) => problem.into_response(),
    }
}

fn created(app: &App, granted: &Granted, head: Head) -> Response {
    if granted.replayed {
        let mut response = show(app, StatusCode::OK, &granted.promise, head);
        response
            .headers_mut()
            .insert("idempotency-replayed", HeaderValue::from_static("true"));
        return response;
    }
    let mut response = show(app, StatusCode::CREATED, &granted.promise, head);
    let reservation = &granted.promise.reservation;
    let uid = reservation.uid.to_string();
    let location = answer::location(&[
        ("/v1/namespaces/", &reservation.namespace),
        ("/reservations/", &uid),
    ]);
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    warn(response.headers_mut(), &granted.warnings);
    response
}

/// `GET /v1/namespaces/{namespace}/reservations/{uid}`
pub(super) async fn get(
    State(app): State<App>,
    Target((namespace, uid)): Target<(String, String)>,
) -> Result<Response, Problem> {
    let not_found = || Problem::new(Reason::NotFound, format!("reservation {uid:?} not found"));
    let known = Uid::new(&uid).map_err(|_| not_found())?;
    let found = app
        .ledger
        .read(|state| (state.promise(&namespace, &known), state.head()));
    let (promise, head) = found.await?;
    let promise = promise.ok_or_else(not_found)?;
    Ok(show(&app, StatusCode::OK, &promise, head))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingQuery {
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/namespaces/{namespace}/reservations`: the pending ones, in the order in which they were granted; of now, or
/// `?at=TIME`, or `?sequence=N`.
pub(super) async fn list(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<PendingQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let after = query.after.as_deref().filter(|token| !token.is_empty());
    let after: Sequence = after.map(page::read_token).transpose()?.unwrap_or(0);
    let when = When {
        at: query.at,
        sequence: query.sequence,
    };
    // The entry that granted it stays the same, whatever is extended or ends between two pages.
    let pending = |state: &state::State| {
        let pending = state.pending_after(&namespace, after, limit);
        (pending, state.head())
    };
    let (((pending, more), head), lagging) = past::ask(&app, &when, pending).await?;
    let last = pending
        .last()
        .filter(|_| more)
        .map(|view| token(&view.entry))
        .transpose()?;
    let items = pending
        .iter()
        .map(|view| Shown::of(&view.reservation, view.end))
        .collect();
    Ok(answer::ok(&Page {
        items,
        next: last,
        as_of: head,
        lagging,
    }))
}
