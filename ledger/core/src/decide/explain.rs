//! What is said about a denial besides that it is one.

use super::{Looked, LookedAt, Request};
use crate::state::{Counted, State};
use quota_semantics::{
    Name, Timestamp,
    admission::{Denial, Limit},
    quantity::Quantity,
    resource::ResourceList,
};

/// More pending reservations than this in a namespace are not searched for the time when there will be room.
pub(super) const EXPLAINED_MAX: usize = 1024;

/// Every limit of the quotas looked at, and what was wanted of it.
pub(super) fn looked_at(limits: &[Counted<'_>], wanted: &ResourceList) -> Vec<LookedAt> {
    let looked = |limit: &Counted<'_>| LookedAt {
        name: limit.name().clone(),
        resources: limit
            .hard()
            .names()
            .map(|name| looked(limit, name, wanted.get(name).cloned().unwrap_or_default()))
            .collect(),
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
    let holders: Vec<Timestamp> = match state.pending_count_in(&request.namespace) {
        0..=EXPLAINED_MAX => state.holders(&request.namespace, quota, &reserved),
        _ => Vec::new(),
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
