//! The limits that apply to a reservation, and the resources that none of them limits.

use super::{Counted, Overlay, State, tracked_reservation::Tracked, view::Holding};
use quota_semantics::{
    Name,
    admission::{Limit as _, LimitKind},
    object::{COUNT_PREFIX, Footprint, REQUESTS_PREFIX},
    resource::ResourceList,
};

const LIMITS_PREFIX: &str = "limits.";

/// The thing that a name is for: the same for `cpu`, `requests.cpu` and `limits.cpu`, and for `pods` and `count/pods`.
pub(crate) fn bare(name: &str) -> &str {
    // One by one: a prefix that is known is compared in few instructions.
    let bare = name.strip_prefix(COUNT_PREFIX).or_else(|| name.strip_prefix(REQUESTS_PREFIX));
    bare.or_else(|| name.strip_prefix(LIMITS_PREFIX)).unwrap_or(name)
}

/// The resources of a footprint that no limit counts, by name. A name is left out if another name of the footprint for
/// the same thing is limited: for a pod, `memory` if `requests.memory` is limited.
pub(crate) fn unlimited(limits: &[Counted<'_>], footprint: &Footprint) -> Vec<Name> {
    not_limited(&footprint.resources, &limited(limits, footprint))
}

/// The positive amounts that are not marked as limited, without those whose other name is.
fn not_limited(resources: &ResourceList, limited: &[bool]) -> Vec<Name> {
    let mut things: Vec<&str> = Vec::with_capacity(resources.len());
    for (name, is_limited) in resources.names().zip(limited) {
        if *is_limited {
            things.push(bare(name));
        }
    }
    // Few are compared faster than sorted.
    let is_short = things.len() <= 8;
    if !is_short {
        things.sort_unstable();
    }
    let mut open = Vec::new();
    for ((name, amount), is_limited) in resources.iter().zip(limited) {
        let is_open = !*is_limited
            && amount.is_positive()
            && match is_short {
                true => !things.contains(&bare(name)),
                false => things.binary_search(&bare(name)).is_err(),
            };
        if is_open {
            open.push(name.clone());
        }
    }
    open
}

/// For each resource of a footprint, in their order, whether a limit counts it.
pub(crate) fn limited(limits: &[Counted<'_>], footprint: &Footprint) -> Vec<bool> {
    let resources = &footprint.resources;
    let mut limited = vec![false; resources.len()];
    for limit in limits {
        if limited.iter().all(|is_limited| *is_limited) {
            break;
        }
        if limit.counts(footprint) {
            for (place, _) in resources.common_places(limit.hard()) {
                limited[place] = true;
            }
        }
    }
    limited
}

/// The limits that apply to a claim for `target`, and the resources that none of them limits, given the observed
/// footprint of the object.
pub(crate) fn holding(
    limits: &[Counted<'_>],
    target: &Footprint,
    observed: Option<&Footprint>,
) -> Holding {
    let mut holding = Holding::default();
    let mut limited = vec![false; target.resources.len()];
    for limit in limits {
        // As many amounts as the target has, in the same order.
        let Some(amounts) = limit.hold(target, observed) else {
            continue;
        };
        let mut holds = false;
        for (place, _) in amounts.common_places(limit.hard()) {
            limited[place] = true;
            holds |= amounts.entry(place).1.is_positive();
        }
        if holds {
            match limit.kind() {
                LimitKind::ResourceQuota => &mut holding.quotas,
                LimitKind::ClusterResourceQuota => &mut holding.groups,
            }
            .push(limit.name().clone());
        }
    }
    holding.unlimited = not_limited(&target.resources, &limited);
    holding
}

impl State {
    /// The limits that apply to the claim of a reservation; none if the reservation has ended and claims nothing.
    pub(super) fn holding(&self, tracked: &Tracked) -> Option<Holding> {
        let (_, footprint) = tracked.claim()?;
        let reservation = &tracked.reservation;
        let overlay = Overlay::default();
        let limits = self.counted(&reservation.namespace, footprint, &overlay);
        let observed = self.beside(tracked).map(|shared| &**shared);
        Some(holding(&limits, footprint, observed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_same_thing_are_known() {
        for (name, other) in [
            ("cpu", "requests.cpu"),
            ("limits.cpu", "requests.cpu"),
            ("nvidia.com/gpu", "requests.nvidia.com/gpu"),
            ("pods", "count/pods"),
        ] {
            assert_eq!(bare(name), bare(other));
        }
        assert_ne!(bare("requests.cpu"), bare("requests.memory"));
    }
}
