//! The steps of histories.

use crate::histories::listings::Listing;

/// A step. Numbers are small, so that steps collide.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are numbers of what their names say")]
pub enum Step {
    /// A quota is set.
    SetQuota { namespace: u8, quota: u8, hard: u64, scope: u8 },
    /// A quota is deleted.
    DeleteQuota { namespace: u8, quota: u8 },
    /// Somebody reserves an amount.
    Reserve {
        namespace: u8,
        uid: u8,
        name: Option<u8>,
        amount: u64,
        pod: bool,
        replica: bool,
        ttl: i64,
    },
    /// Somebody reserves what an existing object grows by.
    Update { namespace: u8, uid: u8, amount: u64, terminating: bool, replica: bool, version: u64 },
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
    AdmitWorkload { namespace: u8, uid: u8, amount: u64, replicas: u64, scales: bool },
    /// Workloads become charged for their pods, or cease to be.
    Charge { charges: bool },
    /// A charged workload is observed.
    ObserveWorkload { namespace: u8, uid: u8, amount: u64, replicas: u64, version: u64 },
    /// A reservation is released.
    Release { namespace: u8, uid: u8 },
    /// A reservation is given a later end.
    Extend { namespace: u8, uid: u8, ttl: i64 },
    /// A reservation is committed, with its own amount or another one.
    Commit { namespace: u8, uid: u8, amount: Option<u64> },
    /// An object is observed.
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
    /// A quota of the cluster is observed.
    Adopt { namespace: u8, quota: u8, uid: u8, version: u64, hard: u64 },
    /// The deletion of an object is observed.
    Delete { namespace: u8, uid: u8 },
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
    /// A group is deleted.
    DeleteGroup { group: u8 },
    /// A namespace is observed with some labels, or is deleted.
    Namespace { namespace: u8, uid: u8, version: u64, label: u8, gone: bool },
    /// A relist continues, or a record is corrected.
    Listing(Listing),
    /// The clock moves, also back; the sources may be behind it.
    Pass { seconds: i64, behind: i64 },
}
