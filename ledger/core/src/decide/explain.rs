//! What is said about a denial besides that it is one.

use super::{Looked, LookedAt, Request};
use crate::state::{Counted, State};
use quota_semantics::{
    Name, Timestamp,
    admission::{Denial, Limit},
    quantity::Quantity,
    resource::ResourceList,
};

/// Of more limits than this, only those are told of which something is wanted.
const LIMITS_MAX: usize = 1000;

/// More pending reservations than this in a namespace are not searched for the time when there will be room.
pub(super) const EXPLAINED_MAX: usize = 1024;

/// Every limit of the quotas looked at, and what was wanted of it.
pub(super) fn looked_at(limits: &[Counted<'_>], wanted: &ResourceList) -> Vec<LookedAt> {
    let all: usize = limits.iter().map(|limit| limit.hard().len()).sum();
    let looked = |limit: &Counted<'_>| {
        let looked = |name| looked(limit, name, wanted.get(name).cloned().unwrap_or_default());
        let hard = limit.hard();
        let resources = match all <= LIMITS_MAX {
            true => hard.names().map(looked).collect(),
            false => {
                let wanted = wanted.names().filter(|name| hard.get(name).is_some());
                wanted.map(looked).collect()
            }
        };
        LookedAt {
            name: limit.name().clone(),
            resources,
        }
    };
    limits.iter().map(looked).collect()
}

/// One limit of a quota.
pub(super) fn looked(limit: &Counted<'_>, resource: &Name, requested: Quantity) -> Looked {
    Looked {
        resource: resource.clone(),
        hard: limit.hard().get(resource).cloned().unwrap_or_default(),
        used: limit.used(resource),
        reserved: limit.reserved(resource),
        requested,
    }
}

/// Kubernetes' own words; then, when reservations are part of it, how much they hold and until when.
pub(super) fn detail(
    state: &State,
    now: Timestamp,
    request: &Request,
    limits: &[Counted<'_>],
    denial: &Denial,
    search_max: usize,
) -> String {
    let words = denial.to_string();
    let Denial::ExceedsHard {
        quota, requested, ..
    } = denial
    else {
        return words;
    };
    let Some(limit) = limits.iter().find(|limit| limit.name() == quota) else {
        return words;
    };
    let mut reserved: ResourceList = requested
        .names()
        .map(|name| (name.clone(), limit.reserved(name)))
        .collect();
    reserved = reserved.without_zeros();
    if reserved.is_empty() {
        return words;
    }
    let pending = state.pending_count_in(&request.namespace);
    let amounts = pending * reserved.len();
    let holders: Vec<Timestamp> = match pending <= EXPLAINED_MAX && amounts <= search_max {
        true => state.holders(&request.namespace, quota, &reserved),
        false => Vec::new(),
    };
    let Some(next) = holders.iter().min() else {
        return format!("{words}; reserved: {}", reserved.pretty());
    };
    let noun = if holders.len() == 1 {
        "reservation"
    } else {
        "reservations"
    };
    let seconds = next
        .since(now)
        .nanoseconds()
        .max(0)
        .saturating_add(999_999_999)
        / 1_000_000_000;
    format!(
        "{words}; reserved: {} by {} pending {noun}, next expires in {seconds}s",
        reserved.pretty(),
        holders.len(),
    )
}
