//! One namespace: what the ledger knows of it besides numbers.

use axum::{extract::State, response::Response};
use quota_client::wire::Namespace;
use quota_core::state;

use super::{App, answer, page::Target, problem::Problem};
use crate::render::labels_of;

/// `GET /v1/namespaces/{namespace}`: of any name, since every namespace may have quotas.
pub(super) async fn get(
    State(app): State<App>,
    Target([namespace]): Target<1>,
) -> Result<Response, Problem> {
    let view = |state: &state::State| {
        let labels = labels_of(&namespace, state.namespace_record(&namespace).map(|it| &**it));
        (labels, state.groups_of(&namespace), state.head())
    };
    let (labels, groups, head) = app.ledger.read(view).await?;
    Ok(answer::ok(&Namespace {
        namespace,
        labels,
        groups,
        as_of: answer::as_of(head),
        lagging: app.lags(),
    }))
}
