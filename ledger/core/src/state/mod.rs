//! The state: the fold of all entries up to a sequence.
//!
//! Sums are maintained with every entry, so that the cost of a grant grows with the number of quotas, not of objects.
//! Every table is deterministic: equal entries give an equal state, byte for byte.

mod apply;
mod charging;
mod counted;
mod deleted;
mod explain;
mod group_path;
mod groups;
mod image;
mod label;
mod levels;
mod limit_sums;
mod listable;
mod name_holders;
mod namespaces;
mod objects;
mod objects_view;
mod observed;
mod other_limits;
mod overlay;
mod override_ends;
mod places;
mod pool;
mod progress;
mod query;
mod quotas_view;
mod relist_view;
mod relists;
mod reservations;
mod reservations_view;
mod ring;
mod room;
mod slab;
mod sums;
#[cfg(test)]
mod tests;
mod tracked_reservation;
mod unlimited;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use apply::lapsed_footprint;
pub use explain::{Claimed, GroupPartKey, GroupPartsView, Holder, Part, PartKey, PartsView};
pub use groups::{CopiedGroup, GroupFigure, GroupView, MemberView, MembersView};
pub use image::{Image, ImageError};
pub use namespaces::ObservedNamespace;
pub use objects_view::ObjectsView;
pub use progress::WatermarkView;
pub use quotas_view::{CopiedQuota, QuotasView};
pub use relist_view::RelistView;
pub use reservations_view::{ReservationsPage, ReservationsView};
pub use room::{LimitView, LimitsView, Room, room};
pub use tracked_reservation::{End, ReservationPlace, ReservationState};
pub use view::{
    Figure, Holding, ObjectKey, ObjectView, QuotaView, ReservationStatus, ReservationView, Totals,
};

pub(crate) use counted::Counted;
pub(crate) use levels::{ClaimPart, ObjectPart, SumsOf};
pub(crate) use limit_sums::LimitNow;
pub(crate) use listable::{Listable, RelistTarget, TARGET_OF_GROUPS, target_of_namespace};
pub(crate) use overlay::{Overlay, Pending};
pub(crate) use quota_semantics::{object::REQUESTS_PREFIX as REQUESTS, quota::is_count};
pub(crate) use reservations::Expiry;
pub(crate) use tracked_reservation::{Target, Tracked};
pub(crate) use unlimited::{holding, limited, unlimited};

use crate::event::{Cursor, Sequence};
use groups::Groups;
use name_holders::NameHolders;
use namespaces::Namespaces;
use objects::Objects;
use observed::NamespaceUids;
use other_limits::Others;
use override_ends::Deadlines;
use pool::Pool;
use progress::Progress;
use quota_semantics::{Name, Timestamp, object::Footprint};
use relists::Relists;
use reservations::Reservations;

/// Most dead letters that are listed; older ones are still entries of the ledger. Part of the fold, and so of the
/// format.
pub const DEAD_LETTERS_MAX: usize = 10_000;

/// The result of all entries up to a sequence.
#[derive(Clone, Debug, Default)]
pub struct State {
    head: Head,
    namespaces: Namespaces,
    /// The kinds of objects: `pods`, `deployments.apps`, …
    resources: Pool<Name>,
    footprints: Pool<Footprint>,
    objects: Objects,
    reservations: Reservations,
    bearers: NameHolders,
    sources: BTreeMap<Name, Cursor>,
    dead_letters: VecDeque<Sequence>,
    relists: Relists,
    progress: Progress,
    charging: BTreeSet<Name>,
    /// The keys of recorded labels of objects, for the selectors of groups.
    object_labels: BTreeSet<Name>,
    namespace_uids: NamespaceUids,
    groups: Groups,
    deadlines: Deadlines,
    others: Others,
}

/// The last entry in the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its ledger time.
    pub time: Timestamp,
}
