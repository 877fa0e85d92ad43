//! Limits as a decision sees them: quotas and groups, with the sums of the state and the changes of the decision
//! itself.

use std::borrow::Cow;

use super::{
    State,
    group_path::Link,
    groups::Groups,
    namespaces::{QuotaState, hold},
    overlay::Overlay,
    sums::{Balance, Parts, Sums},
};
use quota_semantics::{
    Name,
    admission::{Limit, LimitKind},
    group::{Enforcement, Extensions, load},
    object::Footprint,
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
};

/// A quota or group of the state as an admission limit: the used, the reserved and the amounts guaranteed to others
/// count against it.
pub(crate) struct Counted<'a> {
    name: &'a Name,
    spec: &'a Spec,
    hard: &'a ResourceList,
    extensions: Option<&'a Extensions>,
    subject: Subject<'a>,
    used: &'a ResourceList,
    reserved: &'a ResourceList,
    /// The changes of the decision to both: amounts to add.
    changed: Option<&'a Sums>,
    /// The draws of replicas less the charges of workloads, from the sums of the namespace.
    balance: &'a Balance,
    /// The growth of the counted amounts, if it differs from the growth of the object's amounts.
    growth: Option<ResourceList>,
    /// The amounts set aside for others.
    aside: ResourceList,
    /// Whether reservations are ignored.
    used_only: bool,
    /// Whether the limits count as enforced.
    is_strict: bool,
}

enum Subject<'a> {
    Quota(&'a QuotaState),
    Group {
        groups: &'a Groups,
        link: Link,
        /// None: the limits apply to each namespace alone.
        shared: Option<Shared<'a>>,
    },
}

/// The details of a group with several member namespaces that are reported.
#[derive(Clone, Debug)]
pub(crate) struct Shared<'a> {
    /// The number of member namespaces.
    pub(crate) members: usize,
    /// The sums of the namespace of the request.
    own: &'a Sums,
    /// The changes of the decision to them: amounts to add.
    changed: Option<&'a Sums>,
}

impl Shared<'_> {
    /// The amount used and reserved by the namespace of the request.
    pub(crate) fn own(&self, resource: &Name) -> Quantity {
        let of = |list: fn(&Sums) -> &ResourceList| {
            total(list(self.own), self.changed.map(list), resource)
        };
        let mut own = of(|sums| &sums.used);
        own.add_assign(&of(|sums| &sums.reserved));
        own
    }
}

/// An amount with its change.
fn total(amounts: &ResourceList, changes: Option<&ResourceList>, resource: &Name) -> Quantity {
    let change = changes.and_then(|changes| changes.get(resource));
    match (amounts.get(resource), change) {
        (Some(amount), Some(change)) => {
            let mut total = amount.clone();
            total.add_assign(change);
            total
        }
        // As it is spelled.
        (amount, change) => amount.or(change).cloned().unwrap_or_default(),
    }
}

impl Counted<'_> {
    /// The limit as if all pending reservations had ended.
    pub(crate) fn without_reservations(self) -> Self {
        Self { used_only: true, ..self }
    }

    /// The limit as if nothing but the object itself counted, with all its amounts. Amounts guaranteed to others stay
    /// set aside: at least as much of them as the others do not use now.
    pub(crate) fn without_others(self) -> Self {
        const NONE: &ResourceList = &ResourceList::new();
        Self { used: NONE, reserved: NONE, changed: None, growth: None, ..self }
    }

    /// The limit as if it were enforced.
    pub(crate) fn enforced(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Prepares the limit for a decision about `target`, with the pending and the observed footprint of the same object.
    pub(crate) fn decide(
        &mut self,
        target: &Footprint,
        pending: Option<&Footprint>,
        observed: Option<&Footprint>,
    ) {
        let all = [Some(target), pending, observed];
        if all.into_iter().flatten().all(|footprint| footprint.traits.is_plain()) {
            return;
        }
        let held = |footprint| {
            let amounts = self.hold(footprint, observed).unwrap_or_default();
            Parts::of(&footprint.traits, amounts)
        };
        let mut parts = held(target);
        if let Some(pending) = pending {
            parts = parts.beyond(&held(pending));
        }
        self.growth = Some(self.balance.growth(parts, self.used_only));
    }

    /// The growth of the counted amounts, if it differs from the growth of the object's amounts.
    pub(crate) const fn own_growth(&self) -> Option<&ResourceList> {
        self.growth.as_ref()
    }

    pub(crate) fn reserved(&self, resource: &Name) -> Quantity {
        match self.used_only {
            true => Quantity::ZERO,
            false => total(self.reserved, self.changed.map(|sums| &sums.reserved), resource),
        }
    }

    pub(crate) fn used(&self, resource: &Name) -> Quantity {
        total(self.used, self.changed.map(|sums| &sums.used), resource)
    }

    /// The amount guaranteed to others, and not used or reserved by them; none: the limit is not in a tree.
    pub(crate) fn guaranteed_to_others(&self, resource: &Name) -> Option<&Quantity> {
        let aside = self.aside.get(resource);
        aside.filter(|aside| !aside.is_zero())
    }

    pub(crate) const fn kind(&self) -> LimitKind {
        match self.subject {
            Subject::Quota(_) => LimitKind::ResourceQuota,
            Subject::Group { .. } => LimitKind::ClusterResourceQuota,
        }
    }

    /// The details of a group with several member namespaces.
    pub(crate) const fn shared(&self) -> Option<&Shared<'_>> {
        match &self.subject {
            Subject::Quota(_) => None,
            Subject::Group { shared, .. } => shared.as_ref(),
        }
    }

    /// The limit above which a grant comes with a warning.
    pub(crate) fn soft(&self, resource: &Name) -> Option<&Quantity> {
        self.extensions?.soft.get(resource)
    }

    pub(crate) fn has_no_soft_limits(&self) -> bool {
        self.extensions.is_none_or(|extensions| extensions.soft.is_empty())
    }

    pub(crate) fn enforcement(&self) -> Enforcement {
        self.extensions.map_or(Enforcement::Enforce, |extensions| extensions.enforcement)
    }

    /// Whether the limit counts an object with this footprint.
    pub(crate) fn counts(&self, footprint: &Footprint) -> bool {
        match &self.subject {
            Subject::Quota(quota) => quota.counts(footprint),
            Subject::Group { groups, link, .. } => groups.counts(link, footprint),
        }
    }

    /// Whether a footprint takes a limited amount beyond those of `before`, the footprint that counts already.
    pub(crate) fn is_taken_by(&self, footprint: &Footprint, before: Option<&Footprint>) -> bool {
        let taken = self.hold(footprint, before).unwrap_or_default();
        let mut limited = taken.common(self.hard);
        limited.any(|(_, taken, _)| taken.is_positive())
    }

    /// The amounts that a pending reservation for `target` takes of the limit, given the observed footprint.
    pub(crate) fn hold<'t>(
        &self,
        target: &'t Footprint,
        observed: Option<&Footprint>,
    ) -> Option<Cow<'t, ResourceList>> {
        hold(|footprint| self.counts(footprint), target, observed)
    }
}

impl Limit for Counted<'_> {
    fn name(&self) -> &Name {
        self.name
    }
    fn spec(&self) -> &Spec {
        self.spec
    }
    fn hard(&self) -> &ResourceList {
        self.hard
    }
    fn selects(&self, footprint: &Footprint) -> bool {
        match self.subject {
            Subject::Quota(_) => true,
            Subject::Group { .. } => self.counts(footprint),
        }
    }
    fn is_enforced(&self) -> bool {
        self.is_strict || self.enforcement() == Enforcement::Enforce
    }
    fn counts_all(&self) -> bool {
        true
    }
    fn counted(&self, resource: &Name) -> Option<Quantity> {
        Some(self.counting()(resource))
    }
    fn counting(&self) -> impl FnMut(&Name) -> Quantity {
        const NONE: &Sums = &Sums::NONE;
        let changed = self.changed.unwrap_or(NONE);
        let [reserved, more_reserved] = match self.used_only {
            true => [&NONE.reserved; 2],
            false => [self.reserved, &changed.reserved],
        };
        let lists = [self.used, &changed.used, reserved, more_reserved, &self.aside];
        let mut lists = lists.map(ResourceList::search);
        // Mostly nothing is reserved, changed or set aside.
        let mut count = 0;
        for at in 0..lists.len() {
            if !lists[at].is_over() {
                lists.swap(count, at);
                count += 1;
            }
        }
        move |resource| {
            let mut counted = Quantity::ZERO;
            for list in &mut lists[..count] {
                if let Some(amount) = list.find(resource) {
                    counted.add_assign(amount);
                }
            }
            counted
        }
    }
    fn growth<'g>(&'g self, amounts: &'g ResourceList) -> &'g ResourceList {
        self.growth.as_ref().unwrap_or(amounts)
    }
}

impl State {
    /// Whether any limit may apply to objects of a namespace.
    pub(crate) fn is_limited(&self, namespace: &str) -> bool {
        let found = self.namespaces.find(namespace);
        found.is_some_and(|namespace| !namespace.quotas.is_empty())
            || !self.groups.is_empty() && self.may_have_groups(&Name::from(namespace))
    }

    /// The limits for an object of a namespace, as a decision sees them: the quotas of the namespace by name, then the
    /// groups that count the object, nearest first. Quotas that do not count the object are included.
    pub(crate) fn counted<'a>(
        &'a self,
        namespace: &Name,
        target: &Footprint,
        overlay: &'a Overlay,
    ) -> Vec<Counted<'a>> {
        let found = self.namespaces.find(namespace);
        let mut limits = Vec::with_capacity(found.map_or(0, |namespace| namespace.quotas.len()));
        if let Some(namespace) = found {
            let quota = |quota: &'a QuotaState| {
                let changed = overlay.of(namespace, quota);
                let sums = namespace.sums_of(quota);
                Counted {
                    name: &quota.record.name,
                    spec: &quota.record.spec,
                    hard: quota.hard(),
                    extensions: quota.extra.as_ref().map(|extra| &extra.extensions),
                    used: &sums.used,
                    reserved: &sums.reserved,
                    changed,
                    balance: changed.map_or(&sums.balance, |sums| &sums.balance),
                    growth: None,
                    subject: Subject::Quota(quota),
                    aside: ResourceList::new(),
                    used_only: false,
                    is_strict: false,
                }
            };
            limits.extend(namespace.quotas.values().map(quota));
        }
        if !self.groups.is_empty() {
            self.add_groups(namespace, target, overlay, &mut limits);
        }
        limits
    }

    /// The number of quotas of a namespace and of groups that count it, and the number of their limits.
    pub(crate) fn count_limits(&self, namespace: &Name) -> (usize, usize) {
        let found = self.namespaces.find(namespace).into_iter();
        let quotas = found.flat_map(|namespace| namespace.quotas.values());
        let quotas = quotas.map(|quota| quota.hard().len());
        let path = self.path_of(namespace);
        let groups = path.iter().map(|link| self.groups.get(link.group).hard().len());
        let add = |(count, limits), more| (count + 1, limits + more);
        quotas.chain(groups).fold((0, 0), add)
    }

    fn add_groups<'a>(
        &'a self,
        name: &Name,
        target: &Footprint,
        overlay: &'a Overlay,
        limits: &mut Vec<Counted<'a>>,
    ) {
        const NONE: &Sums = &Sums::NONE;
        let groups = &self.groups;
        let namespace = self.namespaces.find(name);
        let path = self.path_of(name);
        let counting: Vec<&Link> = path.iter().filter(|link| groups.counts(link, target)).collect();
        let places: Vec<u32> = counting.iter().map(|link| link.group).collect();
        let loads = overlay.loads(groups);
        let free = load::free(&loads, &places);
        let mut order: Vec<usize> = (0..counting.len()).collect();
        order.sort_by_key(|&at| {
            let link = counting[at];
            (link.distance, &groups.get(link.group).record.name)
        });
        for at in order {
            let link = counting[at];
            let group = groups.get(link.group);
            let spec = &group.record.spec;
            let changed = overlay.of_group(name, link.group);
            let share = namespace.and_then(|namespace| namespace.share_of(link.group));
            let share = share.map_or(NONE, |share| &**share);
            let is_replaced = namespace
                .is_some_and(|namespace| namespace.quotas.contains_key(&group.record.name));
            let (used, reserved, aside, shared) = match spec.extensions.each {
                true if is_replaced => continue,
                true => (&share.used, &share.reserved, ResourceList::new(), None),
                false => {
                    let load = overlay.load(groups, link.group);
                    let aside = load::aside(load, &free[at]);
                    let members = groups.members(link.group).len();
                    let shared = Shared { members, own: share, changed };
                    (&load.used, &load.reserved, aside, Some(shared))
                }
            };
            limits.push(Counted {
                name: &group.record.name,
                spec: &spec.quota,
                hard: group.hard(),
                extensions: Some(&spec.extensions),
                subject: Subject::Group { groups, link: link.clone(), shared },
                used,
                reserved,
                changed: changed.filter(|_| spec.extensions.each),
                balance: changed.map_or(&share.balance, |sums| &sums.balance),
                growth: None,
                aside,
                used_only: false,
                is_strict: false,
            });
        }
    }
}
