//! The limits that apply to a reservation, and the resources that none of them limits.

use std::collections::BTreeSet;

use super::{Counted, Overlay, State, tracked_reservation::Tracked, view::Holding};
use quota_semantics::{
    Name,
    admission::{Limit as _, LimitKind},
    object::Footprint,
    resource::ResourceList,
};

/// The resources of a footprint that no limit counts, by name. A name is left out if another name of the footprint for
/// the same thing is limited: for a pod, `memory` if `requests.memory` is limited.
pub(crate) fn unlimited(limits: &[Counted<'_>], footprint: &Footprint) -> Vec<Name> {
    not_limited(&footprint.resources, &limited(limits, footprint))
}

/// The positive amounts that are not marked as limited, without those whose other name is.
fn not_limited(resources: &ResourceList, limited: &[bool]) -> Vec<Name> {
    // The numbers of known things as bits, and other things by their names.
    let (mut known, mut others) = (0_u128, BTreeSet::new());
    for (name, _) in resources.names().zip(limited).filter(|(_, is_limited)| **is_limited) {
        match name.thing() {
            Some(thing) => known |= 1 << thing,
            None => drop(others.insert(name.bare())),
        }
    }
    let mut open = Vec::new();
    for ((name, amount), is_limited) in resources.iter().zip(limited) {
        let has_other = || {
            let is_known = name.thing().is_some_and(|thing| known & (1 << thing) != 0);
            is_known || !others.is_empty() && others.contains(name.bare())
        };
        if !is_limited && amount.is_positive() && !has_other() {
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
    let mut holding = Holding { quotas: Vec::with_capacity(limits.len()), ..Holding::default() };
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
