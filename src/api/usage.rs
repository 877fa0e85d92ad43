//! Usage: what counts, and against which limits.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use quota_ledger::{
    Name,
    quantity::Quantity,
    resource::ResourceList,
    state::{Figure, Head, QuotaView, Totals},
};
use serde::{Deserialize, Serialize};

use super::{
    App, answer,
    page::{Params, Target},
    problem::{Problem, Reason},
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    at: Option<String>,
    sequence: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Usage<'a> {
    namespace: &'a str,
    resources: Vec<Sum<'a>>,
    quotas: Vec<Limits<'a>>,
    as_of: Head,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

/// What counts for a resource in the namespace, whatever the quotas.
#[derive(Serialize)]
struct Sum<'a> {
    resource: &'a Name,
    used: Quantity,
    reserved: Quantity,
}

#[derive(Serialize)]
struct Limits<'a> {
    name: &'a str,
    resources: Vec<Limit<'a>>,
}

#[derive(Serialize)]
struct Limit<'a> {
    resource: &'a Name,
    hard: &'a Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<&'a Quantity>,
    reserved: &'a Quantity,
    /// May be negative: a limit can be passed by facts.
    available: Quantity,
}

/// `GET /v1/namespaces/{namespace}/usage`
pub(super) async fn usage(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    if when.at.is_some() || when.sequence.is_some() {
        let detail = "usage of the past is not offered: leave out at and sequence";
        return Err(Problem::new(Reason::Unsupported, detail));
    }
    let read = app.ledger.read(|state| {
        (
            state.totals(&namespace),
            state.quotas(&namespace),
            state.head(),
        )
    });
    let (totals, quotas, as_of) = read.await?;
    Ok(answer::ok(&Usage {
        namespace: &namespace,
        resources: sums(&totals),
        quotas: quotas.iter().map(limits).collect(),
        as_of,
        lagging: app.lags(),
    }))
}

fn sums(totals: &Totals) -> Vec<Sum<'_>> {
    let names: BTreeSet<&Name> = totals.used.names().chain(totals.reserved.names()).collect();
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sum = |resource| Sum {
        resource,
        used: of(&totals.used, resource),
        reserved: of(&totals.reserved, resource),
    };
    names.into_iter().map(sum).collect()
}

fn limits(view: &QuotaView) -> Limits<'_> {
    Limits {
        name: &view.record.name,
        resources: view.figures.iter().map(limit).collect(),
    }
}

fn limit(figure: &Figure) -> Limit<'_> {
    let mut available = figure.hard.clone();
    available.sub_assign(figure.used.as_ref().unwrap_or(&Quantity::ZERO));
    available.sub_assign(&figure.reserved);
    Limit {
        resource: &figure.resource,
        hard: &figure.hard,
        used: figure.used.as_ref(),
        reserved: &figure.reserved,
        available,
    }
}
