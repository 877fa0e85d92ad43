//! Types of `/v1`, one for each thing. JSON in camelCase; quantities and times are strings.
//!
//! Fields that are absent on the wire are `None`, empty or false here. Unknown fields are ignored, so that an older
//! caller reads a newer daemon.

mod cluster;
mod correction;
mod denial;
mod entry;
mod explain;
mod group;
mod object;
mod problem;
mod quota;
mod reason;
mod reservation;
mod status;
mod usage;

pub use cluster::{
    Cluster, ClusterNode, HealRequest, RemoveRequest, ReplicaEnd, ReplicatedLedger, StateDigest,
    TransferRequest,
};
pub use correction::{
    Compared, ComparedQuota, Corrected, CorrectionOutcome, CorrectionRequest, CorrectionsAnswer,
    CorrectionsRequest, Difference, DriftAnswer, DriftRequest, ExpectedObject,
};
pub use denial::{Denial, DeniedObject};
pub use entry::{DeadLetter, Entry, EventsAnswer, RejectedEvent, RelistAnswer, RelistRequest};
pub use explain::{Contribution, Explanation, Kind};
pub use group::{Group, GroupStatus, GroupUsage, MemberUsage};
pub use object::Object;
pub use problem::{FieldProblem, Problem, QuotaCheck, ResourceCheck, Verdict};
pub use quota::{Quota, QuotaReservation, QuotaStatus};
pub use quota_semantics::Actor;
pub use reason::Reason;
pub use reservation::{Holder, Reservation, ReserveRequest};
pub use status::{Caller, ClusterMember, KindWatermark, Source, Status};
pub use usage::{
    Fullest, NamespaceUsage, QuotaUsage, ResourceUsage, Total, Usage, UsageHistory, UsagePoint,
};

use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};

/// How far the ledger was when it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AsOf {
    /// The last entry.
    pub sequence: u64,
    /// Ledger time at it.
    pub time: Timestamp,
}

/// Something about an object that is not as its spec has it, as Kubernetes writes conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What it is about.
    pub r#type: String,
    /// `True` or `False`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// What to ask with for the next page; none: this is the last one.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How far the ledger was.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// For fields that are written only when they are true.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// For numbers that are written only when they are not 0.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}
