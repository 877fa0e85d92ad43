//! Objects of the recorded past that differ in the counterfactual one.

use hashbrown::HashMap;

use crate::{
    event::{Entry, Event, Observed},
    state::State,
};
use quota_semantics::{Name, uid::Uid};

/// An object by namespace and uid.
pub(super) type Key<'a> = (&'a Name, &'a Uid);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It was never created.
    Out,
    /// It exists, and has not grown.
    Smaller,
}

/// The objects that were refused.
#[derive(Debug, Default)]
pub(super) struct LeftOut(HashMap<(Name, Uid), Left>);

/// What an entry does in the counterfactual state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The same as in the recorded one.
    Same,
    /// Nothing.
    None,
    /// The reservation that the object still has ends.
    Release,
}

impl Effect {
    pub(super) fn apply(self, state: &mut State, entry: &Entry) {
        match (self, entry.event.object()) {
            (Self::Same, _) => state.apply(entry),
            (Self::Release, Some((namespace, uid))) => release(state, entry, (namespace, uid)),
            _ => {}
        }
    }
}

/// Ends the pending reservation of an object.
fn release(state: &mut State, entry: &Entry, (namespace, uid): Key<'_>) {
    let event = Event::ReservationReleased { uid: uid.clone(), namespace: namespace.clone() };
    state.apply(&Entry { event, ..entry.clone() });
}

impl LeftOut {
    fn get(&self, (namespace, uid): Key<'_>) -> Option<Left> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(namespace.clone(), uid.clone())).copied()
    }

    /// Whether a recorded grant is about an object that would not exist. A new reservation for an object that is not
    /// observed is another attempt to create it.
    pub(super) fn has_no(&self, key: Key<'_>, event: &Event, recorded: &State) -> bool {
        let is_attempt = matches!(event, Event::ReservationGranted(_))
            && recorded.footprint_in(key.0, key.1).is_none();
        self.get(key) == Some(Left::Out) && !is_attempt
    }

    /// The object is as recorded from here on.
    pub(super) fn grant(&mut self, (namespace, uid): Key<'_>) {
        if !self.0.is_empty() {
            self.0.remove(&(namespace.clone(), uid.clone()));
        }
    }

    /// The object is not created, or does not grow.
    pub(super) fn refuse(&mut self, key: Key<'_>, entry: &Entry, state: &mut State) {
        let left = match state.footprint_in(key.0, key.1) {
            Some(_) => Left::Smaller,
            None => {
                // What an earlier request for the same object holds is given back.
                release(state, entry, key);
                Left::Out
            }
        };
        self.0.insert((key.0.clone(), key.1.clone()), left);
    }

    /// What an entry does that the candidates do not refuse.
    pub(super) fn effect(&mut self, event: &Event, state: Option<&State>) -> Effect {
        let (Some(key), Some(state)) = (event.object(), state) else {
            return Effect::Same;
        };
        let ends = matches!(event, Event::ObjectDeleted { .. } | Event::ObjectEnded(_));
        match self.get(key) {
            None => Effect::Same,
            Some(Left::Out) => {
                if ends {
                    self.grant(key);
                }
                Effect::None
            }
            Some(Left::Smaller) => match event {
                _ if ends => {
                    self.grant(key);
                    Effect::Same
                }
                Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                    self.observe(key, object, state)
                }
                Event::ObjectCorrected(correction) => self.observe(key, &correction.object, state),
                Event::ReservationCommitted { resources, .. } => {
                    let pending = state.pending_of(key.0, key.1);
                    let is_held = pending.is_some_and(|pending| {
                        let held = &pending.reservation.footprint.resources;
                        resources.delta_over(held).without_zeros().is_empty()
                    });
                    match is_held {
                        true => Effect::Same,
                        false => Effect::Release,
                    }
                }
                Event::ReservationExtended { .. }
                | Event::NameAwaited { .. }
                | Event::VersionAwaited { .. } => Effect::None,
                _ => Effect::Same,
            },
        }
    }

    /// A later version counts once it takes no more than the object does.
    fn observe(&mut self, key: Key<'_>, object: &Observed, state: &State) -> Effect {
        let before = state.footprint_in(key.0, key.1);
        let is_no_more = before.is_some_and(|before| {
            let more = object.footprint.resources.delta_over(&before.resources);
            more.without_zeros().is_empty() && object.footprint.is_like(before)
        });
        if is_no_more {
            self.grant(key);
            return Effect::Same;
        }
        match object.ends_reservation {
            true => Effect::Release,
            false => Effect::None,
        }
    }
}
