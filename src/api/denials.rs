//! The latest denials.

use axum::{extract::State, response::Response};
use quota_semantics::Name;
use serde_json::value::RawValue;

use super::{
    App, answer,
    page::{Page, PageQuery, Params, Target, token},
    problem::Problem,
};
use crate::denials::{Query, StoredDenial};

/// `GET /v1/namespaces/{namespace}/denials`: the latest first.
pub(super) async fn list(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page(&app, Some(Name::from(namespace)), &query).await
}

/// `GET /v1/denials`: of all namespaces.
pub(super) async fn list_all(
    State(app): State<App>,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page(&app, None, &query).await
}

async fn page(app: &App, namespace: Option<Name>, query: &PageQuery) -> Result<Response, Problem> {
    let limit = query.limit(app.page)?;
    let query = Query {
        namespace,
        before: query.after()?,
        limit: limit + 1,
    };
    let mut kept = match app.ledger.denials() {
        Some(denials) => denials.list(query).await,
        None => Vec::new(),
    };
    // One that was decided on entries that are not durable yet could still be lost with them.
    let durable = app.ledger.durable().sequence;
    kept.retain(|denial| denial.sequence <= durable);
    let more = kept.len() > limit;
    kept.truncate(limit);
    let last = kept.last().filter(|_| more);
    let items: Vec<&RawValue> = kept
        .iter()
        .map(|StoredDenial { json, .. }| &**json)
        .collect();
    Ok(answer::ok(&Page {
        items,
        next: last.map(|denial| token(&denial.id)).transpose()?,
        as_of: answer::as_of(app.ledger.read(quota_core::state::State::head).await?),
        lagging: app.lags(),
    }))
}
