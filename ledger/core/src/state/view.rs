//! The state for readers: plain copies, independent of the internal tables.

use std::sync::Arc;

use serde::Serialize;

use super::tracked_reservation::End;
use crate::event::{QuotaRecord, Reservation, Sequence};
use quota_semantics::{
    Name, Timestamp, object::Footprint, quantity::Quantity, resource::ResourceList, uid::Uid,
};

/// One limited resource of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    /// The resource's name.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects. Absent if no object can ever count for this name, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// The amount that pending reservations hold beyond that.
    pub reserved: Quantity,
}

/// A quota and its numbers.
#[derive(Clone, Debug)]
pub struct QuotaView {
    /// The quota as it was set.
    pub record: Arc<QuotaRecord>,
    /// The entry that set it: its resourceVersion.
    pub entry: Sequence,
    /// One per limit, by name.
    pub figures: Vec<Figure>,
    /// The pending reservations that hold any of it, and the amounts.
    pub holds: Vec<(Arc<Reservation>, ResourceList)>,
    /// The number of pending reservations of the namespace that are left out.
    pub holds_omitted: usize,
}

/// The sums of a namespace, independent of its quotas.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The amounts of observed objects.
    pub used: ResourceList,
    /// The amounts that pending reservations hold beyond that.
    pub reserved: ResourceList,
}

/// A live object.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// Its identity.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its resource and group.
    pub resource: Name,
    /// Its name.
    pub name: Box<str>,
    /// Its version; 0: unknown.
    pub version: u64,
    /// The entry that last changed its footprint.
    pub entry: Sequence,
    /// When it ceases to count without an event.
    pub lapse: Option<Timestamp>,
    /// Its footprint.
    pub footprint: Arc<Footprint>,
}

/// A reservation and its state.
#[derive(Clone, Debug)]
pub struct ReservationView {
    /// The reservation as granted.
    pub reservation: Arc<Reservation>,
    /// The amounts that it holds, or held: the growth over those of its object.
    pub held: ResourceList,
    /// The principal that made it; empty: unknown.
    pub owner: Name,
    /// The entry that granted it.
    pub entry: Sequence,
    /// How and when it ended; none: it is pending.
    pub end: Option<(End, Timestamp)>,
    /// The footprint that counts as used, while it is committed and no source has reported its object.
    pub committed: Option<Arc<Footprint>>,
    /// The object that bore its name when it was granted; only the excess over that object counts.
    pub bearer: Option<Uid>,
}

/// A reservation and its end, without the held amounts.
#[derive(Clone, Debug)]
pub struct ReservationStatus {
    /// The reservation as granted.
    pub reservation: Arc<Reservation>,
    /// How and when it ended; none: it is pending.
    pub end: Option<(End, Timestamp)>,
    /// The limits that apply to its claim; none: it claims nothing any more.
    pub holding: Option<Holding>,
}

/// The limits that apply to the claim of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Quotas of its namespace, by name.
    pub quotas: Vec<Name>,
    /// Groups, nearest first.
    pub groups: Vec<Name>,
    /// Claimed resources that none of them limits, by name.
    pub unlimited: Vec<Name>,
}

/// The last place of a page of objects: resource, name, uid.
pub type ObjectKey = (Name, Box<str>, Uid);
