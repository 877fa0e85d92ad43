//! The types of `/v1`. JSON in camelCase; quantities and times are strings.
//!
//! Absent fields are `None`, empty or false. Unknown fields are ignored, so that older clients can read the responses
//! of newer daemons.

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
mod simulation;
mod status;
mod usage;

pub use cluster::{
    Cluster, ClusterNode, ClusterServer, HealRequest, RemoveRequest, ReplicaEnd, ReplicatedLedger,
    StateDigest, TransferRequest,
};
pub use correction::{
    Compared, ComparedQuota, Corrected, CorrectionOutcome, CorrectionRequest, CorrectionsAnswer,
    CorrectionsRequest, Difference, DriftAnswer, DriftRequest, ExpectedObject,
};
pub use denial::{Denial, DeniedObject};
pub use entry::{
    DeadLetter, Entry, EntrySubject, EventsAnswer, RejectedEvent, RelistAnswer, RelistRequest,
};
pub use explain::{Contribution, Explanation, GroupExplanation, Kind};
pub use group::{Group, GroupStatus, GroupUsage, MemberUsage};
pub use object::Object;
pub use problem::{FieldProblem, PodsVerdict, Problem, Verdict};
pub use quota::{Quota, QuotaReservation, QuotaStatus};
pub use quota_semantics::{
    Actor,
    admission::{CheckedLimit, CheckedQuota, LimitKind},
    report::{Report, ReportFigures, ReportRow},
};
pub use reason::Reason;
pub use reservation::{Holder, Reservation, ReserveRequest};
pub use simulation::{
    Identity, LimitName, RefusingLimit, SimulateRequest, SimulatedLimit, SimulatedObject,
    SimulatedRefusal, Simulation, Suggestion, Suggestions,
};
pub use status::{Caller, ClusterMember, KindWatermark, Source, Status};
pub use usage::{
    Amounts, BoundBy, Fullest, GroupUsageHistory, GroupUsagePoint, LimitPoint, Namespace,
    NamespaceCounts, NamespacePage, NamespaceUsage, QuotaPoint, QuotaUsage, ResourceUsage, Room,
    SumPoint, Total, Usage, UsageHistory, UsagePoint, UsageSummary,
};

use quota_semantics::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An entry of the ledger. `asOf` is the last one that the response includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Position")]
#[serde(default)]
pub struct AsOf {
    /// The sequence of the entry; 0: the ledger is empty.
    pub sequence: u64,
    /// The ledger time of the entry.
    pub time: Timestamp,
}

/// A Kubernetes condition: a part of an object's spec that is not in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The type of the condition.
    pub r#type: String,
    /// `True` or `False`.
    #[schemars(extend("enum" = ["True", "False"]))]
    pub status: String,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Page")]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The `continue` token of the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last entry that the page includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The schema of the state of a reservation, which is a text here: newer daemons may know more states.
fn reservation_state(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::new_ref("#/components/schemas/ReservationState".to_owned())
}

/// For boolean fields that are left out when false.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// For numbers that are left out when 0.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// For lists that are left out when empty.
const fn no_items<T>(items: &[T]) -> bool {
    items.is_empty()
}
