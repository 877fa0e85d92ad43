//! Recounts a quota from all objects, as Kubernetes' quota controller does.
//!
//! The ledger maintains its sums entry by entry and needs no controller.

use quota_semantics::{
    object::{Context, Evaluator, Footprint, GroupResource},
    quantity::Quantity,
    quota::{Spec, scopes},
    resource::ResourceList,
};

/// All objects of one kind in the namespace of the quota.
#[derive(Clone, Debug)]
pub(crate) struct Listing<'a> {
    /// The kind.
    pub(crate) kind: &'a GroupResource,
    /// The footprints of the objects; `None` if they cannot be listed now.
    pub(crate) footprints: Option<Vec<&'a Footprint>>,
}

/// The status of a quota: the limits that apply, and the used amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The limits; `None` if they were never copied from the specification.
    pub(crate) hard: Option<ResourceList>,
    /// The used amounts; `None` if they were never counted.
    pub(crate) used: Option<ResourceList>,
}

/// The outcome of a recount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recount {
    /// The limits, now those of the specification.
    pub(crate) hard: ResourceList,
    /// The used amounts: counted where that was possible, otherwise as before; only names with a limit. A name under
    /// which no kind counts has a value only if it had one before.
    pub(crate) used: ResourceList,
    /// Whether the status has to be written, since a number has changed.
    pub(crate) changed: bool,
    /// The kinds that could not be listed.
    pub(crate) missing: Vec<GroupResource>,
}

/// Counts all objects that the quota applies to. `listings` holds every kind once.
///
/// An invalid selector stops the counting of a kind without an error: the amounts counted until then, usually none, are
/// used.
pub(crate) fn recount(
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
    Recount { hard: spec.hard.clone(), used, changed, missing }
}

/// The amounts of all names under which a kind counts, and the kinds that could not be counted: their names are left
/// out, even if another kind counts under them too.
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
    (total, missing.into_iter().map(|listing| listing.kind.clone()).collect())
}

fn add_matching(sum: &mut ResourceList, spec: &Spec, footprints: &[&Footprint]) {
    for footprint in footprints {
        match scopes::matches(spec, &footprint.traits) {
            Ok(true) => _ = sum.add(&footprint.resources),
            Ok(false) => {}
            Err(_) => return,
        }
    }
}
