//! The objects and reservations that make up a number.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    ops::{Bound, RangeBounds as _},
    sync::Arc,
};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::{
    ObjectView, ObjectsView, State,
    groups::Choosers,
    name_holders::ByPlace,
    namespaces::{self, Claim, Namespace, hold},
    reservations,
    slab::Slab,
    tracked_reservation::Tracked,
};
use crate::event::{QuotaRecord, Reservation, Sequence};
use quota_semantics::{
    Name,
    object::{Amount, Footprint},
    quantity::Quantity,
    resource::ResourceList,
    uid::Uid,
};

/// A part of a number.
#[derive(Clone, Debug)]
pub struct Part {
    /// The amount of the part.
    pub amount: Quantity,
    /// The object or reservation.
    pub holder: Holder,
}

/// An object or a reservation.
#[derive(Clone, Debug)]
pub enum Holder {
    /// A part of the used amount.
    Object(ObjectView),
    /// A part of the used amount: a commit whose object no source has reported.
    Commit(Claimed),
    /// A part of the reserved amount.
    Reservation(Claimed),
}

/// A reservation that is pending or committed, and the entry that granted it.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The reservation as granted.
    pub reservation: Arc<Reservation>,
    /// The entry that granted it.
    pub entry: Sequence,
}

/// The kind of a part. Equal parts are ordered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Kind {
    Object,
    Commit,
    Reservation,
}

/// The sort key of a part: the largest come first, and used parts before reserved ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartKey(Reverse<Quantity>, Kind, Uid);

/// The sort key of a part of a group's number: parts of several namespaces may have the same [`PartKey`].
pub type GroupPartKey = (PartKey, Name);

impl Part {
    /// The entry behind the part: the last change of the object's footprint, or the grant of the reservation.
    #[must_use]
    pub const fn entry(&self) -> Sequence {
        match &self.holder {
            Holder::Object(object) => object.entry,
            Holder::Commit(claimed) | Holder::Reservation(claimed) => claimed.entry,
        }
    }

    /// The sort key.
    #[must_use]
    pub fn key(&self) -> PartKey {
        let (kind, uid) = match &self.holder {
            Holder::Object(object) => (Kind::Object, &object.uid),
            Holder::Commit(view) => (Kind::Commit, &view.reservation.uid),
            Holder::Reservation(view) => (Kind::Reservation, &view.reservation.uid),
        };
        PartKey(Reverse(self.amount.clone()), kind, uid.clone())
    }
}

/// The number of claims between two pauses.
const STEP: usize = 1024;

/// The parts of a number as of one moment: the search runs while the state changes.
#[derive(Clone, Debug)]
pub struct PartsView {
    objects: ObjectsView,
    resource: Box<str>,
    counts: Counts,
    reservations: Slab<Tracked, { reservations::CHUNK }>,
    /// Places of pending and committed reservations.
    claims: Vec<u32>,
    /// The objects that bear the names of some of those.
    bearers: ByPlace,
}

/// The objects that a number counts.
#[derive(Clone, Debug)]
enum Counts {
    All,
    OfQuota(Arc<QuotaRecord>),
    OfGroup(Choosers),
}

impl Counts {
    fn count(&self, footprint: &Footprint) -> bool {
        match self {
            Self::All => true,
            Self::OfQuota(quota) => namespaces::counts(quota, footprint),
            Self::OfGroup(choosers) => choosers.choose(footprint),
        }
    }
}

impl State {
    /// The parts of the amount of `resource` in a quota, or in a group as far as it is from the namespace; without
    /// either, in the whole namespace. They are those of now: this copies pointers and numbers, without reading any
    /// object or reservation. Parts of zero are left out. None if there is neither such a quota nor such a group.
    #[must_use]
    pub fn parts_view(
        &self,
        namespace: &str,
        quota: Option<&str>,
        resource: &str,
    ) -> Option<PartsView> {
        let Some(found) = self.namespaces.find(namespace) else {
            let nothing = || PartsView {
                objects: self.objects_view(namespace),
                resource: resource.into(),
                counts: Counts::All,
                reservations: Slab::default(),
                claims: Vec::new(),
                bearers: ByPlace::default(),
            };
            return quota.is_none().then(nothing);
        };
        let counts = match quota {
            None => Counts::All,
            Some(name) => match found.quotas.get(name) {
                Some(quota) => Counts::OfQuota(quota.record.clone()),
                None => Counts::OfGroup(self.choosers(found, name)?),
            },
        };
        Some(self.parts_of(found, counts, resource))
    }

    fn parts_of(&self, namespace: &Namespace, counts: Counts, resource: &str) -> PartsView {
        let claims = namespace.pending.iter().chain(&namespace.committed);
        PartsView {
            objects: self.objects_view(&namespace.name),
            resource: resource.into(),
            counts,
            reservations: self.reservations.slab.clone(),
            claims: claims.copied().collect(),
            bearers: self.bearers.by_place().clone(),
        }
    }

    fn choosers(&self, namespace: &Namespace, group: &str) -> Option<Choosers> {
        let &place = self.groups.by_name.get(group)?;
        let link = namespace.path.iter().find(|link| link.group == place)?;
        Some(self.groups.choosers(link))
    }
}

/// The parts of the amount of a resource in a group as of one moment.
#[derive(Clone, Debug)]
pub struct GroupPartsView {
    namespaces: Vec<(Name, PartsView)>,
    /// The number of namespaces that are left out: those with the smallest amounts.
    pub omitted: usize,
}

impl State {
    /// The parts of the amount of `resource` in a group, in at most `most` of the wanted namespaces: those with the largest
    /// amounts. None if there is no such group.
    #[must_use]
    pub fn group_parts_view(
        &self,
        group: &str,
        resource: &str,
        wanted: impl Fn(&Name) -> bool,
        most: usize,
    ) -> Option<GroupPartsView> {
        let &place = self.groups.by_name.get(group)?;
        let members = self.groups.members(place).iter();
        let amounts = members.filter_map(|(name, &member)| {
            let sums = self.namespaces.get(member).share_of(place)?;
            let of = |list: &ResourceList| list.get(resource).cloned().unwrap_or_default();
            let mut amount = of(&sums.used);
            amount.add_assign(&of(&sums.reserved));
            (!amount.is_zero() && wanted(name)).then_some((Reverse(amount), name))
        });
        let mut amounts: Vec<_> = amounts.collect();
        amounts.sort_unstable();
        let omitted = amounts.len().saturating_sub(most);
        let largest = amounts.into_iter().take(most);
        let namespaces = largest.filter_map(|(_, name)| {
            let namespace = self.namespaces.find(name)?;
            let choosers = self.choosers(namespace, group)?;
            let view = self.parts_of(namespace, Counts::OfGroup(choosers), resource);
            Some((name.clone(), view))
        });
        Some(GroupPartsView { namespaces: namespaces.collect(), omitted })
    }
}

impl GroupPartsView {
    /// The number of objects and claims that have to be read to find the largest.
    #[must_use]
    pub fn len(&self) -> usize {
        let namespaces = self.namespaces.iter();
        namespaces.map(|(_, parts)| 1 + parts.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `limit` largest parts after `after`, each with its namespace; see [`PartsView::first`].
    #[must_use]
    pub fn first(
        &self,
        after: Option<&GroupPartKey>,
        limit: usize,
        mut pause: impl FnMut(),
    ) -> Vec<(Name, Part)> {
        let mut first: BTreeMap<GroupPartKey, Part> = BTreeMap::new();
        for (namespace, parts) in &self.namespaces {
            let after = after.map_or(Bound::Unbounded, |(key, last)| match namespace > last {
                true => Bound::Included(key),
                false => Bound::Excluded(key),
            });
            for part in parts.first_from(after, limit, &mut pause) {
                first.insert((part.key(), namespace.clone()), part);
                if first.len() > limit {
                    first.pop_last();
                }
            }
            pause();
        }
        let parts = first.into_iter();
        parts.map(|((_, namespace), part)| (namespace, part)).collect()
    }
}

impl PartsView {
    /// The number of objects and claims that have to be read to find the largest.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len() + self.claims.len()
    }

    /// Whether there are no objects and no claims.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `limit` largest parts after `after`. Reads all objects and claims of the namespace; `pause` is called after
    /// every thousand of them, so that other tasks get the processor.
    #[must_use]
    pub fn first(&self, after: Option<&PartKey>, limit: usize, pause: impl FnMut()) -> Vec<Part> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.first_from(from, limit, pause)
    }

    fn first_from(
        &self,
        from: Bound<&PartKey>,
        limit: usize,
        mut pause: impl FnMut(),
    ) -> Vec<Part> {
        let mut first = First { places: BTreeMap::new(), from, limit };
        let mut shares = Shares::default();
        let mut beside = self.claimed_for(&mut pause);
        self.objects.each(&mut pause, |place, object, _, footprint| {
            if let Some(observed) = beside.get_mut(&object.uid) {
                *observed = Some(footprint.clone());
            }
            let amount = footprint.resources.get(&*self.resource);
            if let Some(amount) = amount.filter(|_| self.counts.count(footprint)) {
                let part = (Kind::Object, object.uid.clone(), place);
                let how = footprint.traits.amount(&self.resource);
                shares.take(&mut first, how, object.entry, amount.clone(), part);
            }
        });
        for places in self.claims.chunks(STEP) {
            for &place in places {
                self.take_claim(place, &beside, &mut first, &mut shares);
            }
            pause();
        }
        shares.offer_to(&mut first);
        let parts = first.places.into_iter();
        parts.filter_map(|(key, place)| self.part(key, place)).collect()
    }

    /// The claim at a place, if it claims any of the resource.
    fn claim(&self, place: u32) -> Option<(&Tracked, Claim, &Footprint)> {
        let tracked = self.reservations.get(place)?;
        let (claim, target) = tracked.claim()?;
        target.resources.get(&*self.resource)?;
        Some((tracked, claim, target))
    }

    /// The objects with claims, whose footprints are still to be looked up.
    fn claimed_for(&self, mut pause: impl FnMut()) -> HashMap<Uid, Option<Arc<Footprint>>> {
        let mut uids = HashMap::new();
        for places in self.claims.chunks(STEP) {
            for &place in places {
                if let Some((tracked, ..)) = self.claim(place) {
                    uids.insert(tracked.reservation.uid.clone(), None);
                    uids.extend(self.bearers.get(place).map(|uid| (uid.clone(), None)));
                }
            }
            pause();
        }
        uids
    }

    /// Adds the amount of a claim beyond that of its object. If the object was never observed, the object that still
    /// bears its name counts instead.
    fn take_claim(
        &self,
        place: u32,
        beside: &HashMap<Uid, Option<Arc<Footprint>>>,
        first: &mut First<'_>,
        shares: &mut Shares,
    ) {
        let Some((tracked, claim, target)) = self.claim(place) else {
            return;
        };
        let observed = |uid: &Uid| beside.get(uid)?.as_deref();
        let uid = &tracked.reservation.uid;
        let observed = observed(uid).or_else(|| observed(self.bearers.get(place)?));
        let taken = hold(|footprint| self.counts.count(footprint), target, observed);
        if let Some(amount) = taken.as_ref().and_then(|taken| taken.get(&*self.resource)) {
            let kind = match claim {
                Claim::Pending => Kind::Reservation,
                Claim::Committed => Kind::Commit,
            };
            let how = target.traits.amount(&self.resource);
            let part = (kind, uid.clone(), place);
            shares.take(first, how, tracked.entry, amount.clone(), part);
        }
    }

    fn part(&self, PartKey(Reverse(amount), kind, _): PartKey, place: u32) -> Option<Part> {
        let claimed = || {
            let tracked = self.reservations.get(place)?;
            Some(Claimed { reservation: tracked.reservation.clone(), entry: tracked.entry })
        };
        let holder = match kind {
            Kind::Object => Holder::Object(self.objects.view(place)?),
            Kind::Commit => Holder::Commit(claimed()?),
            Kind::Reservation => Holder::Reservation(claimed()?),
        };
        Some(Part { amount, holder })
    }
}

/// The kind, the uid and the place of a part.
type Place = (Kind, Uid, u32);

/// The charges of workloads and the draws of replicas: of both sums the larger counts.
#[derive(Default)]
struct Shares {
    charged: Vec<(Sequence, Quantity, Place)>,
    drawn: Vec<(Sequence, Quantity, Place)>,
}

impl Shares {
    fn take(
        &mut self,
        first: &mut First<'_>,
        how: Amount,
        entry: Sequence,
        amount: Quantity,
        (kind, uid, place): Place,
    ) {
        match how {
            Amount::Plain => first.offer(amount, kind, &uid, place),
            Amount::Charged => self.charged.push((entry, amount, (kind, uid, place))),
            Amount::Drawn => self.drawn.push((entry, amount, (kind, uid, place))),
        }
    }

    /// Offers the charges, and the newest draws as far as they exceed the charges. A pending charge counts for less if
    /// earlier draws already count beyond the present charges.
    fn offer_to(mut self, first: &mut First<'_>) {
        let sum = |parts: &[(Sequence, Quantity, Place)], used_only: bool| {
            let mut sum = Quantity::ZERO;
            for (_, amount, (kind, ..)) in parts {
                if !used_only || *kind != Kind::Reservation {
                    sum.add_assign(amount);
                }
            }
            sum
        };
        let beyond = |used_only| {
            let drawn = sum(&self.drawn, used_only);
            drawn.subtract_non_negative(&sum(&self.charged, used_only))
        };
        let (used, all) = (beyond(true), beyond(false));
        let mut left_of_used = used.clone();
        let mut left_of_reserved = all.subtract_non_negative(&used);
        let mut doubled = used.subtract_non_negative(&all);
        for parts in [&mut self.charged, &mut self.drawn] {
            parts.sort_unstable_by(|a, b| (b.0, &b.2).cmp(&(a.0, &a.2)));
        }
        for (_, mut amount, (kind, uid, place)) in self.charged {
            if kind == Kind::Reservation {
                let less = amount.clone().min(doubled.clone());
                amount.sub_assign(&less);
                doubled.sub_assign(&less);
            }
            first.offer(amount, kind, &uid, place);
        }
        for (_, amount, (kind, uid, place)) in self.drawn {
            let left = match kind {
                Kind::Reservation => &mut left_of_reserved,
                Kind::Object | Kind::Commit => &mut left_of_used,
            };
            let counted = amount.min(left.clone());
            left.sub_assign(&counted);
            first.offer(counted, kind, &uid, place);
        }
    }
}

/// Keeps the first of the offered parts.
struct First<'a> {
    places: BTreeMap<PartKey, u32>,
    from: Bound<&'a PartKey>,
    limit: usize,
}

impl First<'_> {
    fn offer(&mut self, amount: Quantity, kind: Kind, uid: &Uid, place: u32) {
        if amount.is_zero() {
            return;
        }
        let key = PartKey(Reverse(amount), kind, uid.clone());
        if !(self.from, Bound::Unbounded).contains(&key) {
            return;
        }
        let is_late = || self.places.last_key_value().is_none_or(|(last, _)| key > *last);
        if self.places.len() == self.limit && is_late() {
            return;
        }
        self.places.insert(key, place);
        if self.places.len() > self.limit {
            self.places.pop_last();
        }
    }
}
