//! The state as its readers see it: plain copies, free of the tables behind.

use std::sync::Arc;

use serde::Serialize;

use super::tracked::End;
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
    /// What observed objects count for. Absent if no object can ever count for this name, as in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// What pending reservations hold beside that.
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
    /// The pending reservations that hold something of it, and how much.
    pub holds: Vec<(Arc<Reservation>, ResourceList)>,
    /// How many more pending reservations the namespace has: they are too many to list.
    pub holds_omitted: usize,
}

/// The sums of a namespace, whatever its quotas.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// What observed objects count for.
    pub used: ResourceList,
    /// What pending reservations hold beside that.
    pub reserved: ResourceList,
}

/// An object that is alive.
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
    /// The entry that last changed what it counts for.
    pub entry: Sequence,
    /// When it ceases to count without an event.
    pub lapse: Option<Timestamp>,
    /// What it counts for.
    pub footprint: Arc<Footprint>,
}

/// A reservation and what became of it.
#[derive(Clone, Debug)]
pub struct ReservationView {
    /// The reservation as granted.
    pub reservation: Arc<Reservation>,
    /// What it holds now, or held: the growth over what its object already counts for.
    pub held: ResourceList,
    /// The principal that made it; empty: unknown.
    pub owner: Name,
    /// The entry that granted it.
    pub entry: Sequence,
    /// How and when it ended; none: it is pending.
    pub end: Option<(End, Timestamp)>,
    /// What it counts for as used, while it is committed and no source has reported its object.
    pub committed: Option<Arc<Footprint>>,
    /// The object that bore its name when it was granted, and beside which it is counted.
    pub bearer: Option<Uid>,
}

/// A reservation and how it ended, without what it holds.
#[derive(Clone, Debug)]
pub struct ReservationStatus {
    /// The reservation as granted.
    pub reservation: Arc<Reservation>,
    /// How and when it ended; none: it is pending.
    pub end: Option<(End, Timestamp)>,
    /// What holds what it claims; none: it claims nothing any more.
    pub holding: Option<Holding>,
}

/// The limits that hold what a reservation claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Quotas of its namespace, by name.
    pub quotas: Vec<Name>,
    /// Groups, nearest first.
    pub groups: Vec<Name>,
    /// Resources that it claims and that none of them limits, by name.
    pub unlimited: Vec<Name>,
}

/// Where a page of objects ended: resource, name, uid.
pub type ObjectKey = (Name, Box<str>, Uid);
