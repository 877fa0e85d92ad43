//! What readers ask the state.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Head, State,
    namespaces::{Namespace, QuotaState, growth},
    reservations::{ReservationPlace, ReservationState, Target, Tracked},
    sums::Sums,
    view::{Figure, ObjectKey, ObjectView, QuotaView, ReservationStatus, ReservationView, Totals},
};
use crate::event::{Cursor, QuotaRecord, Reservation, Sequence};
use quota_semantics::{
    Name, Timestamp,
    object::{self, Footprint},
    quantity::Quantity,
    resource::ResourceList,
    uid::Uid,
};

/// So many pending reservations of a namespace are told with each of its quotas.
const HOLDS_MAX: usize = 200;

/// What one page of quotas may take, in amounts that are looked at: the fold waits meanwhile.
const PAGE_WORK: usize = 10_000;

impl State {
    /// How far the fold has come.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// Names of the namespaces that hold anything, in order, beginning after `after`.
    pub fn namespaces(&self, after: &str) -> impl Iterator<Item = &Name> {
        use std::ops::Bound;
        let range = (Bound::Excluded(after), Bound::Unbounded);
        self.namespaces
            .by_name
            .range::<str, _>(range)
            .filter(|(_, place)| self.namespaces.get(**place).holds_anything())
            .map(|(name, _)| name)
    }

    /// How many objects are alive.
    #[must_use]
    pub const fn object_count(&self) -> u32 {
        self.objects.slab.len()
    }

    /// How many objects bear the uid of another one, which is of another namespace. It harms neither.
    #[must_use]
    pub const fn uid_collisions(&self) -> usize {
        self.objects.collisions()
    }

    /// How much is committed and was not observed: reservations.
    #[must_use]
    pub fn committed_count(&self) -> usize {
        self.reservations.committed_count()
    }

    /// How many reservations are pending.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.reservations.pending_count()
    }

    /// How many reservations of a namespace are pending.
    #[must_use]
    pub fn pending_count_in(&self, namespace: &str) -> usize {
        self.namespaces
            .find(namespace)
            .map_or(0, |namespace| namespace.pending.len())
    }

    /// How many reservations that a principal made are pending.
    #[must_use]
    pub fn pending_count_of(&self, principal: &Name) -> usize {
        self.reservations.pending_count_of(principal)
    }

    /// Whether ended reservations take so much room that this many bytes have to be shared out among the namespaces.
    pub(crate) fn has_to_bound_ended(&self, bytes: u64) -> bool {
        self.reservations.has_to_bound_ended(bytes)
    }

    /// How many bytes of ended reservations are remembered.
    #[must_use]
    pub const fn ended_bytes(&self) -> usize {
        self.reservations.remembered_bytes()
    }

    /// What is committed in a namespace, for objects that were not observed: how many.
    #[must_use]
    pub fn committed_count_in(&self, namespace: &str) -> usize {
        let namespace = self.namespaces.find(namespace);
        namespace.map_or(0, |namespace| namespace.committed.len())
    }

    /// How many quotas a namespace has.
    #[must_use]
    pub fn quota_count_in(&self, namespace: &str) -> usize {
        let namespace = self.namespaces.find(namespace);
        namespace.map_or(0, |namespace| namespace.quotas.len())
    }

    /// Of how many resources there are sums of what reservations of a namespace hold, and of how many of these
    /// amounts there are none yet. They stay when the reservations end.
    pub(crate) fn reserved_names(&self, namespace: &str, amounts: &ResourceList) -> (usize, usize) {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return (0, amounts.len());
        };
        let known = &namespace.sums.reserved;
        let new = amounts.names().filter(|name| known.get(name).is_none());
        (known.len(), new.count())
    }

    /// The sums of a namespace; empty if it holds nothing.
    #[must_use]
    pub fn totals(&self, namespace: &str) -> Totals {
        let sums = self
            .namespaces
            .find(namespace)
            .map(|namespace| &namespace.sums);
        let copy = |sums: &Sums| Totals {
            used: sums.used.clone(),
            reserved: sums.reserved.clone(),
        };
        sums.map(copy).unwrap_or_default()
    }

    /// A quota as it was set, and the entry that set it.
    #[must_use]
    pub fn quota_record(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<(&Arc<QuotaRecord>, Sequence)> {
        let quota = self.namespaces.find(namespace)?.quotas.get(name)?;
        Some((&quota.record, quota.entry))
    }

    /// The quotas of a namespace as they were set, by name.
    pub fn quota_records(&self, namespace: &str) -> impl Iterator<Item = &Arc<QuotaRecord>> {
        let namespace = self.namespaces.find(namespace);
        let quotas = namespace
            .into_iter()
            .flat_map(|namespace| namespace.quotas.values());
        quotas.map(|quota| &quota.record)
    }

    /// A quota's numbers.
    #[must_use]
    pub fn quota(&self, namespace: &str, name: &str) -> Option<QuotaView> {
        let namespace = self.namespaces.find(namespace)?;
        namespace
            .quotas
            .get(name)
            .map(|quota| self.quota_view(namespace, quota))
    }

    /// The quotas of a namespace, by name.
    #[must_use]
    pub fn quotas(&self, namespace: &str) -> Vec<QuotaView> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        namespace
            .quotas
            .values()
            .map(|quota| self.quota_view(namespace, quota))
            .collect()
    }

    /// The first quotas, of a namespace or of all, after a namespace and name, in that order: at most `limit`, and as
    /// many as can be told with little work, but one at least. Also whether there are more.
    #[must_use]
    pub fn quotas_page(
        &self,
        within: Option<&str>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> (Vec<QuotaView>, bool) {
        use std::ops::Bound;
        let (space, name) = after.unwrap_or_default();
        let first = within.unwrap_or(space);
        let range = (Bound::Included(first), Bound::Unbounded);
        let places = self.namespaces.by_name.range::<str, _>(range);
        let namespaces = places.map(|(_, &place)| self.namespaces.get(place));
        let wanted = namespaces.take_while(|it| within.is_none_or(|only| it.name == *only));
        let quotas = wanted.flat_map(|namespace| {
            let begins_inside = namespace.name == *space;
            let from = if begins_inside { name } else { "" };
            let range = (Bound::Excluded(from), Bound::Unbounded);
            let quotas = namespace.quotas.range::<str, _>(range);
            quotas.map(move |(_, quota)| (namespace, quota))
        });
        let (mut views, mut work) = (Vec::new(), 0);
        for (namespace, quota) in quotas {
            work += quota.record.spec.hard.len() + namespace.pending.len().min(HOLDS_MAX);
            if views.len() == limit || (work > PAGE_WORK && !views.is_empty()) {
                return (views, true);
            }
            views.push(self.quota_view(namespace, quota));
        }
        (views, false)
    }

    /// The quotas of a namespace with their numbers alone, without who holds what.
    #[must_use]
    pub fn quota_figures(&self, namespace: &str) -> Vec<(Arc<QuotaRecord>, Vec<Figure>)> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let figures = |quota: &QuotaState| (quota.record.clone(), figures(namespace, quota));
        namespace.quotas.values().map(figures).collect()
    }

    fn quota_view(&self, namespace: &Namespace, quota: &QuotaState) -> QuotaView {
        QuotaView {
            record: quota.record.clone(),
            entry: quota.entry,
            figures: figures(namespace, quota),
            holds: self.holds(namespace, quota),
            holds_omitted: namespace.pending.len().saturating_sub(HOLDS_MAX),
        }
    }

    fn holds(
        &self,
        namespace: &Namespace,
        quota: &QuotaState,
    ) -> Vec<(Arc<Reservation>, ResourceList)> {
        let hard = quota.hard();
        let hold = |&place: &u32| {
            let reservation = &self.reservations.get(place).reservation;
            let observed = self.observed_footprint(reservation);
            let amounts = quota.hold(&reservation.footprint, observed)?;
            let mut amounts = amounts.into_owned();
            amounts.retain(|name, _| hard.get(name).is_some());
            (!amounts.is_empty()).then(|| (reservation.clone(), amounts))
        };
        let some = namespace.pending.iter().take(HOLDS_MAX);
        some.filter_map(hold).collect()
    }

    /// When the pending reservations expire that hold something of these resources in a quota.
    pub(crate) fn holders(
        &self,
        namespace: &str,
        quota: &str,
        resources: &ResourceList,
    ) -> Vec<Timestamp> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let Some(quota) = namespace.quotas.get(quota) else {
            return Vec::new();
        };
        let hard = quota.hard();
        let holds = |amounts: &ResourceList| {
            let positive = |name: &&Name| amounts.get(name).is_some_and(Quantity::is_positive);
            let mut names = resources.names().filter(|name| hard.get(name).is_some());
            names.any(|name| positive(&name))
        };
        let expiration = |&place: &u32| {
            let reservation = &self.reservations.get(place).reservation;
            let observed = self.observed_footprint(reservation);
            let amounts = quota.hold(&reservation.footprint, observed)?;
            holds(&amounts).then_some(reservation.expiration)
        };
        namespace.pending.iter().filter_map(expiration).collect()
    }

    /// The pending reservations of a namespace, soonest expiration first.
    #[must_use]
    pub fn pending(&self, namespace: &str) -> Vec<ReservationView> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let mut pending: Vec<_> = namespace
            .pending
            .iter()
            .map(|&place| self.reservation_view(self.reservations.get(place)))
            .collect();
        pending.sort_by(|a, b| {
            let key = |view: &ReservationView| {
                (view.reservation.expiration, view.reservation.uid.clone())
            };
            key(a).cmp(&key(b))
        });
        pending
    }

    /// The `limit` first reservations of a namespace in a state, behind the place where the last page ended; and where
    /// this page ended, if there are more.
    ///
    /// Pending and committed ones come in the order in which they were granted, the others in the order in which they
    /// ended, as long as they are remembered. Of these a bounded number is looked at, so a page may be short, and even
    /// empty, while there are more.
    #[must_use]
    pub fn reservations_in(
        &self,
        namespace: &str,
        state: ReservationState,
        after: ReservationPlace,
        limit: usize,
    ) -> (Vec<ReservationView>, Option<ReservationPlace>) {
        let (places, next) = match (state, self.namespaces.find(namespace)) {
            (ReservationState::Pending, Some(namespace)) => {
                self.granted_after(&namespace.pending, after, limit)
            }
            (ReservationState::Committed, Some(namespace)) => {
                self.granted_after(&namespace.committed, after, limit)
            }
            (ReservationState::Pending | ReservationState::Committed, None) => (Vec::new(), None),
            (ended, _) => self.ended_after(namespace, ended, after, limit),
        };
        let view = |place| self.reservation_view(self.reservations.get(place));
        (places.into_iter().map(view).collect(), next)
    }

    fn granted_after(
        &self,
        places: &BTreeSet<u32>,
        after: ReservationPlace,
        limit: usize,
    ) -> (Vec<u32>, Option<ReservationPlace>) {
        let mut first = BTreeSet::new();
        for &place in places {
            let key = (self.reservations.get(place).entry, place);
            let is_late = first.len() > limit && first.last().is_some_and(|last| key > *last);
            if key <= after || is_late {
                continue;
            }
            first.insert(key);
            if first.len() > limit + 1 {
                first.pop_last();
            }
        }
        let more = first.len() > limit;
        let page: Vec<_> = first.into_iter().take(limit).collect();
        let next = page.last().copied().filter(|_| more);
        (page.into_iter().map(|(_, place)| place).collect(), next)
    }

    fn ended_after(
        &self,
        namespace: &str,
        state: ReservationState,
        after: ReservationPlace,
        limit: usize,
    ) -> (Vec<u32>, Option<ReservationPlace>) {
        let (mut found, mut last) = (Vec::new(), after);
        let ended = self.reservations.ended_in(namespace, after);
        for (looked_at, key) in ended.enumerate() {
            let end = self.reservations.get(key.1).end();
            let is_wanted = end.is_some_and(|(end, _)| end.state() == state);
            if looked_at == PAGE_WORK || (is_wanted && found.len() == limit) {
                return (found, Some(last));
            }
            if is_wanted {
                found.push(key.1);
            }
            last = key;
        }
        (found, None)
    }

    /// A reservation in any state, as long as it is remembered.
    #[must_use]
    pub fn reservation(&self, namespace: &str, uid: &Uid) -> Option<ReservationView> {
        self.reservations
            .find(namespace, uid)
            .map(|(_, tracked)| self.reservation_view(tracked))
    }

    /// The same without what it holds, which takes the most to tell.
    #[must_use]
    pub fn promise(&self, namespace: &str, uid: &Uid) -> Option<ReservationStatus> {
        let (_, tracked) = self.reservations.find(namespace, uid)?;
        Some(ReservationStatus {
            reservation: tracked.reservation.clone(),
            end: tracked.end(),
            holding: self.holding(tracked),
        })
    }

    /// The pending reservations for objects of this name, oldest first.
    #[must_use]
    pub fn pending_for(
        &self,
        namespace: &Name,
        resource: &Name,
        name: &str,
    ) -> Vec<ReservationView> {
        let all = self.named(namespace, resource, name);
        let mut all: Vec<_> = all.map(|tracked| self.reservation_view(tracked)).collect();
        all.sort_unstable_by_key(|view| view.entry);
        all
    }

    /// The pending reservations for objects of this name, in no order.
    pub(crate) fn named<'a>(
        &'a self,
        namespace: &'a str,
        resource: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Tracked> {
        self.reservations.pending_for(Target {
            namespace,
            resource,
            name,
        })
    }

    /// The reservation for an object, pending or not, without what it holds.
    pub(crate) fn tracked(&self, namespace: &str, uid: &Uid) -> Option<&Tracked> {
        let known = self.reservations.find(namespace, uid);
        known.map(|(_, tracked)| tracked)
    }

    /// What is committed for an object that was not observed.
    #[must_use]
    pub fn committed(&self, namespace: &str, uid: &Uid) -> Option<&Footprint> {
        let (_, tracked) = self.reservations.find_committed(namespace, uid)?;
        tracked.committed.as_deref()
    }

    /// All that is committed in a namespace, for objects that were not observed.
    pub fn committed_in(&self, namespace: &str) -> impl Iterator<Item = ReservationView> {
        let namespace = self.namespaces.find(namespace).into_iter();
        let places = namespace.flat_map(|namespace| &namespace.committed);
        places.map(|&place| self.reservation_view(self.reservations.get(place)))
    }

    /// Whether a pending reservation took the place of an earlier one for the same name, as far as that is remembered.
    pub(crate) fn replaced_another(&self, pending: &Tracked) -> bool {
        self.reservations.replaced_another(pending)
    }

    /// The entry that granted the pending reservation for an object of this namespace.
    #[must_use]
    pub fn pending_entry(&self, namespace: &str, uid: &Uid) -> Option<Sequence> {
        let pending = self.pending_of(namespace, uid);
        pending.map(|tracked| tracked.entry)
    }

    /// The pending reservation for an object.
    pub(crate) fn pending_of(&self, namespace: &str, uid: &Uid) -> Option<&Tracked> {
        let pending = self.reservations.find_pending(namespace, uid);
        pending.map(|(_, tracked)| tracked)
    }

    pub(super) fn reservation_view(&self, tracked: &Tracked) -> ReservationView {
        let reservation = tracked.reservation.clone();
        let held = match tracked.claim() {
            Some((_, target)) => growth(target, self.beside(tracked).map(|shared| &**shared)),
            None => Cow::Borrowed(&reservation.footprint.resources),
        };
        ReservationView {
            held: held.into_owned(),
            owner: tracked.owner.clone(),
            entry: tracked.entry,
            end: tracked.end(),
            committed: tracked.committed.clone(),
            bearer: self.bearer_of(tracked).cloned(),
            reservation,
        }
    }

    /// When the oldest pending reservation was granted.
    #[must_use]
    pub fn oldest_pending(&self) -> Option<Timestamp> {
        let all = self.reservations.expiring(Timestamp::MAX);
        all.map(|tracked| tracked.reservation.created).min()
    }

    /// Pending reservations whose expiration is at or before `time`, soonest first.
    pub fn expiring(&self, time: Timestamp) -> impl Iterator<Item = &Reservation> {
        self.reservations
            .expiring(time)
            .map(|tracked| &*tracked.reservation)
    }

    /// The soonest expiration of a pending reservation.
    #[must_use]
    pub fn next_expiration(&self) -> Option<Timestamp> {
        self.reservations.next_expiration()
    }

    /// Objects that cease to count at `now` without an event, soonest first.
    pub fn lapsed(&self, now: Timestamp) -> impl Iterator<Item = ObjectView> {
        self.objects
            .lapsed(now)
            .map(|place| self.object_view(place))
    }

    /// When the next object ceases to count without an event.
    #[must_use]
    pub fn next_lapse(&self) -> Option<Timestamp> {
        self.objects.next_lapse()
    }

    /// An object that is alive.
    #[must_use]
    pub fn object(&self, namespace: &str, uid: &Uid) -> Option<ObjectView> {
        let namespace = self.namespaces.place(namespace)?;
        let place = self.objects.find(namespace, uid)?;
        Some(self.object_view(place))
    }

    /// The objects that bear this uid, each in another namespace.
    pub fn objects_with(&self, uid: &Uid) -> impl Iterator<Item = ObjectView> {
        let places = self.objects.all_with(uid);
        places.map(|place| self.object_view(place))
    }

    /// The object of this name, if one is alive.
    #[must_use]
    pub fn object_named(&self, namespace: &str, resource: &str, name: &str) -> Option<ObjectView> {
        let namespace = self.namespaces.place(namespace)?;
        let resource = self.resources.find(&Name::from(resource))?;
        self.objects
            .find_name(namespace, resource, name.as_bytes())
            .map(|place| self.object_view(place))
    }

    /// Whether a delete event for this object was seen, as far as that is remembered.
    #[must_use]
    pub fn is_deleted(&self, namespace: &str, uid: &Uid) -> bool {
        self.objects.deleted.contains(namespace, uid)
    }

    /// The `limit` first objects of a namespace after `after`, by resource, name and uid; `keep` filters.
    #[must_use]
    pub fn objects(
        &self,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: impl Fn(&str, &Footprint) -> bool,
    ) -> Vec<ObjectView> {
        let view = self.objects_view(namespace);
        view.page(after, limit, keep, || ())
    }

    /// Looks at up to `most` places from `from` on for objects that `keep` keeps. Answers them, at most `limit`, and
    /// the place to go on at; none: there are no more. An object stays in its place for as long as it lives.
    #[must_use]
    pub fn objects_from(
        &self,
        from: u32,
        most: u32,
        limit: usize,
        keep: impl Fn(&str) -> bool,
    ) -> (Vec<ObjectView>, Option<u32>) {
        let places = self.objects.slab.places();
        let end = from.saturating_add(most).min(places);
        let mut found = Vec::new();
        for place in from..end {
            if found.len() == limit {
                return (found, Some(place));
            }
            let object = self.objects.slab.get(place);
            if object.is_some_and(|object| keep(self.resources.get(object.resource))) {
                found.push(self.object_view(place));
            }
        }
        (found, (end < places).then_some(end))
    }

    pub(super) fn object_view(&self, place: u32) -> ObjectView {
        let object = self.objects.get(place);
        ObjectView {
            uid: object.uid.clone(),
            namespace: self.namespaces.get(object.namespace).name.clone(),
            resource: (**self.resources.get(object.resource)).clone(),
            name: object.name.as_str().into(),
            version: object.version,
            entry: object.entry,
            lapse: Some(object.lapse).filter(|lapse| *lapse < Timestamp::MAX),
            footprint: self.footprints.get(object.footprint).clone(),
        }
    }

    /// How far each source has been consumed.
    pub const fn sources(&self) -> &BTreeMap<Name, Cursor> {
        &self.sources
    }

    /// The entries of the newest dead letters, oldest first.
    pub fn dead_letters(&self) -> impl DoubleEndedIterator<Item = Sequence> {
        self.dead_letters.iter().copied()
    }
}

fn figures(namespace: &Namespace, quota: &QuotaState) -> Vec<Figure> {
    let sums = namespace.sums_of(quota);
    let figure = |(resource, hard): (&Name, &Quantity)| Figure {
        resource: resource.clone(),
        hard: hard.clone(),
        used: used(&sums.used, resource),
        reserved: sums.reserved.get(resource).cloned().unwrap_or_default(),
    };
    quota.hard().iter().map(figure).collect()
}

/// Zero where nothing counts yet; absent where nothing ever can.
pub(super) fn used(sums: &ResourceList, resource: &Name) -> Option<Quantity> {
    let known = || object::is_countable_by_anyone(resource).then(Quantity::default);
    sums.get(resource).cloned().or_else(known)
}
