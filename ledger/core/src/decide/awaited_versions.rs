//! Updates of objects whose present version is not observed yet: its event is on the way.
//!
//! - The version that a review names as the old one may be observed after the review. So what is held for an update
//!   lasts until a later version than the old one is observed, also if an earlier review holds it already.
//! - What is observed may be larger now than in the versions that are on their way. So growth over the old version is
//!   held, even if the observed version has these amounts.

use super::Request;
use crate::{
    event::{Event, Reservation},
    state::{Counted, State},
};

/// Whether an update has to be held although it needs no room now: it grows over an old version that is not observed
/// yet, and no reservation holds it for as long. `held` is the pending reservation, if it holds the update.
pub(super) fn grows_unseen(
    state: &State,
    request: &Request,
    held: Option<&Reservation>,
    limits: &[Counted<'_>],
) -> bool {
    let old = request.basis.version();
    let observed = state.object(&request.namespace, &request.uid);
    if old <= observed.map_or(0, |object| object.version)
        || held.is_some_and(|held| held.after_version >= old)
    {
        return false;
    }
    let before = request.before.as_deref();
    limits.iter().any(|limit| limit.is_taken_by(&request.footprint, before))
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
