//! The numbers of namespaces, quotas and groups, and which of them an event may change.

use std::borrow::Cow;

use super::{
    State,
    apply::Claims,
    group_path::Link,
    namespaces::{Claim, Namespace, QuotaState, growth},
    query,
    sums::Parts,
    tracked_reservation::Tracked,
};
use crate::{
    event::{Event, NamespaceRecord, Reservation},
    time::Level,
};
use quota_semantics::{Name, object::Footprint, resource::ResourceList, uid::Uid};

/// What an event may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched<'e> {
    /// The namespace whose sums, quotas and groups it may change.
    pub(crate) namespace: Option<&'e Name>,
    /// Whether it may change the limits of that namespace, beside its sums.
    pub(crate) limits: bool,
    /// The group that it may change.
    pub(crate) group: Option<&'e Name>,
    /// Whether it may change all groups.
    pub(crate) all_groups: bool,
    /// Whether it may change all namespaces.
    pub(crate) all_namespaces: bool,
}

impl State {
    /// What an event may change, in the state before it.
    pub(crate) fn touched<'e>(&self, event: &'e Event) -> Touched<'e> {
        let mut touched = Touched::default();
        match event {
            Event::WorkloadsCharged { .. } => {
                touched.all_groups = true;
                touched.all_namespaces = true;
            }
            Event::GroupSet(group) => {
                touched.all_groups = true;
                // Limits of each member.
                let before = self.group_record(&group.name);
                let was_each = before.is_some_and(|(it, _)| it.spec.extensions.each);
                touched.all_namespaces = was_each || group.spec.extensions.each;
            }
            Event::GroupDeleted { name } => {
                touched.all_groups = true;
                touched.group = Some(name);
                let before = self.group_record(name);
                touched.all_namespaces = before.is_some_and(|(it, _)| it.spec.extensions.each);
            }
            Event::OverrideEnded { namespace: None, quota } => {
                touched.group = Some(quota);
                let before = self.group_record(quota);
                touched.all_namespaces = before.is_some_and(|(it, _)| it.spec.extensions.each);
            }
            Event::ReservationExtended { .. }
            | Event::VersionAwaited { .. }
            | Event::RelistBegan(_)
            | Event::RelistClosed(_)
            | Event::RelistEnded(_)
            | Event::VersionsReset(_) => {}
            event => {
                touched.namespace = event.namespace();
                touched.limits = event.object().is_none();
            }
        }
        touched
    }

    /// The groups that count objects of a namespace.
    pub(crate) fn counting_groups(&self, namespace: &Name) -> impl Iterator<Item = Name> {
        let path = self.path_of(namespace);
        let names: Vec<Name> =
            path.iter().map(|link| self.groups.get(link.group).record.name.clone()).collect();
        names.into_iter()
    }

    /// All namespaces, those with nothing in them included, and all groups, by name.
    pub(crate) fn all_names(&self) -> (Vec<Name>, Vec<Name>) {
        let namespaces = self.namespaces.by_name.keys().cloned();
        let groups = self.groups.by_name.keys().cloned();
        (namespaces.collect(), groups.collect())
    }

    /// The sums of a namespace; none: there is nothing in it.
    pub(crate) fn sums_of(&self, namespace: &str) -> Option<SumsOf<'_>> {
        let namespace = self.namespaces.find(namespace)?;
        Some(SumsOf { state: self, namespace })
    }

    /// The limits that count all of a namespace: those of its quotas without scopes, and those of groups that limit
    /// each member, unless a quota takes their place.
    fn whole_limits<'s>(
        &'s self,
        namespace: &'s Namespace,
    ) -> impl Iterator<Item = &'s ResourceList> {
        let quotas = namespace.quotas.values();
        let quotas = quotas.filter(|quota| !quota.is_scoped());
        let each = namespace.path.iter().filter_map(|link: &Link| {
            let group = self.groups.get(link.group);
            let is_replaced = namespace.quotas.contains_key(&group.record.name);
            let applies = group.record.spec.extensions.each && link.partial.is_none();
            (applies && !is_replaced).then(|| group.hard())
        });
        quotas.map(QuotaState::hard).chain(each)
    }

    /// The limits of the quotas of a namespace, by name and resource.
    pub(crate) fn levels_of_quotas(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&Name, impl Iterator<Item = (&Name, Level)>)> {
        let namespace = self.namespaces.find(namespace).into_iter();
        namespace.flat_map(|namespace| {
            namespace.quotas.iter().map(|(name, quota)| {
                let sums = namespace.sums_of(quota);
                (name, levels(quota.hard(), &sums.used, &sums.reserved, true))
            })
        })
    }

    /// The limits of a group by resource. One that limits each member alone is never full itself.
    pub(crate) fn levels_of_group(&self, group: &str) -> impl Iterator<Item = (&Name, Level)> {
        let group = self.groups.find(group).into_iter();
        group.flat_map(|group| {
            let is_whole = !group.record.spec.extensions.each;
            levels(group.hard(), &group.load.used, &group.load.reserved, is_whole)
        })
    }
}

/// The sums of a namespace, and the least of the limits that count all of it.
#[derive(Clone, Copy)]
pub(crate) struct SumsOf<'s> {
    state: &'s State,
    namespace: &'s Namespace,
}

impl<'s> SumsOf<'s> {
    pub(crate) fn used(self) -> &'s ResourceList {
        &self.namespace.sums.used
    }

    pub(crate) fn reserved(self) -> &'s ResourceList {
        &self.namespace.sums.reserved
    }

    pub(crate) fn hard(self) -> Cow<'s, ResourceList> {
        const NONE: &ResourceList = &ResourceList::new();
        let mut hard = Cow::Borrowed(NONE);
        for limits in self.state.whole_limits(self.namespace) {
            match hard.is_empty() {
                true => hard = Cow::Borrowed(limits),
                false => hard.to_mut().min(limits),
            }
        }
        hard
    }

    /// All of them, by resource.
    pub(crate) fn levels(self) -> impl Iterator<Item = (Name, Level)> {
        let hard = self.hard();
        let mut names: Vec<Name> = [self.used(), self.reserved(), &*hard]
            .into_iter()
            .flat_map(ResourceList::names)
            .cloned()
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(move |name| {
            let of = |list: &ResourceList| list.get(&name).cloned();
            let used = of(self.used()).unwrap_or_default();
            let level = Level::new(used, of(self.reserved()).unwrap_or_default(), of(&hard));
            (name, level)
        })
    }
}

/// An object.
pub(crate) struct ObjectPart<'s> {
    pub(crate) resource: &'s Name,
    pub(crate) name: &'s str,
    pub(crate) footprint: &'s Footprint,
}

/// A reservation or a commit.
pub(crate) struct ClaimPart<'s> {
    pub(crate) reservation: &'s Reservation,
    pub(crate) is_pending: bool,
    pub(crate) target: &'s Footprint,
    state: &'s State,
    tracked: &'s Tracked,
}

impl State {
    /// A namespace as it was observed.
    pub(crate) fn observed_record(&self, namespace: &str) -> Option<&NamespaceRecord> {
        self.namespaces.find(namespace)?.record()
    }

    /// Whether a group counts objects in a namespace.
    pub(crate) fn is_member(&self, group: &str, namespace: &str) -> bool {
        let place = self.groups.by_name.get(group);
        place.is_some_and(|&place| self.groups.members(place).contains_key(namespace))
    }

    /// The groups that count an object of a namespace with this footprint.
    pub(crate) fn groups_counting(&self, namespace: &Name, footprint: &Footprint) -> Vec<&Name> {
        let path = self.path_of(namespace);
        let counting = path.iter().filter(|link| self.groups.counts(link, footprint));
        counting.map(|link| &self.groups.get(link.group).record.name).collect()
    }

    /// An object.
    pub(crate) fn object_part(&self, namespace: &str, uid: &Uid) -> Option<ObjectPart<'_>> {
        self.find_object(namespace, uid).map(|place| self.object_part_at(place))
    }

    /// The objects of a namespace.
    pub(crate) fn object_parts(&self, namespace: &str) -> impl Iterator<Item = ObjectPart<'_>> {
        let namespace = self.namespaces.find(namespace).into_iter();
        namespace.flat_map(|namespace| &namespace.objects).map(|&place| self.object_part_at(place))
    }

    fn object_part_at(&self, place: u32) -> ObjectPart<'_> {
        let object = self.objects.get(place);
        ObjectPart {
            resource: self.resources.get(object.resource),
            name: object.name.as_str(),
            footprint: self.footprints.get(object.footprint),
        }
    }

    /// The pending reservations and the commits of a namespace.
    pub(crate) fn claim_parts(&self, namespace: &str) -> impl Iterator<Item = ClaimPart<'_>> {
        let namespace = self.namespaces.find(namespace).into_iter();
        let places = namespace.flat_map(|it| it.pending.iter().chain(&it.committed));
        places.filter_map(|&place| self.claim_part_at(place))
    }

    /// Those that depend on an object: its own, and those that wait for its name.
    pub(crate) fn claim_parts_of(
        &self,
        namespace: &Name,
        uid: &Uid,
    ) -> impl Iterator<Item = ClaimPart<'_>> {
        let Claims { pending, committed } = self.claims_of((namespace, uid));
        let own = pending.into_iter().chain(committed);
        let places = own.chain(self.waiting_for((namespace, uid)));
        places.filter_map(|place| self.claim_part_at(place))
    }

    fn claim_part_at(&self, place: u32) -> Option<ClaimPart<'_>> {
        let tracked = self.reservations.get(place);
        let (claim, target) = tracked.claim()?;
        Some(ClaimPart {
            reservation: &tracked.reservation,
            is_pending: claim == Claim::Pending,
            target,
            state: self,
            tracked,
        })
    }
}

impl<'s> ObjectPart<'s> {
    /// The amounts for which it counts by itself: without those that are set against the charge of a workload.
    pub(crate) fn amounts(&self) -> Cow<'s, ResourceList> {
        Parts::all(self.footprint).direct
    }
}

impl<'s> ClaimPart<'s> {
    /// The amounts for which it counts by itself.
    pub(crate) fn amounts(&self) -> Cow<'s, ResourceList> {
        let beside = self.state.beside(self.tracked).map(|shared| &**shared);
        Parts::of(&self.target.traits, growth(self.target, beside)).direct
    }
}

fn levels<'s>(
    hard: &'s ResourceList,
    used: &'s ResourceList,
    reserved: &'s ResourceList,
    is_whole: bool,
) -> impl Iterator<Item = (&'s Name, Level)> {
    hard.iter().map(move |(name, hard)| {
        let used = query::used(used, name).unwrap_or_default();
        let reserved = reserved.get(name).cloned().unwrap_or_default();
        let mut level = Level::new(used, reserved, Some(hard.clone()));
        level.full *= u64::from(is_whole);
        (name, level)
    })
}
