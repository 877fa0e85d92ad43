//! Ingests events over HTTP.

use axum::{body::Body, extract::State, response::Response};
use quota_client::wire::{EventsAnswer, RejectedEvent};
use quota_core::state::State as LedgerState;

use super::{
    App, Caller, answer,
    measure::{Operation, measured},
    problem::Problem,
};
use crate::{intake, whole_body::whole_body};

/// `POST /v1/events`: NDJSON, a JSON array, or one event.
pub(super) async fn accept(
    State(app): State<App>,
    Caller(actor): Caller,
    body: Body,
) -> Result<Response, Problem> {
    let (answer, as_of) = measured(Operation::Events, async {
        let text = whole_body(body).await?;
        let most = app.max_batch_entries;
        let answer = intake::http::accept(&app.ledger, &app.events, &actor, most, text).await?;
        let as_of = app.ledger.read(LedgerState::head).await;
        let as_of = as_of.map_err(|refused| refused.with_part_made(true))?;
        Ok((answer, as_of))
    })
    .await?;
    let rejected = answer.rejected.into_iter().map(|(line, reason)| RejectedEvent { line, reason });
    Ok(answer::ok(&EventsAnswer {
        accepted: answer.recorded.accepted,
        ignored: answer.recorded.ignored,
        rejected: rejected.collect(),
        as_of: answer::as_of(as_of),
        lagging: app.lags(),
    }))
}
