//! Turns commands into events. Pure: the inputs are the state, the request and the time; the output is a list of
//! events, or a refusal.
//!
//! A decision is made once, by the single writer, and becomes entries. Readers and replays only apply the entries.

mod admit;
mod adopted_group;
mod awaited_versions;
mod bounds;
mod case;
mod charging;
mod correct;
mod decision;
mod expiry;
mod explain;
mod group;
mod lifecycle;
mod name_conflicts;
mod namespaces;
mod notice;
mod observe;
mod past_request;
mod quota;
mod refusal;
mod relist;
mod request;
mod requester;
mod reserve;
mod room;
mod unlimited;
mod watermark;

pub use admit::{Measure, Review, admit, is_unlimited};
pub(crate) use bounds::RELISTS_MAX;
pub use bounds::{Bounds, bound_ended};
pub use charging::{is_charging, set_charging, set_object_labels};
pub use correct::{ComparedRecord, Comparison, Repair, Repaired, compare, repair};
pub use decision::Decision;
pub use expiry::{Consumed, ExpiryCursor, due, due_after, held_too_long};
pub use group::{GroupBounds, GroupChange, delete_group, set_group};
pub use lifecycle::{commit, extend, fail, is_reserved, release, revocable};
pub use observe::{
    Adopted, Sighting, Verdict, advance, gap, is_former, observe, reject, replace, reset,
    was_consumed_before,
};
pub(crate) use past_request::{Deciding, Need, Past, PastRequest, refused_by};
pub use quota::{
    Precondition, QuotaChange, belongs_to_source, delete_quota, is_adopted, set_quota,
    unless_adopted,
};
pub use refusal::{Audience, Denied, Notice, Refusal};
pub use relist::{Finish, Relist, begin_relist, close_relist, end_relist, end_unlisted, listed};
pub use request::{Basis, Request};
pub use requester::Requester;
pub use reserve::{Checked, amounts_to_check, check, reserve, reserve_all};
pub use room::{Fitting, fitting};
pub use unlimited::{Unlimited, warning_of_unlimited};
pub use watermark::Bookmark;
pub(crate) use watermark::advance_watermarks;

use quota_semantics::{Span, quota::LimitedResource};

/// The most amounts of quotas that all denials of one answer show together.
const SHOWN_BY_ALL: usize = 8192;

/// The fewest amounts that each denial may show.
const SHOWN_MIN: usize = 8;

/// The operator's settings for all decisions.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How long a reservation is held if the request does not say.
    pub default_ttl: Span,
    /// The longest time to live that a request may have.
    pub max_ttl: Span,
    /// How long a reservation is kept at most after its expiration while the sources are behind.
    pub max_hold: Span,
    /// Most pending reservations.
    pub max_pending: usize,
    /// Most pending reservations of one namespace, so that no tenant uses up the room of all.
    pub max_pending_per_namespace: usize,
    /// Most pending reservations that one principal has requested. This does not limit the webhook, which makes
    /// reservations for all users.
    pub max_pending_per_principal: usize,
    /// Bounds on requests.
    pub bounds: Bounds,
    /// Most amounts that are examined to find the time when there will be room for one denied request.
    pub search_max: usize,
    /// Most amounts of quotas that one denial shows, unless one quota alone has more.
    pub shown_max: usize,
    /// Resources that may be used only where a quota covers them.
    pub limited: Vec<LimitedResource>,
    /// How requests for resources that nothing limits are decided.
    pub unlimited: Unlimited,
    /// Whether quotas that sources report are adopted. Adopted quotas are changed in the cluster.
    pub adopts_quotas: bool,
    /// Bounds on groups.
    pub groups: GroupBounds,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            default_ttl: Span::from_seconds(30),
            max_ttl: Span::from_seconds(600),
            max_hold: Span::from_seconds(3600),
            max_pending: 100_000,
            max_pending_per_namespace: 20_000,
            max_pending_per_principal: 20_000,
            bounds: Bounds::default(),
            search_max: 1 << 15,
            shown_max: explain::LIMITS_MAX,
            limited: Vec::new(),
            unlimited: Unlimited::default(),
            adopts_quotas: false,
            groups: GroupBounds::default(),
        }
    }
}

impl Policy {
    /// The policy for each of this many requests in one call: they share the work of one search, and the number of
    /// amounts shown in denials.
    #[must_use]
    pub fn shared_by(&self, requests: usize) -> Self {
        Self {
            search_max: self.search_max / requests.max(1),
            shown_max: (SHOWN_BY_ALL / requests.max(1)).max(SHOWN_MIN).min(self.shown_max),
            ..self.clone()
        }
    }
}
