//! Reading the state.

mod objects;
mod reservations;

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Head, State,
    namespaces::{Namespace, QuotaState},
    sums::Sums,
    view::{Figure, QuotaView, Totals},
};
use crate::event::{Cursor, QuotaRecord, Reservation, Sequence};
use quota_semantics::{Name, Timestamp, object, quantity::Quantity, resource::ResourceList};

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
