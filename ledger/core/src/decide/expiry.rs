//! Events that are due because their time has come.

use crate::{
    event::Event,
    state::{Expiry, State, lapsed_footprint},
};
use quota_semantics::{Name, Span, Timestamp};

/// How far the sources have been consumed.
#[derive(Clone, Copy, Debug)]
pub struct Consumed<'a> {
    /// All events of most kinds have been consumed up to this time.
    pub watermark: Timestamp,
    /// The source that reports a watermark of each kind. None: `watermark` holds for all kinds.
    pub publisher: Option<&'a Name>,
}

impl From<Timestamp> for Consumed<'_> {
    fn from(watermark: Timestamp) -> Self {
        Self { watermark, publisher: None }
    }
}

impl Consumed<'_> {
    /// The time up to which all events of a kind have been consumed; `Timestamp::EPOCH`: unknown.
    fn of(&self, state: &State, resource: &Name) -> Timestamp {
        let Some(publisher) = self.publisher else {
            return self.watermark;
        };
        let own = state.watermark_of(publisher, resource);
        own.unwrap_or(Timestamp::EPOCH).min(self.watermark)
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
/// A reservation ends when both its expiration and the time up to which the events of its kind have been `consumed` have
/// passed: an object that was created in time keeps its place while its event is on the way, or if nobody reports its kind.
/// `max_hold` after its expiration a reservation ends in any case. Objects lapse at `now`, and overrides end.
pub fn due<'a>(
    state: &'a State,
    now: Timestamp,
    consumed: impl Into<Consumed<'a>>,
    max_hold: Span,
) -> impl Iterator<Item = Event> + 'a {
    let cursor = ExpiryCursor::default();
    due_after(state, now, consumed.into(), max_hold, (cursor, usize::MAX)).0
}

/// As [`due`], but looks at no more than `most` expired reservations behind a cursor. Returns the next cursor, too.
pub fn due_after<'a>(
    state: &'a State,
    now: Timestamp,
    consumed: Consumed<'a>,
    max_hold: Span,
    (cursor, most): (ExpiryCursor, usize),
) -> (impl Iterator<Item = Event> + 'a, ExpiryCursor) {
    let latest = now.minus(max_hold);
    let mut expiring = state.expiring(cursor.0, now.min(consumed.watermark).max(latest));
    let (mut expired, mut last) = (Vec::new(), None);
    for (expiry, reservation) in expiring.by_ref().take(most) {
        if reservation.expiration <= consumed.of(state, &reservation.resource).max(latest) {
            expired.push(Event::ReservationExpired {
                uid: reservation.uid.clone(),
                namespace: reservation.namespace.clone(),
            });
        }
        last = Some(expiry);
    }
    let next = ExpiryCursor(last.filter(|_| expiring.next().is_some()));
    let lapsed = state.lapsed(now).map(|object| Event::ObjectLapsed {
        footprint: Box::new(lapsed_footprint(&object.footprint)),
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

/// Whether reservations end at `now` only because of `max_hold`: what was `consumed` has not passed their expirations.
/// Looks at no more than `most`.
#[must_use]
pub fn held_too_long(
    state: &State,
    now: Timestamp,
    consumed: Consumed<'_>,
    max_hold: Span,
    most: usize,
) -> bool {
    let mut expired = state.expiring(None, now.minus(max_hold)).take(most);
    expired
        .any(|(_, reservation)| reservation.expiration > consumed.of(state, &reservation.resource))
}
