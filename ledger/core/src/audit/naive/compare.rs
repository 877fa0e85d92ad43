//! Compares a state with the result of the naive fold.

use super::{
    Naive,
    count::{Count, Counts, counted},
};
use crate::state::State;
use quota_semantics::{Name, quantity::Quantity};

/// The most differences that are listed.
const DIFFERENCES_MAX: usize = 20;

impl Naive {
    /// Descriptions of the differences between a state and the naive fold, at most 20. Empty: there are none.
    #[must_use]
    pub fn differences(&self, state: &State) -> Vec<String> {
        let mut found = Differences(Vec::new());
        found.unless(state.head().sequence == self.last, || {
            format!("it is at {}, not {}", state.head().sequence, self.last)
        });
        found.unless(*state.sources() == self.sources, || "the cursors of the sources".to_owned());
        for difference in self.progress.differences(state) {
            found.unless(false, || difference);
        }
        for difference in self.relists.differences(state) {
            found.unless(false, || difference);
        }
        let observed = state.observed_namespaces("").map(|observed| &observed.record);
        found.unless(observed.eq(self.namespaces.values()), || {
            "the records of namespaces".to_owned()
        });
        self.compare_objects(state, &mut found);
        self.compare_pending(state, &mut found);
        self.compare_committed(state, &mut found);
        let counts = self.counts();
        for (key, count) in &counts {
            compare_namespace(key, count, state, &mut found);
        }
        self.compare_quotas(state, &counts, &mut found);
        for difference in self.groups.differences(state, &self.namespaces, &counts) {
            found.unless(false, || difference);
        }
        found.0
    }

    fn compare_objects(&self, state: &State, found: &mut Differences) {
        found.unless(state.object_count() as usize == self.objects.len(), || {
            format!("{} objects, not {}", state.object_count(), self.objects.len())
        });
        for object in self.objects.values() {
            let uid = &object.uid;
            let same = state.object(&object.namespace, uid).is_some_and(|view| {
                view.namespace == object.namespace
                    && view.resource == object.resource
                    && view.name == object.name
                    && view.version == object.version
                    && view.lapse == object.lapse
                    && *view.footprint == object.footprint
            });
            found.unless(same, || format!("object {uid}"));
        }
    }

    fn compare_pending(&self, state: &State, found: &mut Differences) {
        found.unless(state.pending_count() == self.pending.len(), || {
            format!("{} pending reservations, not {}", state.pending_count(), self.pending.len())
        });
        for ((namespace, uid), claim) in &self.pending {
            let view = state.reservation(namespace, uid);
            let same = view.is_some_and(|view| {
                view.end.is_none()
                    && *view.reservation == claim.reservation
                    && view.owner == claim.owner
            });
            found.unless(same, || format!("reservation {uid}"));
        }
    }

    fn compare_committed(&self, state: &State, found: &mut Differences) {
        found.unless(state.committed_count() == self.committed.len(), || {
            format!("{} commits, not {}", state.committed_count(), self.committed.len())
        });
        for ((namespace, uid), claim) in &self.committed {
            let committed = state.committed(namespace, uid);
            let same = committed == Some(&claim.reservation.footprint);
            found.unless(same, || format!("commit {uid}"));
        }
    }

    fn compare_quotas(&self, state: &State, counts: &Counts<'_>, found: &mut Differences) {
        let kept: usize = state.namespaces("").map(|name| state.quotas(name).len()).sum();
        found.unless(kept == self.quotas.len(), || {
            format!("{kept} quotas, not {}", self.quotas.len())
        });
        let nothing = Count::default();
        for ((namespace, name), record) in &self.quotas {
            let view = state.quota(namespace, name);
            let Some(view) = view.filter(|view| view.record == *record) else {
                found.unless(false, || format!("quota {namespace}/{name}"));
                continue;
            };
            let hard = self.groups.limits(record);
            let shown = view.figures.iter().map(|it| (&it.resource, &it.hard));
            found.unless(shown.eq(hard.iter()), || format!("the limits of {namespace}/{name}"));
            let count = counts.get(namespace).unwrap_or(&nothing);
            let count = count.of(|footprint| counted(record, footprint));
            for figure in view.figures {
                let resource = &figure.resource;
                let used = count.used(resource);
                let reserved = count.reserved(resource);
                found.number(
                    (namespace, Some(name), resource),
                    "used",
                    figure.used.as_ref(),
                    &used,
                );
                found.number(
                    (namespace, Some(name), resource),
                    "reserved",
                    Some(&figure.reserved),
                    &reserved,
                );
            }
        }
    }
}

/// Compares the sums of a namespace that do not depend on quotas.
fn compare_namespace(namespace: &Name, count: &Count<'_>, state: &State, found: &mut Differences) {
    let totals = state.totals(namespace);
    let kept = totals.used.names().chain(totals.reserved.names());
    let mut names = count.names();
    names.extend(kept);
    for resource in names {
        let place = (namespace, None, resource);
        found.number(place, "used", totals.used.get(resource), &count.used(resource));
        let reserved = count.reserved(resource);
        found.number(place, "reserved", totals.reserved.get(resource), &reserved);
    }
}

/// Differences found so far.
struct Differences(Vec<String>);

impl Differences {
    fn unless(&mut self, same: bool, what: impl FnOnce() -> String) {
        if !same && self.0.len() < DIFFERENCES_MAX {
            self.0.push(what());
        }
    }

    fn number(
        &mut self,
        (namespace, quota, resource): (&Name, Option<&Name>, &Name),
        which: &str,
        kept: Option<&Quantity>,
        counted: &Quantity,
    ) {
        let kept = kept.unwrap_or(&Quantity::ZERO);
        self.unless(kept == counted, || {
            let quota = quota.map(|quota| format!("/{quota}")).unwrap_or_default();
            format!("{which} {resource} of {namespace}{quota} is {kept}, but counts {counted}")
        });
    }
}
