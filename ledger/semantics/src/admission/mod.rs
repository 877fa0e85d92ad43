//! The decision about one request: may this object be created or grown, and which quotas does it charge?
//!
//! This is Kubernetes' ResourceQuota admission for a single request, as a pure function: the vectors in
//! `tests/vectors/admission.jsonl` compare it with Kubernetes' own outcomes and messages. Kubernetes' batches, write
//! conflicts and retries have no counterpart here: the ledger has one writer, and its decisions are final.
//!
//! The steps, of which the first failure decides:
//! 1. The limited resources of the configuration determine which names and scopes a quota has to cover.
//! 2. A quota applies if all its scopes match and it limits a name of this kind. It may require containers to specify
//!    cpu or memory, and its used amounts have to be available.
//! 3. No amount may be negative.
//! 4. The growth: on a create, all amounts; on an update, for each quota, the excess over the old version if the quota
//!    applied to that too, and all amounts if the object moves into the quota. Decreases are ignored here: they take
//!    effect with an event.
//! 5. If nothing grows, the request is allowed.
//! 6. Every name and scope that has to be covered is covered.
//! 7. For each quota, the counted amounts plus the growth are within its limits.

mod charging;
mod coverage;
mod denial;
mod request;

pub use charging::{Charging, ChargingError};
pub use coverage::{Coverage, WebhookRule, counted_kind, webhook_rules};
pub use denial::{CheckedLimit, CheckedQuota, Denial, LimitKind, wrap_forbidden};
pub use request::{Operation, evaluated, name_in_messages};

use std::borrow::Cow;

use crate::{
    Name,
    object::{Context, Evaluator, Footprint, GroupResource, Traits},
    quantity::Quantity,
    quota::{
        LimitedResource, Spec,
        scopes::{self, Scope},
    },
    resource::ResourceList,
};

/// A quota as a decision reads it.
pub trait Limit {
    /// Its name, for messages.
    fn name(&self) -> &Name;

    /// Its specification: only the scopes are read.
    fn spec(&self) -> &Spec;

    /// The limits that apply.
    fn hard(&self) -> &ResourceList;

    /// Whether it applies to an object, regardless of its scopes.
    fn selects(&self, _: &Footprint) -> bool {
        true
    }

    /// Whether it denies a request that does not fit; otherwise the request is charged nevertheless.
    fn is_enforced(&self) -> bool {
        true
    }

    /// Whether the amounts that count against the limits are available for every name.
    fn counts_all(&self) -> bool {
        false
    }

    /// The amount that counts against the limit of a name (used and reserved); `None` if unknown.
    fn counted(&self, name: &Name) -> Option<Quantity>;

    /// As [`Self::counted`], for one name after the other in their order; zero if unknown.
    fn counting(&self) -> impl FnMut(&Name) -> Quantity {
        |name| self.counted(name).unwrap_or_default()
    }

    /// The growth of the counted amount when the amounts of the object grow by these; no zeros. Less than these, as far
    /// as a workload is charged for them already.
    fn growth<'a>(&'a self, amounts: &'a ResourceList) -> &'a ResourceList {
        amounts
    }
}

/// A request to create or change one object.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The kind of the object.
    pub kind: &'a GroupResource,
    /// Whether the amounts were given instead of computed from the object: then every name among them belongs to it,
    /// and can be limited.
    pub measured: bool,
    /// The operation.
    pub operation: Operation,
    /// The subresource; empty for the whole object.
    pub subresource: &'a str,
    /// The new footprint.
    pub new: &'a Footprint,
    /// The present footprint; only for an update.
    pub old: Option<&'a Footprint>,
    /// Whether the old object is stored (has a resourceVersion). If not, the update creates it, and
    /// is charged in full.
    pub old_has_version: bool,
    /// The requirements of a quota on these names that are not met, as in
    /// [`Object::missing_requirements`](crate::object::Object::missing_requirements).
    pub requirements: &'a dyn Fn(&[&str]) -> Option<String>,
    /// The device classes that stand for extended resources; [`EveryClass`](crate::object::EveryClass) if the
    /// footprints take them into account already.
    pub context: &'a dyn Context,
}

/// The charge of a request to one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The index of the limit in the list that was given.
    pub limit: usize,
    /// The growth of the names that the quota limits; no zeros, never empty.
    pub delta: ResourceList,
}

/// Decides about one request. On success returns the charge to each quota; quotas without a charge are left out.
/// `limits` are the quotas of the namespace: if several fail, the first one is named.
///
/// Whether the request needs a decision at all is up to [`evaluated`].
///
/// # Errors
/// The reason why the request is denied.
pub fn evaluate<L: Limit>(
    limits: &[L],
    attempt: &Attempt<'_>,
    limited: &[LimitedResource],
) -> Result<Vec<Charge>, Denial> {
    if limits.is_empty() && limited.is_empty() {
        return Ok(Vec::new());
    }
    // Kubernetes allows a request if the configuration has an invalid selector.
    let Ok(demand) = Demand::of(attempt, limited) else {
        return Ok(Vec::new());
    };
    let mut covered = Vec::new();
    let mut charges = Vec::with_capacity(limits.len());
    for (index, limit) in limits.iter().enumerate() {
        if applies(limit, attempt, &mut covered)? {
            charges.push(Charge { limit: index, delta: ResourceList::new() });
        }
    }
    refuse_negative(attempt.new)?;
    let growth = Growth::of(attempt)?;
    let grows = match charges.as_slice() {
        [] => !growth.over_old().is_empty(),
        charges => charges.iter().any(|charge| {
            let limit = &limits[charge.limit];
            !limit.growth(growth.of_limit(limit)).is_empty()
        }),
    };
    if !grows {
        return Ok(Vec::new());
    }
    let applying = charges.iter().map(|charge| &limits[charge.limit]);
    demand.refuse_uncovered(applying, &covered, attempt)?;

    for charge in &mut charges {
        let limit = &limits[charge.limit];
        let growth = limit.growth(growth.of_limit(limit));
        let mut counted = limit.counting();
        let mut may_exceed = false;
        let mut delta = Vec::with_capacity(growth.len().min(limit.hard().len()));
        for (name, amount, hard) in growth.common(limit.hard()) {
            let mut total = counted(name);
            total.add_assign(amount);
            may_exceed |= total > *hard;
            delta.push((name.clone(), amount.clone()));
        }
        charge.delta = ResourceList::from_sorted(delta);
        if may_exceed && attempt.subresource != "status" {
            refuse_excess(limit, &charge.delta)?;
        }
    }
    charges.retain(|charge| !charge.delta.is_empty());
    Ok(charges)
}

/// The total that would count against the limit of a name.
fn after<L: Limit>(limit: &L, name: &Name, growth: &Quantity) -> Quantity {
    let mut total = limit.counted(name).unwrap_or_default();
    total.add_assign(growth);
    total
}

/// Whether the quota applies to the object and limits names of its kind. Its matching scopes are covered even if it does
/// not apply.
fn applies<'l, L: Limit>(
    limit: &'l L,
    attempt: &Attempt<'_>,
    covered: &mut Vec<&'l str>,
) -> Result<bool, Denial> {
    if !limit.selects(attempt.new) {
        return Ok(false);
    }
    if limit.spec().is_scoped() {
        let scopes = || scopes::scopes_of(limit.spec());
        let broken = |source| Denial::BrokenSelector { quota: limit.name().clone(), source };
        let matching = match scopes::matching(scopes(), &attempt.new.traits) {
            Ok(matching) => matching,
            Err(_) if !limit.is_enforced() => return Ok(false),
            Err(error) => return Err(broken(error)),
        };
        covered.extend(matching.iter().map(|scope| scope.name));
        if matching.len() < scopes().count() {
            return Ok(false);
        }
    }
    // What was given requires nothing.
    if attempt.measured && limit.counts_all() {
        return Ok(measured(limit, attempt).next().is_some());
    }
    let owned = owned(limit, attempt);
    if owned.is_empty() {
        return Ok(false);
    }
    if !limit.is_enforced() {
        return Ok(true);
    }
    if let Some(text) = (attempt.requirements)(&owned) {
        return Err(Denial::MustSpecify { quota: limit.name().clone(), text });
    }
    let is_counted = |name: &&str| limit.counted(&Name::from(*name)).is_some();
    if !limit.counts_all() && !owned.iter().all(is_counted) {
        let resources = owned.iter().map(|name| Name::from(*name)).collect();
        return Err(Denial::StatusUnknown { quota: limit.name().clone(), resources });
    }
    Ok(true)
}

/// The names in a quota that were given for the object.
fn measured<'l, L: Limit>(limit: &'l L, attempt: &'l Attempt<'_>) -> impl Iterator<Item = &'l str> {
    let given = limit.hard().common(&attempt.new.resources);
    given.map(|(name, ..)| name.as_str())
}

/// The names in a quota that belong to the kind; for a charged workload also those of its pods, except `count/pods`.
fn owned<'l, L: Limit>(limit: &'l L, attempt: &'l Attempt<'_>) -> Vec<&'l str> {
    if attempt.measured {
        return measured(limit, attempt).collect();
    }
    let names = || limit.hard().names().map(Name::as_str);
    let mut owned = Evaluator::of(attempt.kind).matching(names(), attempt.context);
    if makes_pods(attempt) {
        let of_pods = names().filter(|name| *name != "count/pods");
        owned.extend(Evaluator::Pods.matching(of_pods, attempt.context));
        owned.sort_unstable();
    }
    owned
}

fn makes_pods(attempt: &Attempt<'_>) -> bool {
    matches!(attempt.new.traits, Traits::Template { .. })
}

/// The names and scopes that a quota has to cover.
struct Demand<'a> {
    names: Vec<&'a str>,
    scopes: Vec<Scope<'a>>,
}

impl<'a> Demand<'a> {
    fn of(
        attempt: &Attempt<'a>,
        limited: &'a [LimitedResource],
    ) -> Result<Self, scopes::BrokenScope> {
        let all = limited.iter().flat_map(|entry| &entry.match_scopes).map(Scope::from);
        let scopes = scopes::matching(all, &attempt.new.traits)?;
        if limited.is_empty() {
            return Ok(Self { names: Vec::new(), scopes });
        }
        let texts: Vec<&Name> = limited
            .iter()
            .filter(|entry| {
                let of_pods = entry.api_group.is_empty() && entry.resource == "pods";
                attempt.kind.is(&entry.api_group, &entry.resource)
                    || (of_pods && makes_pods(attempt))
            })
            .flat_map(|entry| &entry.match_contains)
            .collect();
        let names = attempt
            .new
            .resources
            .iter()
            .filter(|(_, amount)| amount.is_positive())
            .map(|(name, _)| name.as_str())
            .filter(|name| texts.iter().any(|text| name.contains(text.as_str())))
            .collect();
        Ok(Self { names, scopes })
    }

    fn refuse_uncovered<'l, L: Limit + 'l>(
        &self,
        applying: impl Iterator<Item = &'l L>,
        covered: &[&str],
        attempt: &'l Attempt<'_>,
    ) -> Result<(), Denial> {
        if !self.names.is_empty() {
            let owned: Vec<&str> = applying.flat_map(|limit| owned(limit, attempt)).collect();
            let open = self.names.iter().filter(|name| !owned.contains(name));
            let names: Vec<Name> = open.map(|name| Name::from(*name)).collect();
            if !names.is_empty() {
                return Err(Denial::InsufficientQuota { names });
            }
        }
        let open = scopes::uncovered(&self.scopes, covered, &attempt.new.traits);
        if !open.is_empty() {
            let scopes = open.iter().map(Scope::to_string).collect();
            return Err(Denial::UncoveredScopes { scopes });
        }
        Ok(())
    }
}

/// The growth of the object; zeros left out.
struct Growth<'a> {
    old: Option<&'a Footprint>,
    full: Cow<'a, ResourceList>,
    over_old: Option<ResourceList>,
}

impl<'a> Growth<'a> {
    fn of(attempt: &Attempt<'a>) -> Result<Self, Denial> {
        let old = match (attempt.operation, attempt.old) {
            (Operation::Update, None) => return Err(Denial::NoPreviousVersion),
            (Operation::Update, Some(old)) if attempt.old_has_version => Some(old),
            _ => None,
        };
        let new = &attempt.new.resources;
        let over_old = old.map(|old| new.delta_over(&old.resources).without_zeros());
        Ok(Self {
            old,
            full: match new.has_zeros() {
                true => Cow::Owned(new.without_zeros()),
                false => Cow::Borrowed(new),
            },
            over_old,
        })
    }

    fn over_old(&self) -> &ResourceList {
        self.over_old.as_ref().unwrap_or(&self.full)
    }

    /// The growth that the quota has to bear: all amounts, if the quota did not apply to the object before.
    fn of_limit<L: Limit>(&self, limit: &L) -> &ResourceList {
        match self.old {
            // An invalid selector was found with the new traits already.
            Some(old)
                if limit.selects(old) && scopes::matches(limit.spec(), &old.traits) == Ok(true) =>
            {
                self.over_old()
            }
            _ => &self.full,
        }
    }
}

/// Refuses a footprint with a negative amount.
///
/// # Errors
/// With all names that have one.
pub fn refuse_negative(new: &Footprint) -> Result<(), Denial> {
    let amounts = new.resources.iter();
    let mut negative = amounts.filter(|(_, amount)| amount.is_negative()).peekable();
    if negative.peek().is_none() {
        return Ok(());
    }
    Err(Denial::NegativeUsage { resources: negative.map(|(name, _)| name.clone()).collect() })
}

/// Compares only names that grow: others may exceed their limits already.
///
/// # Errors
/// With all names that would exceed their limits.
pub fn refuse_excess<L: Limit>(limit: &L, delta: &ResourceList) -> Result<(), Denial> {
    if !limit.is_enforced() {
        return Ok(());
    }
    let grown = delta.common(limit.hard());
    let requested: ResourceList = grown
        .filter(|(name, growth, hard)| after(limit, name, growth) > **hard)
        .map(|(name, growth, _)| (name.clone(), growth.clone()))
        .collect();
    if requested.is_empty() {
        return Ok(());
    }
    let used =
        requested.names().filter_map(|name| Some((name.clone(), limit.counted(name)?))).collect();
    let limited = limit.hard().mask(|name| requested.get(name).is_some());
    Err(Denial::ExceedsHard { quota: limit.name().clone(), requested, used, limited })
}

#[cfg(test)]
mod tests;
