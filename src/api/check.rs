//! Checks whether a request would fit.

use std::borrow::Cow;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use quota_client::wire::Verdict;
use quota_core::{
    decide::{self, Checked, Refusal},
    state::Head,
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
    large::{self, Turn},
    server::warn,
};

/// `POST /v1/namespaces/{namespace}/check`: writes nothing.
pub(super) async fn check(
    State(app): State<App>,
    Target(namespace): Target<Name>,
    principal: Principal,
    Caller(actor): Caller,
    text: ObjectText,
) -> Response {
    let checked = measured(Operation::Check, async {
        // A hypothetical object has no uid.
        let fresh = Uid::from_uuid(uuid::Uuid::new_v4().into_bytes());
        let text = text.into_json()?;
        let request = text.read::<ReserveRequest<'_>>()?;
        let request = request.request(&app, &namespace, clock::now(), Some(fresh))?;
        let by = caller::by(&actor, &principal, &namespace);
        let question = app.ledger.read(|state| {
            let now = clock::now().max(state.head().time);
            (
                decide::check(state, now, &by, &request, app.ledger.policy()),
                state.head(),
            )
        });
        let (checked, head) = question.await?;
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
