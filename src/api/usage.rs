//! Usage: what counts, and against which limits.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use quota_core::state::{Figure, Head, Totals};
use quota_semantics::{Name, quantity::Quantity, resource::ResourceList};
use serde::Serialize;

use super::{
    App, answer,
    page::{Params, Target},
    past::{self, When},
    problem::Problem,
};

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
pub(super) struct Sum<'a> {
    resource: &'a Name,
    used: Quantity,
    reserved: Quantity,
}

#[derive(Serialize)]
pub(super) struct Limits<'a> {
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

/// What a namespace uses, as read from a state.
pub(super) struct Seen {
    pub(super) totals: Totals,
    pub(super) quotas: Vec<(Name, Vec<Figure>)>,
    pub(super) head: Head,
}

impl Seen {
    pub(super) fn of(state: &quota_core::state::State, namespace: &str) -> Self {
        let quotas = state.quota_figures(namespace).into_iter();
        Self {
            totals: state.totals(namespace),
            quotas: quotas
                .map(|(record, figures)| (record.name.clone(), figures))
                .collect(),
            head: state.head(),
        }
    }
}

/// `GET /v1/namespaces/{namespace}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let name = namespace.clone();
    let (seen, lagging) = past::ask(&app, &when, move |state| Seen::of(state, &name)).await?;
    Ok(answer::ok(&Usage {
        namespace: &namespace,
        resources: sums(&seen.totals),
        quotas: seen.quotas.iter().map(limits).collect(),
        as_of: seen.head,
        lagging,
    }))
}

pub(super) fn sums(totals: &Totals) -> Vec<Sum<'_>> {
    let names: BTreeSet<&Name> = totals.used.names().chain(totals.reserved.names()).collect();
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sum = |resource| Sum {
        resource,
        used: of(&totals.used, resource),
        reserved: of(&totals.reserved, resource),
    };
    names.into_iter().map(sum).collect()
}

pub(super) fn limits((name, figures): &(Name, Vec<Figure>)) -> Limits<'_> {
    Limits {
        name,
        resources: figures.iter().map(limit).collect(),
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
