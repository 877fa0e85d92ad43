//! The ledger's own words as label values.

use quota_ledger::{
    decide::Refusal,
    event::{Entry, Event},
    state::End,
};

use super::{Decision, Label as _, Limit, Outcome, decisions, limit_reached, reservation_outcomes};
use crate::reason::Reason;

/// Counts what became of reservations, in entries that are durable.
pub fn recorded(entries: &[Entry]) {
    for entry in entries {
        let end = match &entry.event {
            Event::ObjectObserved(object) if object.ends_reservation => End::Observed,
            Event::ObjectRefreshed {
                ends_reservation: true,
                ..
            } => End::Observed,
            Event::ReservationCommitted { .. } => End::Committed,
            Event::ReservationReleased { .. } => End::Released,
            Event::ReservationExpired { .. } => End::Expired,
            Event::ReservationSuperseded { .. } => End::Superseded,
            _ => continue,
        };
        reservation_outcomes(Outcome::from(end), 1);
    }
}

/// Counts a refusal, and the bound that it hit, if any.
pub fn refused(refusal: &Refusal) {
    decisions(Decision::Denied, Some(Reason::from(refusal)));
    if let Some(limit) = Limit::hit_by(refusal) {
        limit_reached(limit);
    }
}

impl Limit {
    /// The bound that a refusal is due to, if it is due to one.
    #[must_use]
    pub fn hit_by(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::TooManyPending { limit, .. } if *limit == Self::MaxPending.value() => {
                Some(Self::MaxPending)
            }
            Refusal::TooManyPending { .. } => Some(Self::MaxPendingPerNamespace),
            Refusal::InvalidTtl { .. } => Some(Self::MaxTtl),
            _ => None,
        }
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Observed => Self::Observed,
            End::Committed => Self::Committed,
            End::Released => Self::Released,
            End::Expired => Self::Expired,
            End::Superseded => Self::Superseded,
        }
    }
}
