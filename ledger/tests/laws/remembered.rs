//! The expected state of each reservation, from the entries alone.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quota_core::{
    event::{Entry, Event},
    state::{End, State},
};
use quota_semantics::{Name, uid::Uid};
use quota_testkit::histories::world::World;

use super::{fold, reread, strategy::steps};

type Key = (Name, Uid);

/// The reservations of an object.
#[derive(Default)]
struct Fate {
    /// The latest reservation that was not committed: pending, or its end.
    latest: Option<Option<End>>,
    /// The version after which an observation replaces the commit.
    committed: Option<u64>,
    after_version: u64,
}

impl Fate {
    fn shown(&self) -> Option<Option<End>> {
        match (self.latest, self.committed) {
            (Some(None), _) => Some(None),
            (_, Some(_)) => Some(Some(End::Committed)),
            (latest, None) => latest,
        }
    }

    fn end(&mut self, how: End) {
        self.latest = Some(Some(how));
    }

    /// A newer reservation takes precedence over an earlier commit.
    fn end_commit(&mut self, how: End) {
        if self.committed.take().is_some() && self.latest.is_none() {
            self.end(how);
        }
    }

    fn see(&mut self, version: u64, ends_reservation: bool) {
        let is_awaiting = |after: u64| version == 0 || version > after;
        if self.committed.is_some_and(is_awaiting) {
            self.end_commit(End::Observed);
        }
        if ends_reservation {
            self.end(End::Observed);
        }
    }

    fn take_away(&mut self) {
        self.end_commit(End::Observed);
        if self.latest == Some(None) {
            self.end(End::Observed);
        }
    }
}

#[derive(Default)]
struct Fates(BTreeMap<Key, Fate>);

impl Fates {
    fn of(&mut self, namespace: &Name, uid: &Uid) -> &mut Fate {
        self.0.entry((namespace.clone(), uid.clone())).or_default()
    }

    fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            Event::ReservationGranted(granted) => {
                let fate = self.of(&granted.namespace, &granted.uid);
                fate.latest = Some(None);
                fate.after_version = granted.after_version;
            }
            Event::VersionAwaited { uid, namespace, after_version } => {
                self.of(namespace, uid).after_version = *after_version;
            }
            Event::ReservationCommitted { uid, namespace, .. } => {
                let fate = self.of(namespace, uid);
                fate.latest = None;
                fate.committed = Some(fate.after_version);
            }
            Event::ReservationReturned { uid, namespace } => {
                self.of(namespace, uid).end_commit(End::Returned);
            }
            Event::ReservationReleased { uid, namespace } => {
                self.of(namespace, uid).end(End::Released);
            }
            Event::ReservationExpired { uid, namespace } => {
                self.of(namespace, uid).end(End::Expired);
            }
            Event::ReservationSuperseded { uid, namespace, .. } => {
                self.of(namespace, uid).end(End::Superseded);
            }
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                let fate = self.of(&object.namespace, &object.uid);
                fate.see(object.version, object.ends_reservation);
            }
            Event::ObjectCorrected(correction) => {
                let object = &correction.object;
                let fate = self.of(&object.namespace, &object.uid);
                fate.see(object.version, object.ends_reservation);
            }
            Event::ObjectRefreshed { uid, namespace, version, ends_reservation } => {
                self.of(namespace, uid).see(*version, *ends_reservation);
            }
            Event::ObjectDeleted { uid, namespace } => self.of(namespace, uid).take_away(),
            Event::ObjectEnded(ending) => self.of(&ending.namespace, &ending.uid).take_away(),
            _ => {}
        }
    }

    fn are_those_of(&self, state: &State) {
        for ((namespace, uid), fate) in &self.0 {
            let view = state.reservation(namespace, uid);
            let end = view.map(|view| view.end.map(|(how, _)| how));
            assert_eq!(end, fate.shown(), "{namespace}/{uid}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_became_of_each_reservation_is_remembered_also_from_a_snapshot(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let cut = (world.entries.len() as f64 * cut) as usize;
        let mut fates = Fates::default();
        let mut resumed = reread(&fold(&world.entries[..cut]));
        world.entries[..cut].iter().for_each(|entry| fates.apply(entry));
        fates.are_those_of(&resumed);
        for entry in &world.entries[cut..] {
            resumed.apply(entry);
            fates.apply(entry);
            fates.are_those_of(&resumed);
        }
        fates.are_those_of(&world.state);
        fates.are_those_of(&reread(&world.state));
    }
}
