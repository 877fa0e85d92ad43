//! A reservation and its state.

use std::sync::Arc;

use super::namespaces::Claim;
use crate::{
    codec::{record, variants},
    event::{Reservation, Sequence},
    size,
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

/// The state of a reservation, as the API names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationState {
    /// The reservation holds its amounts.
    #[default]
    Pending,
    /// Its object counts instead.
    Observed,
    /// The holder committed it.
    Committed,
    /// The holder released it, or a newer one superseded it.
    Released,
    /// It expired.
    Expired,
}

impl ReservationState {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Observed => "observed",
            Self::Committed => "committed",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }
}

/// The last place of a page of reservations: the entry that granted or ended the last one, and its place in the state.
pub type ReservationPlace = (Sequence, u32);

/// How a reservation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Its object was observed, or was deleted before it was ever observed.
    Observed,
    /// The holder committed it.
    Committed,
    /// The holder released it.
    Released,
    /// It expired.
    Expired,
    /// A newer reservation for the same name superseded it, or an object of that name was observed.
    Superseded,
    /// The holder returned a commit.
    Returned,
}

impl End {
    /// The state of a reservation that ended in this way.
    #[must_use]
    pub const fn state(self) -> ReservationState {
        match self {
            Self::Observed => ReservationState::Observed,
            Self::Committed => ReservationState::Committed,
            Self::Released | Self::Superseded | Self::Returned => ReservationState::Released,
            Self::Expired => ReservationState::Expired,
        }
    }

    /// Its name on the wire: a past participle.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Committed => "committed",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Returned => "returned",
        }
    }

    /// Whether the reservation came to nothing: its amounts are neither reserved nor used any more.
    #[must_use]
    pub const fn is_void(self) -> bool {
        match self {
            Self::Observed | Self::Committed => false,
            Self::Released | Self::Expired | Self::Superseded | Self::Returned => true,
        }
    }
}

/// A reservation and its state.
#[derive(Clone, Debug)]
pub(crate) struct Tracked {
    pub(crate) reservation: Arc<Reservation>,
    /// The entry that granted it.
    pub(crate) entry: Sequence,
    pub(crate) ended: Option<Ended>,
    /// The principal that made it.
    pub(crate) owner: Name,
    /// The committed footprint, until the object is observed or the holder returns it.
    pub(crate) committed: Option<Arc<Footprint>>,
    /// The size of the reservation.
    pub(crate) bytes: usize,
}

impl Tracked {
    /// A pending reservation.
    pub(crate) fn pending(reservation: Arc<Reservation>, owner: Name, entry: Sequence) -> Self {
        let bytes = size::of_reservation(&reservation);
        Self { reservation, entry, ended: None, owner, committed: None, bytes }
    }

    /// Computes the size again after the reservation has changed.
    pub(crate) fn measure(&mut self) {
        self.bytes = size::of_reservation(&self.reservation);
    }

    /// What it counts as against the bounds on the number of pending ones.
    pub(crate) fn count(&self) -> usize {
        size::count_of_bytes(self.bytes)
    }

    pub(crate) fn is(&self, namespace: &str, uid: &Uid) -> bool {
        self.reservation.uid == *uid && self.reservation.namespace == *namespace
    }

    /// The kind and the footprint of its claim, if it claims anything.
    pub(crate) fn claim(&self) -> Option<(Claim, &Footprint)> {
        match (&self.committed, &self.ended) {
            (Some(committed), _) => Some((Claim::Committed, committed)),
            (None, None) => Some((Claim::Pending, &self.reservation.footprint)),
            (None, Some(_)) => None,
        }
    }

    /// The entry that ended it, if it is remembered only for repeated requests.
    pub(crate) fn remembered_end(&self) -> Option<Sequence> {
        let ended = self.ended.as_ref();
        ended.filter(|_| self.committed.is_none()).map(|ended| ended.entry)
    }

    /// How and when it ended.
    pub(crate) fn end(&self) -> Option<(End, Timestamp)> {
        let ended = self.ended.as_ref()?;
        Some((ended.how, ended.time))
    }
}

/// The end of a reservation.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) how: End,
    pub(crate) time: Timestamp,
    pub(crate) entry: Sequence,
}

variants!(End { 0 => Observed, 1 => Committed, 2 => Released, 3 => Expired, 4 => Superseded, 5 => Returned });
record!(Ended { how, time, entry });
record!(Tracked { reservation, entry, owner, ended, committed } without { bytes });

/// The target of a pending reservation. A newer reservation for the same target supersedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// None, if the name is unknown.
    pub(crate) fn of(reservation: &'a Reservation) -> Option<Self> {
        let Reservation { namespace, resource, name, .. } = reservation;
        (!name.is_empty()).then_some(Self { namespace, resource, name })
    }
}
