//! Quotas as of one moment: their numbers are computed while the state goes on.

use std::{ops::Bound, sync::Arc};

use super::{
    State,
    namespaces::{Namespace, QuotaState},
    query,
    sums::Sums,
    view::{Figure, QuotaView},
};
use crate::event::{QuotaRecord, Reservation};
use quota_semantics::{
    Name, group::Enforcement, object::Footprint, quantity::Quantity, resource::ResourceList,
};

/// Most pending reservations of a namespace that are listed with each of its quotas.
const HOLDS_MAX: usize = 200;

/// The most amounts on one page of quotas.
const PAGE_WORK: usize = 10_000;

/// The most bytes of metadata on one page of quotas.
const PAGE_METADATA_BYTES: usize = 1 << 20;

/// Quotas, and the data for their numbers. Taking the view copies pointers.
#[derive(Clone, Debug, Default)]
pub struct QuotasView {
    quotas: Vec<CopiedQuota>,
}

/// A quota, and the data for its numbers. Taking the copy copies pointers.
#[derive(Clone, Debug)]
pub struct CopiedQuota {
    beside: Arc<SharedByQuotas>,
    quota: QuotaState,
}

/// The data that the quotas of a namespace share.
#[derive(Debug)]
struct SharedByQuotas {
    sums: Arc<Sums>,
    /// The first of its pending reservations, and the observed footprints of their objects.
    pending: Vec<(Arc<Reservation>, Option<Arc<Footprint>>)>,
    /// The amounts of these reservations.
    pending_amounts: usize,
    /// How many more are pending.
    omitted: usize,
}

impl State {
    /// A quota's numbers.
    #[must_use]
    pub fn quota(&self, namespace: &str, name: &str) -> Option<QuotaView> {
        self.copied_quota(namespace, name).map(|quota| quota.view())
    }

    /// A quota, to compute its numbers later.
    #[must_use]
    pub fn copied_quota(&self, namespace: &str, name: &str) -> Option<CopiedQuota> {
        let namespace = self.namespaces.find(namespace)?;
        let quota = namespace.quotas.get(name)?;
        Some(CopiedQuota {
            beside: Arc::new(self.shared_by_quotas(namespace, HOLDS_MAX)),
            quota: quota.clone(),
        })
    }

    /// The quotas of a namespace, by name.
    #[must_use]
    pub fn quotas(&self, namespace: &str) -> Vec<QuotaView> {
        let view = self.quotas_in(namespace, HOLDS_MAX);
        view.views().collect()
    }

    /// The quotas of a namespace, by name, for their numbers alone, without the holders.
    #[must_use]
    pub fn quotas_view(&self, namespace: &str) -> QuotasView {
        self.quotas_in(namespace, 0)
    }

    fn quotas_in(&self, namespace: &str, holds: usize) -> QuotasView {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return QuotasView::default();
        };
        let beside = Arc::new(self.shared_by_quotas(namespace, holds));
        let quotas = namespace.quotas.values();
        QuotasView {
            quotas: quotas
                .map(|quota| CopiedQuota { beside: beside.clone(), quota: quota.clone() })
                .collect(),
        }
    }

    /// The first quotas, of a namespace or of all, after a namespace and name, in that order: at most `limit`, and no
    /// more than take little work and memory, but at least one. Also whether there are more.
    #[must_use]
    pub fn quotas_page(
        &self,
        within: Option<&str>,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> (QuotasView, bool) {
        let (space, name) = after.unwrap_or_default();
        let first = within.unwrap_or(space);
        let range = (Bound::Included(first), Bound::Unbounded);
        let places = self.namespaces.by_name.range::<str, _>(range);
        let namespaces = places.map(|(_, &place)| self.namespaces.get(place));
        let wanted =
            namespaces.take_while(|namespace| within.is_none_or(|only| namespace.name == *only));
        let (mut page, mut work, mut bytes) = (QuotasView::default(), 0, 0);
        for namespace in wanted {
            let from = if namespace.name == *space { name } else { "" };
            let range = (Bound::Excluded(from), Bound::Unbounded);
            let mut beside = None;
            for (_, quota) in namespace.quotas.range::<str, _>(range) {
                if page.len() == limit {
                    return (page, true);
                }
                let beside = beside.get_or_insert_with(|| {
                    work += namespace.sums.used.len() + namespace.sums.reserved.len();
                    Arc::new(self.shared_by_quotas(namespace, HOLDS_MAX))
                });
                let copied = CopiedQuota { beside: beside.clone(), quota: quota.clone() };
                work += copied.amounts();
                bytes += quota.record.metadata.len();
                let is_much = work > PAGE_WORK || bytes > PAGE_METADATA_BYTES;
                if is_much && !page.is_empty() {
                    return (page, true);
                }
                page.quotas.push(copied);
            }
        }
        (page, false)
    }

    fn shared_by_quotas(&self, namespace: &Namespace, holds: usize) -> SharedByQuotas {
        let pending = |&place: &u32| {
            let tracked = self.reservations.get(place);
            (tracked.reservation.clone(), self.beside(tracked).cloned())
        };
        let some = namespace.pending.iter().take(holds);
        let pending: Vec<_> = some.map(pending).collect();
        let amounts = pending.iter().map(|(reservation, _)| reservation.footprint.resources.len());
        SharedByQuotas {
            sums: namespace.sums.clone(),
            pending_amounts: amounts.sum(),
            pending,
            omitted: namespace.pending.len().saturating_sub(holds),
        }
    }
}

impl QuotasView {
    /// The number of quotas.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.quotas.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.quotas.is_empty()
    }

    /// The most amounts that they show.
    #[must_use]
    pub fn amounts(&self) -> usize {
        self.quotas.iter().map(CopiedQuota::amounts).sum()
    }

    /// The number of their limits.
    #[must_use]
    pub fn limits(&self) -> usize {
        self.quotas.iter().map(|copied| copied.quota.hard().len()).sum()
    }

    /// The bytes of their metadata.
    #[must_use]
    pub fn metadata_bytes(&self) -> usize {
        self.records().map(|quota| quota.metadata.len()).sum()
    }

    /// The quotas.
    pub fn iter(&self) -> std::slice::Iter<'_, CopiedQuota> {
        self.quotas.iter()
    }

    /// The quotas as they were set.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Arc<QuotaRecord>> {
        self.quotas.iter().map(CopiedQuota::record)
    }

    /// The quotas with their numbers.
    pub fn figures(&self) -> impl Iterator<Item = (&Arc<QuotaRecord>, Vec<Figure>)> {
        self.iter().map(|copied| (copied.record(), copied.figures()))
    }

    /// The quotas with their numbers and the holders of reservations.
    pub fn views(&self) -> impl Iterator<Item = QuotaView> {
        self.quotas.iter().map(CopiedQuota::view)
    }

    /// The same, without the holders unless they are wanted; each is released as soon as its numbers are computed.
    pub fn into_views(self, with_holders: bool) -> impl Iterator<Item = QuotaView> {
        let quotas = self.quotas.into_iter();
        quotas.map(move |copied| match with_holders {
            true => copied.view(),
            false => copied.numbers(),
        })
    }

    /// Adds the quotas of another view.
    pub fn extend(&mut self, other: Self) {
        self.quotas.extend(other.quotas);
    }

    /// Keeps only these quotas.
    pub fn retain(&mut self, is_wanted: impl Fn(&QuotaRecord) -> bool) {
        self.quotas.retain(|copied| is_wanted(copied.record()));
    }

    /// The amounts in the sums of their namespaces.
    #[must_use]
    pub fn sums(&self) -> usize {
        let is_beside = |a: &CopiedQuota, b: &CopiedQuota| Arc::ptr_eq(&a.beside, &b.beside);
        let by_namespace = self.quotas.chunk_by(is_beside);
        let first = by_namespace.filter_map(|quotas| quotas.first());
        let amounts = |CopiedQuota { beside, .. }: &CopiedQuota| {
            beside.sums.used.len() + beside.sums.reserved.len()
        };
        first.map(amounts).sum()
    }
}

impl From<CopiedQuota> for QuotasView {
    fn from(quota: CopiedQuota) -> Self {
        Self { quotas: vec![quota] }
    }
}

impl CopiedQuota {
    /// The quota as it was set.
    #[must_use]
    pub const fn record(&self) -> &Arc<QuotaRecord> {
        &self.quota.record
    }

    /// The principal that set it; empty: unknown.
    #[must_use]
    pub const fn owner(&self) -> &Name {
        &self.quota.owner
    }

    /// Whether it counts some objects only.
    pub(super) fn is_scoped(&self) -> bool {
        self.quota.is_scoped()
    }

    /// What follows if a request does not fit.
    pub(super) fn enforcement(&self) -> Enforcement {
        let extra = self.quota.extra.as_ref();
        extra.map_or(Enforcement::Enforce, |extra| extra.extensions.enforcement)
    }

    /// Its numbers.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        self.beside.figures(&self.quota)
    }

    /// The most amounts that it shows: of each of its pending reservations those that it limits.
    #[must_use]
    pub fn amounts(&self) -> usize {
        let (beside, limits) = (&*self.beside, self.quota.hard().len());
        let pending = beside.pending.len();
        let held = beside.pending_amounts.min(pending * limits);
        1 + limits + held.max(pending)
    }

    /// The quota with its numbers and the holders of reservations.
    #[must_use]
    pub fn view(&self) -> QuotaView {
        let (holds, holds_omitted) = (self.beside.holds(&self.quota), self.beside.omitted);
        QuotaView { holds, holds_omitted, ..self.numbers() }
    }

    /// The quota with its numbers, without the holders of reservations: they are counted as omitted.
    #[must_use]
    pub fn numbers(&self) -> QuotaView {
        QuotaView {
            record: self.quota.record.clone(),
            entry: self.quota.entry,
            figures: self.figures(),
            holds: Vec::new(),
            holds_omitted: self.beside.pending.len() + self.beside.omitted,
        }
    }
}

impl SharedByQuotas {
    fn figures(&self, quota: &QuotaState) -> Vec<Figure> {
        let sums = match quota.is_scoped() {
            true => &quota.scoped,
            false => &self.sums,
        };
        let figure = |(resource, hard): (&Name, &Quantity)| {
            #[cfg(test)]
            super::slab::work::look_up();
            Figure {
                resource: resource.clone(),
                hard: hard.clone(),
                used: query::used(&sums.used, resource),
                reserved: sums.reserved.get(resource).cloned().unwrap_or_default(),
            }
        };
        quota.hard().iter().map(figure).collect()
    }

    fn holds(&self, quota: &QuotaState) -> Vec<(Arc<Reservation>, ResourceList)> {
        let hard = quota.hard();
        let hold = |(reservation, observed): &(Arc<Reservation>, Option<Arc<Footprint>>)| {
            let amounts = quota.hold(&reservation.footprint, observed.as_deref())?;
            let mut amounts = amounts.into_owned();
            amounts.retain(|name, _| hard.get(name).is_some());
            (!amounts.is_empty()).then(|| (reservation.clone(), amounts))
        };
        self.pending.iter().filter_map(hold).collect()
    }
}
