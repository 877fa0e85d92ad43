//! Maps terms of the ledger to label values.

use quota_core::{
    decide::Refusal,
    event::{Entry, Event},
    state::End,
};

use super::{Decision, Limit, Outcome, decisions, limit_reached, reservation_outcomes};
use crate::reason::of_refusal;

/// Counts how reservations ended, from durable entries.
pub fn recorded(entries: &[Entry]) {
    let mut counts = ENDS.map(|end| (end, 0));
    for end in entries.iter().filter_map(|entry| ended(&entry.event)) {
        let counter = counts.iter_mut().find(|(outcome, _)| *outcome == end);
        counter.into_iter().for_each(|(_, count)| *count += 1);
    }
    for (end, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        reservation_outcomes(Outcome::from(end), count);
    }
}

/// Every way in which a reservation can end.
const ENDS: [End; 6] = [
    End::Observed,
    End::Committed,
    End::Released,
    End::Expired,
    End::Superseded,
    End::Returned,
];

fn ended(event: &Event) -> Option<End> {
    match event {
        Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
            object.ends_reservation.then_some(End::Observed)
        }
        Event::ObjectCorrected(correction) => {
            let ends = correction.object.ends_reservation;
            ends.then_some(End::Observed)
        }
        Event::ObjectRefreshed {
            ends_reservation, ..
        } => ends_reservation.then_some(End::Observed),
        Event::ReservationCommitted { .. } => Some(End::Committed),
        Event::ReservationReturned { .. } => Some(End::Returned),
        Event::ReservationReleased { .. } => Some(End::Released),
        Event::ReservationExpired { .. } => Some(End::Expired),
        Event::ReservationSuperseded { .. } => Some(End::Superseded),
        _ => None,
    }
}

/// Counts a refusal, and the limit that it hit, if any.
pub fn refused(refusal: &Refusal) {
    decisions(Decision::Denied, Some(of_refusal(refusal)));
    if let Some(limit) = Limit::hit_by(refusal) {
        limit_reached(limit);
    }
}

impl Limit {
    /// The limit that caused a refusal, if any.
    #[must_use]
    pub fn hit_by(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::TooManyPending { limit, .. } | Refusal::LimitReached { limit, .. } => {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|limited| limited.value() == *limit)
            }
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
            End::Returned => Self::Returned,
        }
    }
}
