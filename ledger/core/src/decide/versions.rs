//! Updates of objects whose present version is not observed yet: its event is on the way.
//!
//! - The version that a review names as the old one may be observed after the review. So what is held for an update
//!   lasts until a later version than the old one is observed, also if an earlier review holds it already.
//! - What is observed may be larger now than in the versions that are on their way. So growth over the old version is
//!   held, even if the observed version has these amounts.

use super::{Request, case::Case};
use crate::{
    event::{Event, Reservation},
    state::{Counted, State},
};

/// Whether an update has to be held although it needs no room now: it grows over an old version that is not observed
/// yet, and no reservation holds it for as long.
pub(super) fn grows_unseen(state: &State, case: &Case<'_>, limits: &[Counted<'_>]) -> bool {
    let request = case.request;
    let old = request.basis.version();
    let observed = state.object(&request.namespace, &request.uid);
    if old <= observed.map_or(0, |object| object.version) || is_held_behind(case, old) {
        return false;
    }
    let before = request.before.as_ref();
    limits
        .iter()
        .any(|limit| limit.is_taken_by(&request.footprint, before))
}

/// Whether a reservation holds the update until a later version than the old one is observed.
fn is_held_behind(case: &Case<'_>, old: u64) -> bool {
    let pending = case.pending;
    pending.is_some_and(|pending| pending.after_version >= old) && case.holds_target()
}

/// Makes the reservation of an earlier request last as long as this request needs it.
pub(super) fn awaited(request: &Request, pending: &Reservation) -> Option<Event> {
    let after_version = request.basis.version();
    (after_version > pending.after_version).then(|| Event::VersionAwaited {
        uid: request.uid.clone(),
        namespace: request.namespace.clone(),
        after_version,
    })
}
