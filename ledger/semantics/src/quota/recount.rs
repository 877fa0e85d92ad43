//! Counting a quota anew from all objects, as Kubernetes' quota controller does.
//!
//! The ledger keeps its sums entry by entry and needs no controller. This is the independent second
//! way to the same numbers: for audits, and for telling how far a cluster's own status is off.

use super::{Spec, scopes};
use crate::{
    object::{Context, Evaluator, Footprint, GroupResource},
    quantity::Quantity,
    resource::ResourceList,
};

/// All objects of one kind in the namespace of the quota.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    /// The kind.
    pub kind: &'a GroupResource,
    /// What the objects count for; `None` if they cannot be listed now.
    pub footprints: Option<Vec<&'a Footprint>>,
}

/// What the status of a quota says: the limits in force, and what is used of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The limits; `None` if they were never taken over from the specification.
    pub hard: Option<ResourceList>,
    /// What is used; `None` if it was never counted.
    pub used: Option<ResourceList>,
}

/// The outcome of a recount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recount {
    /// The limits, now those of the specification.
    pub hard: ResourceList,
    /// What is used: counted where that was possible, else as before; only names with a limit.
    /// A name that no kind counts under has a value only if it had one before.
    pub used: ResourceList,
    /// Whether the status has to be written: some number is another than before.
    pub changed: bool,
    /// The kinds that should have been counted and could not be listed.
    pub missing: Vec<GroupResource>,
}

/// Counts all objects that the quota is for. `listings` holds every kind there is, each once.
///
/// A broken selector ends the counting of a kind without a word: what was counted until then, as a
/// rule nothing, is taken.
#[must_use]
pub fn recount(
    spec: &Spec,
    before: &Status,
    listings: &[Listing<'_>],
    context: &dyn Context,
) -> Recount {
    let mut used = before.used.clone().unwrap_or_default();
    let (counted, missing) = count(spec, listings, context);
    for (name, amount) in counted {
        used.insert(name, amount);
    }
    used.retain(|name, _| spec.hard.get(name).is_some());
    let changed = before.hard.as_ref() != Some(&spec.hard) || before.used.as_ref() != Some(&used);
    Recount {
        hard: spec.hard.clone(),
        used,
        changed,
        missing,
    }
}

/// The amounts of all names that some kind counts under, and the kinds that could not be counted:
/// their names are left out, also where another kind counts under them too.
fn count(
    spec: &Spec,
    listings: &[Listing<'_>],
    context: &dyn Context,
) -> (ResourceList, Vec<GroupResource>) {
    let owned = |listing: &Listing<'_>, name: &str| Evaluator::of(listing.kind).owns(name, context);
    let mut total = ResourceList::new();
    let mut missing = Vec::new();
    for listing in listings {
        if !spec.hard.names().any(|name| owned(listing, name)) {
            continue;
        }
        match &listing.footprints {
            Some(footprints) => {
                let zeros = spec.hard.names().filter(|name| owned(listing, name));
                let mut sum: ResourceList =
                    zeros.map(|name| (name.clone(), Quantity::ZERO)).collect();
                add_matching(&mut sum, spec, footprints);
                total.add(&sum);
            }
            None => missing.push(listing),
        }
    }
    total.retain(|name, _| {
        let by_someone = listings.iter().any(|listing| owned(listing, name));
        by_someone && !missing.iter().any(|listing| owned(listing, name))
    });
    total.retain(|name, _| spec.hard.get(name).is_some());
    (
        total,
        missing
            .into_iter()
            .map(|listing| listing.kind.clone())
            .collect(),
    )
}

fn add_matching(sum: &mut ResourceList, spec: &Spec, footprints: &[&Footprint]) {
    for footprint in footprints {
        match scopes::matches(spec, &footprint.traits) {
            Ok(true) => sum.add(&footprint.resources),
            Ok(false) => {}
            Err(_) => return,
        }
    }
}
