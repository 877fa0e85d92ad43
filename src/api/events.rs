//! Events by HTTP.

use axum::{extract::State, response::Response};
use bytes::Bytes;
use http::HeaderMap;
use quota_ledger::state::Head;
use serde::Serialize;

use super::{App, Caller, answer, body, problem::Problem};
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
    text: Bytes,
) -> Result<Response, Problem> {
    body::refuse_foreign_pages(&headers)?;
    let most = app.max_batch_entries;
    let answer = intake::http::accept(&app.ledger, &app.events, &actor, most, text).await?;
    let as_of = app.ledger.read(quota_ledger::state::State::head).await?;
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
