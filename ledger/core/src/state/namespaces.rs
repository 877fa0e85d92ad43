//! Namespaces: their quotas, and the sums that make decisions cheap.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{
    group_path::GroupPath,
    slab::Slab,
    sums::{Change, Excess, Parts, Sums},
};
use crate::{
    codec::{hash_of_text, record},
    event::{NamespaceRecord, QuotaRecord, Sequence},
};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, Sum, extension::Carrier},
    object::Footprint,
    quota::scopes,
    resource::ResourceList,
};

/// Small, since a namespace may be large and is copied with its chunk while a snapshot is being written.
const CHUNK: usize = 16;

/// A namespace as it was observed.
#[derive(Clone, Debug)]
pub struct ObservedNamespace {
    /// The observed namespace.
    pub record: Arc<NamespaceRecord>,
    /// The entry that last changed the record.
    pub entry: Sequence,
    /// The entry with which it was last observed or listed.
    pub seen: Sequence,
}

record!(ObservedNamespace { record, entry, seen });

/// A quota, and its sums if it has scopes. Without scopes the sums of the namespace apply. A copy copies pointers.
#[derive(Clone, Debug)]
pub(crate) struct QuotaState {
    pub(crate) record: Arc<QuotaRecord>,
    /// The entry that set it.
    pub(crate) entry: Sequence,
    /// The principal that set it.
    pub(crate) owner: Name,
    /// Whether the time of its override is over.
    pub(crate) override_ended: bool,
    pub(crate) scoped: Arc<Sums>,
    /// The extensions in its annotations.
    pub(crate) extra: Option<Arc<Extra>>,
}

/// The extensions in the annotations of a quota, `quota-ledger.io/…`.
#[derive(Clone, Debug)]
pub(crate) struct Extra {
    pub(crate) extensions: Extensions,
    /// The limits while its override is in force.
    overridden: Option<ResourceList>,
}

impl Extra {
    /// None, if there are no extensions.
    pub(crate) fn of(record: &QuotaRecord) -> Option<Arc<Self>> {
        let extensions = Extensions::from_metadata(&record.metadata, Carrier::Quota);
        let limits = extensions.r#override.as_ref();
        let extra =
            Self { overridden: limits.map(|limits| limits.over(&record.spec.hard)), extensions };
        (!extra.extensions.is_empty()).then(|| Arc::new(extra))
    }
}

/// A namespace. It exists while it has quotas, objects, or pending or committed reservations, or while a source reports
/// it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    pub(crate) name: Name,
    pub(crate) quotas: BTreeMap<Name, QuotaState>,
    /// Shared with views, as are `shares`.
    pub(crate) sums: Arc<Sums>,
    /// Places of its objects.
    pub(crate) objects: Vec<u32>,
    /// Places of its pending reservations.
    pub(crate) pending: BTreeSet<u32>,
    /// Places of commits whose objects no source has reported yet.
    pub(crate) committed: BTreeSet<u32>,
    /// The observed namespace itself.
    pub(crate) observed: Option<ObservedNamespace>,
    /// The groups that count objects of it.
    pub(crate) path: GroupPath,
    /// The sums of those groups that do not count all of it.
    pub(crate) shares: BTreeMap<u32, Arc<Sums>>,
}

record!(QuotaState {
    record,
    entry,
    owner,
    override_ended,
    scoped
} without { extra });
record!(Namespace {
    name,
    quotas,
    sums,
    objects,
    pending,
    committed,
    observed,
    shares
} without { path });

/// Whether a quota counts an object with this footprint. An invalid selector counts nothing, as in Kubernetes'
/// controller.
pub(crate) fn counts(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    scopes::matches(&quota.spec, &footprint.traits).unwrap_or(false)
}

impl QuotaState {
    pub(crate) fn is_scoped(&self) -> bool {
        self.record.spec.is_scoped()
    }

    /// Whether the quota counts an object with this footprint.
    pub(crate) fn counts(&self, footprint: &Footprint) -> bool {
        counts(&self.record, footprint)
    }

    /// The amounts that a pending reservation or a commit for `target` takes of the quota, given the observed footprint
    /// of the object.
    ///
    /// The growth over the observed footprint; all of the amounts, if the quota did not count the object before.
    pub(crate) fn hold<'t>(
        &self,
        target: &'t Footprint,
        observed: Option<&Footprint>,
    ) -> Option<Cow<'t, ResourceList>> {
        hold(|footprint| self.counts(footprint), target, observed)
    }

    /// The limits that apply.
    pub(crate) fn hard(&self) -> &ResourceList {
        let extra = self.extra.as_ref().filter(|_| !self.override_ended);
        let overridden = extra.and_then(|extra| extra.overridden.as_ref());
        overridden.unwrap_or(&self.record.spec.hard)
    }

    /// When its override ends, if one applies.
    pub(crate) fn limits_until(&self) -> Option<Timestamp> {
        let extra = self.extra.as_ref().filter(|_| !self.override_ended)?;
        let limits = extra.extensions.r#override.as_ref();
        limits.map(|limits| limits.until)
    }

    /// Ends the override whose time is over at `now`.
    pub(crate) fn end_override_at(&mut self, now: Timestamp) {
        if self.limits_until().is_some_and(|until| until <= now) {
            self.override_ended = true;
        }
    }
}

/// The amounts that a reservation or a commit for `target` takes of a limit that counts footprints by `counts`, given
/// the observed footprint of the object.
///
/// The growth over the observed footprint; all of the amounts, if the object did not count before.
pub(crate) fn hold<'t>(
    counts: impl Fn(&Footprint) -> bool,
    target: &'t Footprint,
    observed: Option<&Footprint>,
) -> Option<Cow<'t, ResourceList>> {
    if !counts(target) {
        return None;
    }
    let observed = observed.filter(|observed| counts(observed));
    Some(growth(target, observed))
}

/// The amounts of a reservation or a commit beyond those that its object already counts for.
pub(crate) fn growth<'t>(
    target: &'t Footprint,
    observed: Option<&Footprint>,
) -> Cow<'t, ResourceList> {
    match observed {
        Some(observed) => Cow::Owned(target.delta_over(observed)),
        None => Cow::Borrowed(&target.resources),
    }
}

/// A claim: what counts for an object beside its observed version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A pending reservation.
    Pending,
    /// A commit.
    Committed,
}

impl From<Claim> for Sum {
    fn from(claim: Claim) -> Self {
        match claim {
            Claim::Pending => Self::Reserved,
            Claim::Committed => Self::Used,
        }
    }
}

impl Namespace {
    /// The namespace as it was observed.
    pub(crate) fn record(&self) -> Option<&NamespaceRecord> {
        Some(&self.observed.as_ref()?.record)
    }

    /// The sums for a quota of this namespace.
    pub(crate) fn sums_of<'a>(&'a self, quota: &'a QuotaState) -> &'a Sums {
        if quota.is_scoped() { &quota.scoped } else { &self.sums }
    }

    /// Adds an object to the sums, or removes it. Returns the change of the sum of all beyond its direct amounts.
    pub(crate) fn count(&mut self, footprint: &Footprint, direction: Change) -> Excess {
        let parts = Parts::all(footprint);
        self.count_scoped(footprint, &parts, direction);
        Arc::make_mut(&mut self.sums).count(Sum::Used, &parts, direction)
    }

    /// The same in the sums of quotas with scopes alone.
    pub(crate) fn count_scoped(
        &mut self,
        footprint: &Footprint,
        parts: &Parts<'_>,
        direction: Change,
    ) {
        for quota in self.quotas.values_mut().filter(|quota| quota.is_scoped()) {
            if quota.counts(footprint) {
                Arc::make_mut(&mut quota.scoped).count(Sum::Used, parts, direction);
            }
        }
    }

    /// Adds a claim for an object to the sums, or removes it. Returns the same as [`Namespace::count`].
    pub(crate) fn claim(
        &mut self,
        claim: Claim,
        target: &Footprint,
        observed: Option<&Footprint>,
        direction: Change,
    ) -> Excess {
        self.claim_scoped(claim, target, observed, direction);
        let parts = Parts::of(&target.traits, growth(target, observed));
        Arc::make_mut(&mut self.sums).count(claim.into(), &parts, direction)
    }

    /// The same in the sums of quotas with scopes alone.
    pub(crate) fn claim_scoped(
        &mut self,
        claim: Claim,
        target: &Footprint,
        observed: Option<&Footprint>,
        direction: Change,
    ) {
        for quota in self.quotas.values_mut().filter(|quota| quota.is_scoped()) {
            if let Some(amounts) = quota.hold(target, observed) {
                let parts = Parts::of(&target.traits, amounts);
                Arc::make_mut(&mut quota.scoped).count(claim.into(), &parts, direction);
            }
        }
    }

    /// Whether all sums for its limits are those of all its objects and reservations.
    pub(crate) fn has_no_other_sums(&self) -> bool {
        self.path.is_empty() && !self.quotas.values().any(QuotaState::is_scoped)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.observed.is_none() && !self.holds_anything()
    }

    /// Whether it would exist with one object less.
    pub(crate) fn outlives_an_object(&self) -> bool {
        self.observed.is_some()
            || self.objects.len() > 1
            || !(self.quotas.is_empty() && self.pending.is_empty() && self.committed.is_empty())
    }

    /// Whether it has quotas, objects or reservations.
    pub(crate) fn holds_anything(&self) -> bool {
        !(self.quotas.is_empty()
            && self.objects.is_empty()
            && self.pending.is_empty()
            && self.committed.is_empty())
    }
}

/// All namespaces, by place and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces {
    pub(crate) slab: Slab<Namespace, CHUNK>,
    /// Ordered, so that lists over all namespaces can be paged.
    pub(crate) by_name: BTreeMap<Name, u32>,
    /// The hash index of names, since there may be tens of thousands.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Namespaces {
    pub(crate) fn from_slab(slab: Slab<Namespace, CHUNK>) -> Self {
        let mut namespaces = Self { slab, ..Self::default() };
        for (place, namespace) in namespaces.slab.clone().iter() {
            namespaces.index(&namespace.name, place);
        }
        namespaces
    }

    fn index(&mut self, name: &Name, place: u32) {
        let Self { slab, places, hasher, .. } = self;
        let rehash = |&place: &u32| {
            slab.get(place).map_or(0, |namespace| hash_of_text(hasher, &namespace.name))
        };
        places.insert_unique(hash_of_text(hasher, name), place, rehash);
        self.by_name.insert(name.clone(), place);
    }

    pub(crate) fn place(&self, name: &str) -> Option<u32> {
        let same = |&place: &u32| self.get(place).name == *name;
        let place = self.places.find(hash_of_text(&self.hasher, name), same);
        place.copied()
    }

    pub(crate) fn get(&self, place: u32) -> &Namespace {
        self.slab.get(place).expect("a namespace that holds something exists")
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Namespace {
        self.slab.get_mut(place).expect("a namespace that holds something exists")
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Namespace> {
        self.place(name).map(|place| self.get(place))
    }

    pub(crate) fn ensure(&mut self, name: &Name) -> u32 {
        if let Some(place) = self.place(name) {
            return place;
        }
        let place = self.slab.insert(Namespace { name: name.clone(), ..Namespace::default() });
        self.index(name, place);
        place
    }

    pub(crate) fn drop_if_empty(&mut self, place: u32) {
        if !self.slab.get(place).is_some_and(Namespace::is_empty) {
            return;
        }
        if let Some(namespace) = self.slab.remove(place) {
            self.by_name.remove(&namespace.name);
            let hash = hash_of_text(&self.hasher, &namespace.name);
            if let Ok(entry) = self.places.find_entry(hash, |&other| other == place) {
                entry.remove();
            }
        }
    }
}
