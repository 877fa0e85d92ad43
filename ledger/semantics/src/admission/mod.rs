//! The decision about one request: may this object be created or grown, and which quotas does it grow?
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

    /// Whether it denies a request that does not fit; otherwise the request counts nevertheless.
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
pub struct Attempt<'a, 'f> {
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
    pub new: &'f Footprint,
    /// The present footprint; only for an update.
    pub old: Option<&'f Footprint>,
    /// Whether the old object is stored (has a resourceVersion). If not, the update creates it, and
    /// counts in full.
    pub old_has_version: bool,
    /// The requirements of a quota on these names that are not met, as in
    /// [`Object::missing_requirements`](crate::object::Object::missing_requirements).
    pub requirements: &'a dyn Fn(&[&str]) -> Option<String>,
    /// The device classes that stand for extended resources; [`EveryClass`](crate::object::EveryClass) if the
    /// footprints take them into account already.
    pub context: &'a dyn Context,
}

/// The limits that a request grows, and by how much.
#[derive(Debug, Default)]
pub struct GrownLimits<'a> {
    /// The places of the limits that grow, in order.
    limits: Vec<usize>,
    growth: Growth<'a>,
}

impl GrownLimits<'_> {
    /// Whether no limit grows.
    pub const fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The places of the limits that grow, each with the growth of its names: name, growth, limit. No growth is zero, and
    /// each limit has one. `limits` are those that were given.
    pub fn iter<'c, L: Limit>(
        &'c self,
        limits: &'c [L],
    ) -> impl Iterator<Item = (usize, impl Iterator<Item = (&'c Name, &'c Quantity, &'c Quantity)>)>
    {
        self.limits.iter().map(|&place| (place, self.growth.within(&limits[place])))
    }
}

/// Decides about one request. On success returns the growth of each limit that grows.
/// `limits` are the quotas of the namespace: if several fail, the first one is named.
///
/// Whether the request needs a decision at all is up to [`evaluated`].
///
/// # Errors
/// The reason why the request is denied.
pub fn evaluate<'f, L: Limit>(
    limits: &[L],
    attempt: &Attempt<'_, 'f>,
    limited: &[LimitedResource],
) -> Result<GrownLimits<'f>, Denial> {
    if limits.is_empty() && limited.is_empty() {
        return Ok(GrownLimits::default());
    }
    // Kubernetes allows a request if the configuration has an invalid selector.
    let Ok(demand) = Demand::of(attempt, limited) else {
        return Ok(GrownLimits::default());
    };
    let mut covered = Vec::new();
    let mut applying = Vec::with_capacity(limits.len());
    for (place, limit) in limits.iter().enumerate() {
        if applies(limit, attempt, &mut covered)? {
            applying.push(place);
        }
    }
    refuse_negative(attempt.new)?;
    let growth = Growth::of(attempt)?;
    let grows = match applying.as_slice() {
        [] => !growth.over_old().is_empty(),
        places => places.iter().any(|&place| !growth.of_limit(&limits[place]).is_empty()),
    };
    if !grows {
        return Ok(GrownLimits::default());
    }
    demand.refuse_uncovered(applying.iter().map(|&place| &limits[place]), &covered, attempt)?;

    let mut grown = GrownLimits { limits: applying, growth };
    let mut excess = Ok(());
    grown.limits.retain(|&place| {
        let limit = &limits[place];
        let mut counted = limit.counting();
        let (mut grows, mut may_exceed) = (false, false);
        for (name, amount, hard) in grown.growth.within(limit) {
            let mut total = counted(name);
            total.add_assign(amount);
            grows = true;
            may_exceed |= total > *hard;
        }
        if may_exceed && excess.is_ok() && attempt.subresource != "status" {
            excess = refuse_excess(limit, grown.growth.of_limit(limit));
        }
        grows
    });
    excess.map(|()| grown)
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
    attempt: &Attempt<'_, '_>,
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
fn measured<'l, L: Limit>(
    limit: &'l L,
    attempt: &'l Attempt<'_, '_>,
) -> impl Iterator<Item = &'l str> {
    let given = limit.hard().common(&attempt.new.resources);
    given.map(|(name, ..)| name.as_str())
}

/// The names in a quota that belong to the kind; for a charged workload also those of its pods, except `count/pods`.
fn owned<'l, L: Limit>(limit: &'l L, attempt: &'l Attempt<'_, '_>) -> Vec<&'l str> {
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

fn makes_pods(attempt: &Attempt<'_, '_>) -> bool {
    matches!(attempt.new.traits, Traits::Template { .. })
}

/// The names and scopes that a quota has to cover.
#[derive(Default)]
struct Demand<'a> {
    names: Vec<&'a str>,
    scopes: Vec<Scope<'a>>,
}

impl<'a> Demand<'a> {
    fn of(
        attempt: &Attempt<'_, 'a>,
        limited: &'a [LimitedResource],
    ) -> Result<Self, scopes::BrokenScope> {
        if limited.is_empty() {
            return Ok(Self::default());
        }
        let all = limited.iter().flat_map(|entry| &entry.match_scopes).map(Scope::from);
        let scopes = scopes::matching(all, &attempt.new.traits)?;
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
        attempt: &'l Attempt<'_, '_>,
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
#[derive(Debug)]
struct Growth<'a> {
    old: Option<&'a Footprint>,
    full: Cow<'a, ResourceList>,
    over_old: Option<ResourceList>,
}

impl Default for Growth<'_> {
    fn default() -> Self {
        const NONE: &ResourceList = &ResourceList::new();
        Self { old: None, full: Cow::Borrowed(NONE), over_old: None }
    }
}

impl<'a> Growth<'a> {
    fn of(attempt: &Attempt<'_, 'a>) -> Result<Self, Denial> {
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
    fn of_limit<'g, L: Limit>(&'g self, limit: &'g L) -> &'g ResourceList {
        limit.growth(match self.old {
            // An invalid selector was found with the new traits already.
            Some(old)
                if limit.selects(old) && scopes::matches(limit.spec(), &old.traits) == Ok(true) =>
            {
                self.over_old()
            }
            _ => &self.full,
        })
    }

    /// The growth of the names that the quota limits, with the limits.
    fn within<'g, L: Limit>(
        &'g self,
        limit: &'g L,
    ) -> impl Iterator<Item = (&'g Name, &'g Quantity, &'g Quantity)> {
        self.of_limit(limit).common(limit.hard())
    }
}

/// Refuses a footprint with a negative amount.
///
/// # Errors
/// With all names that have one.
pub fn refuse_negative(new: &Footprint) -> Result<(), Denial> {
    let is_negative = |(_, amount): &(&Name, &Quantity)| amount.is_negative();
    if !new.resources.iter().any(|entry| is_negative(&entry)) {
        return Ok(());
    }
    let negative = new.resources.iter().filter(is_negative);
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
