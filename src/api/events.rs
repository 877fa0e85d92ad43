//! Events by HTTP.

use axum::{body::Body, extract::State, response::Response};
use http::HeaderMap;
use quota_core::state::{Head, State as LedgerState};
use serde::Serialize;

use super::{
    App, Caller, answer, body,
    measure::{Operation, measured},
    problem::Problem,
};
use crate::intake;

#[derive(Serialize)]
struct Rejection {
    line: u64,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    accepted: u64,
    ignored: u64,
    rejected: Vec<Rejection>,
    as_of: Head,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

/// `POST /v1/events`: NDJSON, a JSON array, or one event.
pub(super) async fn accept(
    State(app): State<App>,
    Caller(actor): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (answer, as_of) = measured(Operation::Events, async {
        body::refuse_foreign_pages(&headers)?;
        let text = body::whole(body).await?;
        let most = app.max_batch_entries;
        let answer = intake::http::accept(&app.ledger, &app.events, &actor, most, text).await?;
        Ok((answer, app.ledger.read(LedgerState::head).await?))
    })
    .await?;
    let rejected = answer
        .rejected
        .into_iter()
        .map(|(line, reason)| Rejection { line, reason });
    Ok(answer::ok(&Accepted {
        accepted: answer.recorded.accepted,
        ignored: answer.recorded.ignored,
        rejected: rejected.collect(),
        as_of,
        lagging: app.lags(),
    }))
}
