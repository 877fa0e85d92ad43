//! Usage, and the limits that it counts against.

use std::collections::{BTreeMap, BTreeSet};

use axum::{extract::State, response::Response};
use quota_client::wire::{BoundBy, QuotaUsage, ResourceUsage, Room, Total, Usage};
use quota_core::state::{self, GroupFigure, Head, LimitView, LimitsView, Totals};
use quota_semantics::{Name, admission::LimitKind, resource::ResourceList};

use crate::{
    auth::{Principal, Role},
    fairness::Turn,
};

use super::{
    App, Caller, answer,
    page::{Params, Target},
    past::{self, When},
    problem::Problem,
};

/// A namespace's usage, as read from a state.
struct UsageView {
    totals: Totals,
    limits: LimitsView,
    head: Head,
}

impl UsageView {
    fn of(state: &state::State, namespace: &Name) -> Self {
        Self {
            totals: state.totals(namespace),
            limits: state.limits_view(namespace),
            head: state.head(),
        }
    }

    /// The number of amounts that the answer lists.
    fn amounts(&self) -> usize {
        self.totals.used.len() + self.totals.reserved.len() + self.limits.amounts()
    }

    /// The limits with their numbers. There may be many.
    fn limits(&self, turn: &Turn) -> Vec<LimitView> {
        self.limits.views().inspect(|_| turn.pause()).collect()
    }

    fn sums(&self, limits: &[LimitView]) -> Vec<Total> {
        let limited = limits.iter().flat_map(|limit| &limit.figures);
        sums(&self.totals, limited.map(|limit| &limit.figure.resource))
    }
}

/// The limits of a namespace, as far as a caller may see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    reads_groups: bool,
}

impl Sight {
    pub(super) fn of(principal: &Principal) -> Self {
        Self { reads_groups: principal.may_everywhere(Role::Read) }
    }

    /// Whether the caller may see the amounts of a limit. Those of a group are amounts of other namespaces, too.
    pub(super) const fn sees(self, limit: &LimitView) -> bool {
        self.reads_groups || !limit.is_shared
    }

    fn room(self, limits: &[LimitView]) -> BTreeMap<Name, Room> {
        let room = state::room(limits).into_iter();
        let shown = room.map(|(resource, state::Room { bound_by, figure })| {
            let room =
                Room { available: figure.available(), bound_by: self.bound_by(bound_by, figure) };
            (resource.clone(), room)
        });
        shown.collect()
    }

    fn bound_by(self, limit: &LimitView, of: &GroupFigure) -> BoundBy {
        let seen = self.sees(limit).then_some(of);
        let others = seen.map(|of| of.guaranteed_to_others.clone());
        BoundBy {
            kind: limit.kind,
            name: limit.name.clone(),
            hard: of.figure.hard.clone(),
            used: seen.map(|of| of.figure.used.clone().unwrap_or_default()),
            reserved: seen.map(|of| of.figure.reserved.clone()),
            guaranteed_to_others: others.filter(|others| !others.is_zero()),
        }
    }
}

/// `GET /v1/namespaces/{namespace}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let name = namespace.clone();
    let view = move |state: &state::State| UsageView::of(state, &name);
    let sight = Sight::of(&principal);
    let make = move |seen: UsageView, lagging, turn: &Turn| {
        let limits = seen.limits(turn);
        answer::large(
            turn,
            &Usage {
                namespace,
                resources: seen.sums(&limits),
                room: sight.room(&limits),
                quotas: quotas(limits),
                as_of: answer::as_of(seen.head),
                lagging,
            },
        )
    };
    let amounts = UsageView::amounts;
    past::answer(&app, &actor.principal, &when, view, amounts, make).await
}

fn quotas(limits: Vec<LimitView>) -> Vec<QuotaUsage> {
    let quotas = limits.into_iter().filter(|limit| limit.kind == LimitKind::ResourceQuota);
    let shown = quotas.map(|quota| QuotaUsage {
        name: quota.name,
        resources: quota.figures.into_iter().map(limit).collect(),
    });
    shown.collect()
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

fn limit(limit: GroupFigure) -> ResourceUsage {
    let available = limit.available();
    let figure = limit.figure;
    ResourceUsage {
        resource: figure.resource,
        hard: figure.hard,
        used: figure.used,
        reserved: figure.reserved,
        available,
        guaranteed_to_others: None,
    }
}
