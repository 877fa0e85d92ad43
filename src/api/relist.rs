//! Requests a relist from the publishers.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use http::StatusCode;
use quota_client::wire::{RelistAnswer, RelistRequest};
use quota_semantics::{Name, syntax};

use super::{
    App, Caller, answer,
    body::JsonText,
    problem::{FieldProblem, Problem, Reason},
};
use crate::log_limiter::LogLimiter;

/// Most kinds that one call can name.
const KINDS_MAX: usize = 256;

/// `POST /v1/relist`: requests that the publishers list these kinds again, or all kinds.
/// Requests that are logged per second.
static REQUESTS: LogLimiter = LogLimiter::new(1);

pub(super) async fn request(
    State(app): State<App>,
    Caller(actor): Caller,
    text: JsonText,
) -> Result<Response, Problem> {
    let request: RelistRequest = match text.is_empty() {
        true => RelistRequest::default(),
        false => text.read()?,
    };
    let resources = kinds(&request)?;
    let Some(relist) = app.sources.request_relist(resources.clone()) else {
        let detail = "there is no stream, so no publisher of which a relist could be requested: nats.url is not set";
        return Err(Problem::new(Reason::NotFound, detail));
    };
    if relist.clusters.is_empty() {
        let detail = "no message of the stream has been seen that names a cluster of which a relist could be requested: \
                      set nats.cluster";
        return Err(Problem::new(Reason::NotReady, detail));
    }
    let principal = &*actor.principal;
    if let Some(held_back) = REQUESTS.pass() {
        tracing::info!(principal, ?resources, held_back, "relist requested");
    }
    Ok(answer::json(
        StatusCode::ACCEPTED,
        &RelistAnswer {
            clusters: relist.clusters,
            resources: resources.into_iter().collect(),
            wait_seconds: relist.wait.as_millis().div_ceil(1000).try_into().unwrap_or(0),
        },
    ))
}

fn kinds(request: &RelistRequest) -> Result<BTreeSet<Name>, Problem> {
    let complaint = |(place, kind): (usize, &String)| {
        let complaints = syntax::subdomain(kind);
        let field = format!("resources[{place}]");
        (!complaints.is_empty()).then(|| FieldProblem::invalid(field, kind, &complaints.join("; ")))
    };
    let kinds = request.resources.iter().enumerate();
    let mut errors: Vec<_> = kinds.filter_map(complaint).collect();
    if request.resources.len() > KINDS_MAX {
        let (field, why) = ("resources", format!("at most {KINDS_MAX}; none means all"));
        errors = vec![FieldProblem::forbidden(field, &why)];
    }
    match errors.is_empty() {
        true => Ok(request.resources.iter().map(|kind| kind.as_str().into()).collect()),
        false => Err(Problem::invalid(errors)),
    }
}
