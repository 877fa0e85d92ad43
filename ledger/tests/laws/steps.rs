//! The steps of histories.

use super::listings::Listing;

/// A step. Numbers are small, so that steps collide.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    SetQuota {
        namespace: u8,
        quota: u8,
        hard: u64,
        scope: u8,
    },
    DeleteQuota {
        namespace: u8,
        quota: u8,
    },
    Reserve {
        namespace: u8,
        uid: u8,
        name: Option<u8>,
        amount: u64,
        pod: bool,
        replica: bool,
        ttl: i64,
    },
    Update {
        namespace: u8,
        uid: u8,
        amount: u64,
        terminating: bool,
        replica: bool,
        version: u64,
    },
    /// An API server is about to create (no version) or change a pod.
    Admit {
        namespace: u8,
        uid: u8,
        name: u8,
        amount: u64,
        version: Option<u64>,
        /// Whether the pod names a charged workload as its owner.
        replica: bool,
        holds: bool,
    },
    /// An API server is about to create or scale a charged workload.
    AdmitWorkload {
        namespace: u8,
        uid: u8,
        amount: u64,
        replicas: u64,
        scales: bool,
    },
    /// Workloads become charged for their pods, or cease to be.
    Charge {
        charges: bool,
    },
    /// A charged workload is observed.
    ObserveWorkload {
        namespace: u8,
        uid: u8,
        amount: u64,
        replicas: u64,
        version: u64,
    },
    Release {
        namespace: u8,
        uid: u8,
    },
    Extend {
        namespace: u8,
        uid: u8,
        ttl: i64,
    },
    Commit {
        namespace: u8,
        uid: u8,
        amount: Option<u64>,
    },
    Observe {
        namespace: u8,
        uid: u8,
        version: u64,
        amount: u64,
        pod: bool,
        replica: bool,
        terminating: bool,
        lapse: Option<i64>,
    },
    Adopt {
        namespace: u8,
        quota: u8,
        uid: u8,
        version: u64,
        hard: u64,
    },
    Delete {
        namespace: u8,
        uid: u8,
    },
    /// A group is set; `selector` chooses its namespaces, `parent` its parent.
    SetGroup {
        group: u8,
        selector: u8,
        parent: Option<u8>,
        hard: u64,
        guaranteed: u64,
        scope: u8,
        /// An override of the limit, for this many seconds.
        limits: Option<(u64, i64)>,
        /// A source reports it in this version.
        shown: Option<u64>,
    },
    DeleteGroup {
        group: u8,
    },
    /// A namespace is observed with some labels, or is deleted.
    Namespace {
        namespace: u8,
        uid: u8,
        version: u64,
        label: u8,
        gone: bool,
    },
    /// A relist continues, or a record is corrected.
    Listing(Listing),
    /// The clock moves, also back; the sources may be behind it.
    Pass {
        seconds: i64,
        behind: i64,
    },
}
