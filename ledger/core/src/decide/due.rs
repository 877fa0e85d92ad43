//! Events that are due because their time has come.

use super::Bounds;
use crate::{
    event::Event,
    state::{Expiry, State, lapsed_footprint},
};
use planted::Bug;
use quota_semantics::{Name, Span, Timestamp};
use std::collections::BTreeMap;

/// Bounds the bytes of ended reservations when they exceed the limit: from then on each principal has its share, and
/// of that each namespace. Before, they are forgotten in the order in which they ended, as in the first ledgers.
#[must_use]
pub fn bound_ended(state: &State, bounds: &Bounds) -> Option<Event> {
    let bytes = bounds.ended_bytes;
    let is_needed = state.has_to_bound_ended(bytes);
    is_needed.then_some(Event::EndedBounded { bytes })
}

/// The times up to which the sources have been consumed.
struct Consumed<'a> {
    /// For most kinds.
    watermark: Timestamp,
    /// For the kinds that are known to be behind.
    behind: BTreeMap<&'a Name, Timestamp>,
}

impl<'a> Consumed<'a> {
    fn new(state: &'a State, watermark: Timestamp, max_hold: Span) -> Self {
        let behind = state.kinds_behind(watermark, watermark.minus(max_hold));
        Self { watermark, behind }
    }

    fn of(&self, resource: &Name) -> Timestamp {
        let own = self.behind.get(resource).copied();
        own.unwrap_or(self.watermark)
    }
}

/// How far the expired reservations have been looked at. Many of them may be held while a kind is behind: each call looks
/// at a bounded number, and the next one goes on behind them. After the last one the search begins anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpiryCursor(Option<Expiry>);

impl ExpiryCursor {
    /// Whether the search has looked at all expired reservations.
    #[must_use]
    pub const fn is_at_end(self) -> bool {
        self.0.is_none()
    }
}

/// The events that are due at `now`: they come before any other decision.
///
/// A reservation ends when both its expiration and `watermark`, the time up to which all sources have been consumed,
/// have passed: an object that was created in time keeps its place while its event is on the way. If the source has
/// reported less of the object's kind, the watermark of that kind has to pass, too, unless it is `max_hold` behind.
/// `max_hold` after its expiration a reservation ends in any case. Objects lapse at `now`, and overrides end.
pub fn due(
    state: &State,
    now: Timestamp,
    watermark: Timestamp,
    max_hold: Span,
) -> impl Iterator<Item = Event> {
    let cursor = ExpiryCursor::default();
    due_after(state, now, watermark, max_hold, (cursor, usize::MAX)).0
}

/// As [`due`], but looks at no more than `most` expired reservations behind a cursor. Returns the next cursor, too.
pub fn due_after(
    state: &State,
    now: Timestamp,
    watermark: Timestamp,
    max_hold: Span,
    (cursor, most): (ExpiryCursor, usize),
) -> (impl Iterator<Item = Event>, ExpiryCursor) {
    let watermark = match planted::is(Bug::BlindExpiry) {
        true => now,
        false => watermark,
    };
    let latest = now.minus(max_hold);
    let mut expiring = state.expiring(cursor.0, now.min(watermark).max(latest));
    let (mut expired, mut last, mut consumed) = (Vec::new(), None, None);
    for (expiry, reservation) in expiring.by_ref().take(most) {
        // Nearly always nothing is expiring.
        let consumed = consumed.get_or_insert_with(|| Consumed::new(state, watermark, max_hold));
        if reservation.expiration <= consumed.of(&reservation.resource).max(latest) {
            expired.push(Event::ReservationExpired {
                uid: reservation.uid.clone(),
                namespace: reservation.namespace.clone(),
            });
        }
        last = Some(expiry);
    }
    let next = ExpiryCursor(last.filter(|_| expiring.next().is_some()));
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
    (overrides.chain(expired).chain(lapsed), next)
}

/// Whether reservations end at `now` only because of `max_hold`: `watermark` has not passed their expirations. Looks at
/// no more than `most`.
#[must_use]
pub fn held_too_long(
    state: &State,
    now: Timestamp,
    watermark: Timestamp,
    max_hold: Span,
    most: usize,
) -> bool {
    let mut consumed = None;
    let mut expired = state.expiring(None, now.minus(max_hold)).take(most);
    expired.any(|(_, reservation)| {
        let consumed = consumed.get_or_insert_with(|| Consumed::new(state, watermark, max_hold));
        reservation.expiration > consumed.of(&reservation.resource)
    })
}
