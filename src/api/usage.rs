//! Usage, and the limits that it counts against.

use std::{collections::BTreeSet, sync::Arc};

use axum::{extract::State, response::Response};
use quota_client::wire::{QuotaUsage, ResourceUsage, Total, Usage};
use quota_core::{
    event::QuotaRecord,
    state::{Figure, Head, QuotasView, Totals},
};
use quota_semantics::{Name, quantity::Quantity, resource::ResourceList};

use crate::large::Turn;

use super::{
    App, Caller, answer,
    page::{Params, Target},
    past::{self, When},
    problem::Problem,
};

/// A namespace's usage, as read from a state.
pub(super) struct UsageView {
    pub(super) totals: Totals,
    pub(super) quotas: QuotasView,
    pub(super) head: Head,
}

impl UsageView {
    pub(super) fn of(state: &quota_core::state::State, namespace: &str) -> Self {
        Self {
            totals: state.totals(namespace),
            quotas: state.quotas_view(namespace),
            head: state.head(),
        }
    }

    /// The sums of all resources that count or are limited, and what each limit leaves.
    pub(super) fn sums_and_limits(&self, turn: &Turn) -> (Vec<Total>, Vec<QuotaUsage>) {
        let limits = self.limits(turn);
        let limited = limits.iter().flat_map(|quota| &quota.resources);
        let sums = sums(&self.totals, limited.map(|limit| &limit.resource));
        (sums, limits)
    }

    /// The number of amounts that the answer lists.
    pub(super) fn amounts(&self) -> usize {
        self.totals.used.len() + self.totals.reserved.len() + self.quotas.amounts()
    }

    /// The quotas with their limits. There may be many.
    fn limits(&self, turn: &Turn) -> Vec<QuotaUsage> {
        let limits = |(record, figures): (&Arc<QuotaRecord>, Vec<Figure>)| {
            turn.pause();
            QuotaUsage {
                name: record.name.clone(),
                resources: figures.into_iter().map(limit).collect(),
            }
        };
        self.quotas.figures().map(limits).collect()
    }
}

/// `GET /v1/namespaces/{namespace}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let name = namespace.clone();
    let view = move |state: &quota_core::state::State| UsageView::of(state, &name);
    let make = move |seen: UsageView, lagging, turn: &Turn| {
        let (resources, quotas) = seen.sums_and_limits(turn);
        answer::large(
            turn,
            &Usage {
                namespace,
                resources,
                quotas,
                as_of: answer::as_of(seen.head),
                lagging,
            },
        )
    };
    let amounts = UsageView::amounts;
    past::answer(&app, &actor.principal, &when, view, amounts, make).await
}

fn sums<'a>(totals: &'a Totals, limited: impl Iterator<Item = &'a Name>) -> Vec<Total> {
    let counted = totals.used.names().chain(totals.reserved.names());
    let names: BTreeSet<&Name> = counted.chain(limited).collect();
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sum = |resource: &Name| Total {
        resource: resource.clone(),
        used: of(&totals.used, resource),
        reserved: of(&totals.reserved, resource),
    };
    names.into_iter().map(sum).collect()
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
