//! Checks whether a request would fit.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use quota_client::wire::Verdict;
use quota_core::{
    decide::{self, Checked, FingerprintedRequest, Refusal},
    state::{Head, State as LedgerState},
};
use quota_semantics::{Name, uid::Uid};

use super::{
    App, Caller, answer,
    body::ObjectText,
    caller,
    measure::{Operation, measured},
    page::Target,
    problem::Problem,
    reservations::warnings,
    reserve_request::ReserveRequest,
};
use crate::{
    auth::Principal,
    clock,
    large::{self, AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Turn},
    server::warn,
    writer::{DecisionContext, For},
};

/// `POST /v1/namespaces/{namespace}/check`: writes nothing.
pub(super) async fn check(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    text: ObjectText,
) -> Response {
    let checked = measured(Operation::Check, async {
        let (reading, place) = (app.clone(), namespace.clone());
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let read = move |_: &Turn| read(&reading, &place, &text);
        let request = large::make_sized(&actor.principal, amounts, read).await??;
        let by = caller::by(&actor, &principal, &namespace);
        let amounts = app
            .ledger
            .peek(|state| decide::amounts_to_check(state, &request));
        let (checked, head) = if amounts <= AMOUNTS_AT_ONCE {
            let decided = |state: &LedgerState| {
                let now = clock::now().max(state.head().time);
                let checked = decide::check(state, now, &by, &request, app.ledger.policy());
                (checked, state.head())
            };
            app.ledger.read(decided).await?
        } else {
            // Beside many limits a check takes as long as a reservation, and is paid for as one.
            let decided = move |context: &mut DecisionContext<'_>, request: &_| {
                let (state, now) = (context.transaction.state(), context.transaction.now());
                let checked = decide::check(state, now, &by, request, context.policy);
                (checked, state.head())
            };
            let (ledger, request) = (&app.ledger, Arc::new(request));
            let decided = ledger.decide_about(For::Always(&actor.principal), request, decided);
            decided.await?
        };
        let checked = checked.map(|checked| {
            let warnings = warnings(&namespace, &checked.notices, &checked.warn_of);
            (checked, warnings)
        });
        Ok((checked, head))
    });
    match checked.await {
        Ok((checked, head)) => {
            let amounts = amounts_of(&checked);
            let make = move |turn: &Turn| respond(turn, &app, checked, head);
            let made = large::make_sized(&actor.principal, amounts, make).await;
            made.unwrap_or_else(Problem::into_response)
        }
        Err(problem) => problem.into_response(),
    }
}

fn read(app: &App, namespace: &Name, text: &ObjectText) -> Result<FingerprintedRequest, Problem> {
    // A hypothetical object has no uid.
    let fresh = Uid::from_uuid(uuid::Uuid::new_v4().into_bytes());
    let text = text.to_json()?;
    let request = text.read::<ReserveRequest<'_>>()?;
    request.request(app, namespace, clock::now(), Some(fresh))
}

/// How many amounts the verdict lists.
fn amounts_of(checked: &Result<(Checked, Vec<String>), Refusal>) -> usize {
    let quotas = match checked {
        Ok((checked, _)) => &checked.quotas,
        Err(Refusal::Denied(denied)) => &denied.quotas,
        Err(_) => return 1,
    };
    quotas.iter().map(|quota| 1 + quota.resources.len()).sum()
}

fn respond(
    turn: &Turn,
    app: &App,
    checked: Result<(Checked, Vec<String>), Refusal>,
    head: Head,
) -> Response {
    let (as_of, lagging) = (answer::as_of(head), app.lags());
    match checked {
        Ok((checked, warnings)) => {
            let mut response = answer::large(
                turn,
                &Verdict {
                    fits: true,
                    reason: None,
                    detail: None,
                    quotas: Cow::Borrowed(&checked.quotas),
                    unlimited: Cow::Borrowed(&checked.unlimited),
                    warnings: Cow::Borrowed(&warnings),
                    retry_after: None,
                    as_of,
                    lagging,
                },
            );
            warn(response.headers_mut(), &warnings);
            response
        }
        Err(refusal) => {
            let problem = Problem::from(refusal);
            let Some(quotas) = problem.quotas() else {
                return problem.as_of(head).into_response();
            };
            answer::large(
                turn,
                &Verdict {
                    fits: false,
                    reason: Some(Cow::Borrowed(problem.reason().as_str())),
                    detail: Some(Cow::Borrowed(problem.detail())),
                    quotas: Cow::Borrowed(quotas),
                    unlimited: Cow::Borrowed(&[]),
                    warnings: Cow::Borrowed(&[]),
                    retry_after: problem.retry_after(),
                    as_of,
                    lagging,
                },
            )
        }
    }
}
