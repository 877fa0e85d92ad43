//! Usage: what counts, and against which limits.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use quota_client::wire::{QuotaUsage, ResourceUsage, Total, Usage};
use quota_core::state::{Figure, Head, Totals};
use quota_semantics::{Name, quantity::Quantity, resource::ResourceList};

use crate::large;

use super::{
    App, Caller, answer,
    page::{Params, Target},
    past::{self, When},
    problem::Problem,
};

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
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let permit = large::may_wait(&actor.principal)?;
    let name = namespace.clone();
    let (seen, lagging) = past::ask(&app, &when, move |state| Seen::of(state, &name)).await?;
    let figures = seen.quotas.iter().map(|(_, figures)| 1 + figures.len());
    let amounts = figures.sum();
    let make = move || {
        answer::ok(&Usage {
            namespace: namespace.into(),
            resources: sums(&seen.totals),
            quotas: seen.quotas.into_iter().map(limits).collect(),
            as_of: answer::as_of(seen.head),
            lagging,
        })
    };
    Ok(permit.make(amounts, make).await)
}

pub(super) fn sums(totals: &Totals) -> Vec<Total> {
    let names: BTreeSet<&Name> = totals.used.names().chain(totals.reserved.names()).collect();
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sum = |resource: &Name| Total {
        resource: resource.clone(),
        used: of(&totals.used, resource),
        reserved: of(&totals.reserved, resource),
    };
    names.into_iter().map(sum).collect()
}

pub(super) fn limits((name, figures): (Name, Vec<Figure>)) -> QuotaUsage {
    QuotaUsage {
        name,
        resources: figures.into_iter().map(limit).collect(),
    }
}

fn limit(figure: Figure) -> ResourceUsage {
    let Figure {
        resource,
        hard,
        used,
        reserved,
    } = figure;
    let mut available = hard.clone();
    available.sub_assign(used.as_ref().unwrap_or(&Quantity::ZERO));
    available.sub_assign(&reserved);
    ResourceUsage {
        resource,
        hard,
        used,
        reserved,
        available,
        guaranteed_to_others: None,
    }
}
