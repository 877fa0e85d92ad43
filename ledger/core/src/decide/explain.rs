//! The details of a denial.

use super::Request;
use crate::state::{Counted, State};
use quota_semantics::{
    Name, Timestamp,
    admission::{CheckedLimit, CheckedQuota, Denial, Limit, LimitKind},
    quantity::Quantity,
    resource::ResourceList,
};

/// With more limits than this, only limits that the request needs are reported.
pub(super) const LIMITS_MAX: usize = 1000;

/// With more pending reservations than this in a namespace, the time at which there will be room is not searched for.
pub(super) const EXPLAINED_MAX: usize = 1024;

/// The checked limits and the amount requested of each, and the number of quotas left out because they would exceed
/// `shown_max` limits. Exceeded ones then come first.
pub(super) fn checked_quotas(
    limits: &[Counted<'_>],
    wanted: &ResourceList,
    shown_max: usize,
) -> (Vec<CheckedQuota>, usize) {
    let all: usize = limits.iter().map(|limit| limit.hard().len()).sum();
    let checked_limits_of = |limit: &Counted<'_>| -> Vec<CheckedLimit> {
        let hard = limit.hard();
        let requested = |name: &Name| wanted.get(name).cloned().unwrap_or_default();
        match all <= LIMITS_MAX.min(shown_max) {
            true => hard
                .iter()
                .map(|(name, hard)| checked_limit(limit, name, hard, requested(name)))
                .collect(),
            false => wanted
                .common(hard)
                .map(|(name, wanted, hard)| checked_limit(limit, name, hard, wanted.clone()))
                .collect(),
        }
    };
    let mut order: Vec<&Counted<'_>> = limits.iter().collect();
    if all > shown_max {
        order.sort_by_cached_key(|limit| !is_exceeded(limit, wanted));
    }
    let (mut quotas, mut shown) = (Vec::new(), 0_usize);
    for limit in order {
        let resources = checked_limits_of(limit);
        shown = shown.saturating_add(resources.len().max(1));
        if shown > shown_max && !quotas.is_empty() {
            break;
        }
        quotas.push(CheckedQuota { name: limit.name().clone(), kind: limit.kind(), resources });
    }
    let omitted = limits.len() - quotas.len();
    (quotas, omitted)
}

/// Whether a requested amount does not fit.
fn is_exceeded(limit: &Counted<'_>, wanted: &ResourceList) -> bool {
    wanted.common(limit.hard()).any(|(name, wanted, hard)| {
        let mut counted = limit.counted(name).unwrap_or_default();
        counted.add_assign(wanted);
        wanted.is_positive() && counted > *hard
    })
}

/// One limit of a quota.
pub(super) fn checked_limit(
    limit: &Counted<'_>,
    resource: &Name,
    hard: &Quantity,
    requested: Quantity,
) -> CheckedLimit {
    CheckedLimit {
        resource: resource.clone(),
        hard: hard.clone(),
        used: limit.used(resource),
        reserved: limit.reserved(resource),
        guaranteed_to_others: limit.guaranteed_to_others(resource).cloned(),
        soft: limit.soft(resource).cloned(),
        requested,
    }
}

/// The message of a denial.
pub(super) struct Detail {
    /// The message as in Kubernetes, with what it says about groups and reservations.
    pub(super) text: String,
    /// The part about reservations, if any count against the exceeded limit.
    pub(super) reserved: Option<String>,
}

/// The message of a denial. If reservations count against the quota, also how much they hold and until when.
pub(super) fn detail(
    state: &State,
    now: Timestamp,
    request: &Request,
    limits: &[Counted<'_>],
    denial: &Denial,
    search_max: usize,
) -> Detail {
    let mut text = denial.to_string();
    let exceeded = exceeded(limits, denial);
    let reserved = exceeded.and_then(|(limit, requested)| {
        if limit.kind() == LimitKind::ClusterResourceQuota {
            text.push_str(&about_group(request, limit, requested));
        }
        reserved(state, now, request, limit, requested, search_max)
    });
    if let Some(reserved) = &reserved {
        text.push_str(&format!("; reserved: {reserved}"));
    }
    Detail { text, reserved }
}

/// The limit that a denial is about, and the requested amounts that do not fit.
fn exceeded<'a>(
    limits: &'a [Counted<'a>],
    denial: &'a Denial,
) -> Option<(&'a Counted<'a>, &'a ResourceList)> {
    let Denial::ExceedsHard { quota, requested, used, limited } = denial else {
        return None;
    };
    // A group may have the same name as a quota.
    let is_it = |limit: &&Counted<'_>| {
        let mut names = used.iter();
        limit.name() == quota
            && names.all(|(name, used)| limit.counted(name).as_ref() == Some(used))
            && limited.iter().all(|(name, hard)| limit.hard().get(name) == Some(hard))
    };
    let limit = limits.iter().find(is_it)?;
    Some((limit, requested))
}

/// The amounts of reservations that count against a limit, in words; none if there are none.
fn reserved(
    state: &State,
    now: Timestamp,
    request: &Request,
    limit: &Counted<'_>,
    requested: &ResourceList,
    search_max: usize,
) -> Option<String> {
    let reserved: ResourceList =
        requested.names().map(|name| (name.clone(), limit.reserved(name))).collect();
    let reserved = reserved.without_zeros();
    if reserved.is_empty() {
        return None;
    }
    let sum = reserved.pretty();
    // The reservations of a group are in other namespaces, too: their number is nobody else's business.
    if limit.kind() == LimitKind::ClusterResourceQuota {
        return Some(sum.to_string());
    }
    let pending = state.pending_count_in(&request.namespace);
    let amounts = pending * reserved.len();
    let holders: Vec<Timestamp> = match pending <= EXPLAINED_MAX && amounts <= search_max {
        true => state.holders(&request.namespace, limit.name(), &reserved),
        false => Vec::new(),
    };
    let Some(next) = holders.iter().min() else {
        return Some(sum.to_string());
    };
    let noun = if holders.len() == 1 { "reservation" } else { "reservations" };
    let seconds = next.since(now).nanoseconds().max(0).saturating_add(999_999_999) / 1_000_000_000;
    Some(format!("{sum} by {} pending {noun}, next expires in {seconds}s", holders.len(),))
}

/// The part of the message about a group. Of other namespaces it gives only the number.
fn about_group(request: &Request, limit: &Counted<'_>, requested: &ResourceList) -> String {
    let of = |amount: &dyn Fn(&Name) -> Option<Quantity>| {
        let amounts = requested.names();
        let amounts: ResourceList =
            amounts.filter_map(|name| Some((name.clone(), amount(name)?))).collect();
        amounts
    };
    let mut detail = String::new();
    if let Some(shared) = limit.shared() {
        let own = of(&|name| Some(shared.own(name)));
        let (group, namespace, own) = (limit.name(), &request.namespace, own.pretty());
        let namespaces = match shared.members {
            0 | 1 => "1 namespace".to_owned(),
            members => format!("{members} namespaces"),
        };
        detail.push_str(&format!(
            "; {group} is shared by {namespaces}, {namespace} uses {own} of it"
        ));
    }
    let others = of(&|name| limit.guaranteed_to_others(name).cloned());
    if !others.is_empty() {
        detail.push_str(&format!("; {} are guaranteed to others", others.pretty()));
    }
    detail
}
