//! What happens because its time has come.

use super::Bounds;
use crate::{
    event::Event,
    state::{State, lapsed_footprint},
};
use planted::Bug;
use quota_semantics::{Span, Timestamp};

/// Ended reservations take more room than they may: from now on each namespace has its share of it. Before, they are
/// forgotten in the order in which they ended, as in the first ledgers.
#[must_use]
pub fn bound_ended(state: &State, bounds: &Bounds) -> Option<Event> {
    let bytes = bounds.ended_bytes;
    let is_needed = state.has_to_bound_ended(bytes);
    is_needed.then_some(Event::EndedBounded { bytes })
}

/// The events that are due at `now`: they come before any other decision.
///
/// A reservation ends at its expiration, but not before `watermark`, the time up to which all sources are known
/// to have been consumed, has passed it too: an object created in time whose event is still on its way keeps
/// its place. After `max_hold` beyond its expiration it ends in any case. Objects cease to count by `now`,
/// and overrides end.
pub fn due(
    state: &State,
    now: Timestamp,
    watermark: Timestamp,
    max_hold: Span,
) -> impl Iterator<Item = Event> {
    let watermark = match planted::is(Bug::BlindExpiry) {
        true => now,
        false => watermark,
    };
    let expired = state.expiring(now.min(watermark).max(now.minus(max_hold)));
    let expired = expired.map(|reservation| Event::ReservationExpired {
        uid: reservation.uid.clone(),
        namespace: reservation.namespace.clone(),
    });
    let lapsed = state.lapsed(now).map(|object| Event::ObjectLapsed {
        footprint: lapsed_footprint(&object.footprint),
        uid: object.uid,
        namespace: object.namespace,
    });
    let overrides = state.overrides_over(now);
    let overrides = overrides.map(|(namespace, quota)| Event::OverrideEnded {
        namespace: namespace.clone(),
        quota: quota.clone(),
    });
    overrides.chain(expired).chain(lapsed)
}
