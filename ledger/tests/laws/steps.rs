//! Random histories.

use proptest::prelude::*;

/// Something that happens; small numbers, so that things meet.
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
        ttl: i64,
    },
    Update {
        namespace: u8,
        uid: u8,
        amount: u64,
        terminating: bool,
        version: u64,
    },
    /// An API server is about to create (no version) or change a pod.
    Admit {
        namespace: u8,
        uid: u8,
        name: u8,
        amount: u64,
        version: Option<u64>,
        /// The workload that is to pay for the pod.
        payer: Option<u8>,
        holds: bool,
    },
    /// An API server is about to create or scale a workload that is charged.
    AdmitWorkload {
        namespace: u8,
        uid: u8,
        amount: u64,
        replicas: u64,
        scales: bool,
    },
    /// A workload that is charged is seen.
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
    /// The clock moves, back too; the sources may be behind it.
    Pass {
        seconds: i64,
        behind: i64,
    },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..60)
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = 0..2_u8;
    let uid = 0..6_u8;
    prop_oneof![
        2 => (namespace.clone(), 0..3_u8, 0..12_u64, 0..4_u8)
            .prop_map(|(namespace, quota, hard, scope)| Step::SetQuota { namespace, quota, hard, scope }),
        1 => (namespace.clone(), 0..3_u8).prop_map(|(namespace, quota)| Step::DeleteQuota { namespace, quota }),
        6 => (namespace.clone(), uid.clone(), prop::option::of(0..3_u8), 0..5_u64, any::<bool>(), 1..90_i64)
            .prop_map(|(namespace, uid, name, amount, pod, ttl)| Step::Reserve { namespace, uid, name, amount, pod, ttl }),
        3 => (namespace.clone(), uid.clone(), 0..6_u64, any::<bool>(), 0..5_u64)
            .prop_map(|(namespace, uid, amount, terminating, version)| Step::Update { namespace, uid, amount, terminating, version }),
        5 => (namespace.clone(), uid.clone(), 0..6_u8, 0..5_u64, prop::option::of(0..5_u64), prop::option::of(10..13_u8), prop::bool::weighted(0.8))
            .prop_map(|(namespace, uid, name, amount, version, payer, holds)|
                Step::Admit { namespace, uid, name, amount, version, payer, holds }),
        3 => (namespace.clone(), 10..13_u8, 0..4_u64, 0..5_u64, any::<bool>())
            .prop_map(|(namespace, uid, amount, replicas, scales)|
                Step::AdmitWorkload { namespace, uid, amount, replicas, scales }),
        2 => (namespace.clone(), 10..13_u8, 0..4_u64, 0..5_u64, 0..6_u64)
            .prop_map(|(namespace, uid, amount, replicas, version)|
                Step::ObserveWorkload { namespace, uid, amount, replicas, version }),
        2 => (namespace.clone(), uid.clone()).prop_map(|(namespace, uid)| Step::Release { namespace, uid }),
        1 => (namespace.clone(), uid.clone(), 1..90_i64).prop_map(|(namespace, uid, ttl)| Step::Extend { namespace, uid, ttl }),
        2 => (namespace.clone(), uid.clone(), prop::option::of(0..5_u64))
            .prop_map(|(namespace, uid, amount)| Step::Commit { namespace, uid, amount }),
        6 => (namespace.clone(), uid.clone(), 0..6_u64, 0..5_u64, any::<bool>(), any::<bool>(), prop::option::of(-60..60_i64))
            .prop_map(|(namespace, uid, version, amount, pod, terminating, lapse)|
                Step::Observe { namespace, uid, version, amount, pod, terminating, lapse }),
        1 => (namespace.clone(), 0..3_u8, 20..23_u8, 0..6_u64, 0..12_u64)
            .prop_map(|(namespace, quota, uid, version, hard)| Step::Adopt { namespace, quota, uid, version, hard }),
        2 => (namespace, 0..13_u8).prop_map(|(namespace, uid)| Step::Delete { namespace, uid }),
        3 => (-20..60_i64, 0..100_i64).prop_map(|(seconds, behind)| Step::Pass { seconds, behind }),
    ]
}
