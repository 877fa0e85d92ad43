//! Random histories.

use proptest::prelude::*;
use quota_testkit::histories::{listings::Listing, steps::Step};

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
        6 => (namespace.clone(), uid.clone(), prop::option::of(0..3_u8), 0..5_u64, any::<bool>(), prop::bool::weighted(0.3), 1..90_i64)
            .prop_map(|(namespace, uid, name, amount, pod, replica, ttl)|
                Step::Reserve { namespace, uid, name, amount, pod, replica, ttl }),
        3 => (namespace.clone(), uid.clone(), 0..6_u64, any::<bool>(), prop::bool::weighted(0.3), 0..5_u64)
            .prop_map(|(namespace, uid, amount, terminating, replica, version)|
                Step::Update { namespace, uid, amount, terminating, replica, version }),
        5 => (namespace.clone(), uid.clone(), 0..6_u8, 0..5_u64, prop::option::of(0..5_u64), any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(namespace, uid, name, amount, version, replica, holds)|
                Step::Admit { namespace, uid, name, amount, version, replica, holds }),
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
        6 => (namespace.clone(), uid.clone(), 0..6_u64, 0..5_u64, any::<bool>(), prop::bool::weighted(0.4), any::<bool>(), prop::option::of(-60..60_i64))
            .prop_map(|(namespace, uid, version, amount, pod, replica, terminating, lapse)|
                Step::Observe { namespace, uid, version, amount, pod, replica, terminating, lapse }),
        1 => (namespace.clone(), 0..3_u8, 20..23_u8, 0..6_u64, 0..12_u64)
            .prop_map(|(namespace, quota, uid, version, hard)| Step::Adopt { namespace, quota, uid, version, hard }),
        2 => (namespace, 0..13_u8).prop_map(|(namespace, uid)| Step::Delete { namespace, uid }),
        4 => (0..5_u8, 0..6_u8, prop::option::of(0..5_u8), 0..20_u64, 0..8_u64, 0..6_u8, prop::option::weighted(0.2, (0..20_u64, -5..90_i64)), prop::option::weighted(0.4, 0..6_u64))
            .prop_map(|(group, selector, parent, hard, guaranteed, scope, limits, shown)|
                Step::SetGroup { group, selector, parent, hard, guaranteed, scope, limits, shown }),
        1 => (0..5_u8).prop_map(|group| Step::DeleteGroup { group }),
        3 => (0..2_u8, 30..33_u8, 0..6_u64, 0..3_u8, prop::bool::weighted(0.2))
            .prop_map(|(namespace, uid, version, label, gone)| Step::Namespace { namespace, uid, version, label, gone }),
        1 => any::<bool>().prop_map(|charges| Step::Charge { charges }),
        8 => listing().prop_map(Step::Listing),
        3 => (-20..60_i64, 0..100_i64).prop_map(|(seconds, behind)| Step::Pass { seconds, behind }),
    ]
}

fn listing() -> impl Strategy<Value = Listing> {
    let space = || prop::option::of(0..2_u8);
    prop_oneof![
        3 => (0..4_u8, space()).prop_map(|(kind, namespace)| Listing::Begin { kind, namespace }),
        4 => (0..13_u8).prop_map(|uid| Listing::List { uid }),
        2 => (0..2_u8, 30..33_u8).prop_map(|(namespace, uid)| Listing::ListNamespace { namespace, uid }),
        2 => (0..5_u8).prop_map(|group| Listing::ListGroup { group }),
        3 => (0..4_u8, space(), any::<bool>(), any::<bool>(), 0..5_u64)
            .prop_map(|(kind, namespace, allow_empty, bookmark, version)|
                Listing::Finish { kind, namespace, allow_empty, bookmark, version }),
        3 => (0..8_u32, 0..8_u32).prop_map(|(from, most)| Listing::Sweep { from, most }),
        1 => Just(Listing::Over),
        1 => Just(Listing::Gap),
        3 => (0..13_u8, 0..5_u64, 0..6_u64, any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(uid, amount, version, gone, seen)| Listing::Repair { uid, amount, version, gone, seen }),
    ]
}
