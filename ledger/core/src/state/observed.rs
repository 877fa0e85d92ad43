//! Observed namespaces: the labels and annotations by which groups select their members.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    State,
    listable::target_of_namespace,
    namespaces::{Namespaces, ObservedNamespace},
};
use crate::event::{NamespaceRecord, RelistScope, Sequence};
use quota_semantics::{Name, uid::Uid};

/// The kind of namespaces in relists.
pub(crate) const RESOURCE: &str = "namespaces";

/// The namespaces by uid, for lists of uids. A uid has one namespace, unless a source sends wrong uids.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceUids(BTreeSet<(Uid, u32)>);

impl NamespaceUids {
    pub(crate) fn of(namespaces: &Namespaces) -> Self {
        let observed = namespaces.slab.iter().filter_map(|(place, namespace)| {
            let observed = namespace.observed.as_ref()?;
            Some((observed.record.uid.clone(), place))
        });
        Self(observed.collect())
    }
}

impl State {
    pub(super) fn see_namespace(&mut self, entry: Sequence, record: &Arc<NamespaceRecord>) {
        let place = self.ensure_namespace(&record.name);
        let observed = ObservedNamespace { record: record.clone(), entry, seen: entry };
        let before = self.namespaces.get_mut(place).observed.replace(observed);
        if let Some(before) = before {
            self.namespace_uids.0.remove(&(before.record.uid.clone(), place));
        }
        self.namespace_uids.0.insert((record.uid.clone(), place));
        self.relists.see(&RESOURCE.into(), &record.name, None);
        self.rejoin_namespace(place);
    }

    pub(super) fn forget_namespace(&mut self, name: &Name, uid: &Uid, relist: Option<Sequence>) {
        self.objects.deleted.remember(name.clone(), uid.clone(), 0);
        if let Some(began) = relist {
            self.relists.count_ended(&RESOURCE.into(), name, began);
        }
        let Some(place) = self.namespaces.place(name) else {
            return;
        };
        let namespace = self.namespaces.get_mut(place);
        if namespace.record().is_none_or(|record| record.uid != *uid) {
            return;
        }
        namespace.observed = None;
        self.namespace_uids.0.remove(&(uid.clone(), place));
        self.rejoin_namespace(place);
        self.drop_namespace_if_empty(place);
    }

    /// Marks a namespace that a source listed unchanged.
    pub(super) fn mark_namespace(&mut self, entry: Sequence, uid: &Uid, source: &Name) {
        let bearers = (uid.clone(), 0)..=(uid.clone(), u32::MAX);
        for &(_, place) in self.namespace_uids.0.range(bearers) {
            let namespace = self.namespaces.get_mut(place);
            if let Some(observed) = &mut namespace.observed {
                observed.seen = entry;
            }
            let resource = Name::from(RESOURCE);
            self.relists.see(&resource, &namespace.name, Some(source));
        }
    }

    /// The namespaces that sources have reported, by name.
    pub fn namespace_records(&self) -> impl Iterator<Item = &NamespaceRecord> {
        self.observed_namespaces("").map(|namespace| &*namespace.record)
    }

    /// The observed namespace of this name.
    #[must_use]
    pub(crate) fn observed_namespace(&self, name: &str) -> Option<&ObservedNamespace> {
        self.namespaces.find(name)?.observed.as_ref()
    }

    /// A namespace as it was last observed; none if no source has reported it.
    #[must_use]
    pub fn namespace_record(&self, name: &str) -> Option<&Arc<NamespaceRecord>> {
        Some(&self.observed_namespace(name)?.record)
    }

    /// The observed namespaces after a name, by name.
    pub(crate) fn observed_namespaces(
        &self,
        after: &str,
    ) -> impl Iterator<Item = &ObservedNamespace> {
        use std::ops::Bound;
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let places = self.namespaces.by_name.range::<str, _>(range);
        places.filter_map(|(_, &place)| self.namespaces.get(place).observed.as_ref())
    }

    /// The namespaces that a relist has listed.
    pub(super) fn namespaces_in_list<'s>(
        &'s self,
        scope: &'s RelistScope,
    ) -> impl Iterator<Item = &'s ObservedNamespace> {
        let began = self.relists.open.get(scope).map(|relist| relist.began);
        let began = began.filter(|_| scope.resource == *RESOURCE);
        let all = began.into_iter().flat_map(|_| self.observed_namespaces(""));
        all.filter(move |observed| {
            let (resource, namespace) = target_of_namespace(&observed.record.name);
            scope.covers(resource, namespace) && began.is_some_and(|began| observed.seen >= began)
        })
    }
}
