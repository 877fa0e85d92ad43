//! The latest denials.

use axum::{extract::State, response::Response};
use quota_semantics::Name;
use serde_json::value::RawValue;

use super::{
    App, Caller, answer,
    page::{PageQuery, Params, Target, cut, token},
    problem::Problem,
};
use crate::{
    auth::Reader,
    denials::{Query, StoredDenial},
    fairness::{BYTES_PER_AMOUNT, Permit, Turn},
};

/// `GET /v1/namespaces/{namespace}/denials`: the latest first.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page(app, &actor.principal, Some(namespace), Reader::default(), &query).await
}

/// `GET /v1/denials`: of all namespaces that the caller may read.
pub(super) async fn list_all(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page(app, &actor.principal, None, reader, &query).await
}

async fn page(
    app: App,
    principal: &Name,
    namespace: Option<Name>,
    reader: Reader,
    query: &PageQuery,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(principal)?;
    let limit = query.limit(app.page)?;
    let query = Query { namespace, reader, before: query.after()?, limit: limit + 1 };
    let mut kept = match app.ledger.denials() {
        Some(denials) => denials.list(query).await,
        None => Vec::new(),
    };
    let next = cut(&mut kept, limit, |denial| token(&denial.id))?;
    // A denial that was decided on entries that are not durable yet could still be lost with them.
    let durable = app.ledger.durable().sequence;
    kept.retain(|denial| denial.sequence <= durable);
    let head = app.ledger.read(quota_core::state::State::head).await?;
    let bytes: usize = kept.iter().map(|denial| denial.json.get().len()).sum();
    let make = move |turn: &Turn| {
        let items = kept.iter().map(|StoredDenial { json, .. }| &**json);
        answer::large(turn, &app.page_of::<&RawValue>(items.collect(), next, head))
    };
    Ok(permit.make(bytes / BYTES_PER_AMOUNT, make).await)
}
