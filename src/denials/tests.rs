use std::{sync::Arc, time::Duration};

use quota_client::wire;
use quota_core::{
    decide::{Basis, Denied, Refusal, Request},
    event::Actor,
    state::Head,
};
use quota_semantics::{
    Span, Timestamp,
    admission::{CheckedLimit, CheckedQuota, Denial, LimitKind},
    object::Footprint,
    uid::Uid,
};

use super::{Bounds, COUNTED_MAX, Counts, DenialLog, Query, place};

fn request(namespace: &str, uid: &str) -> Request {
    let mut footprint = Footprint::default();
    footprint.resources.insert("pods".into(), "2".parse().unwrap());
    Request {
        uid: Uid::new(uid).unwrap(),
        namespace: namespace.into(),
        resource: "pods".parse().unwrap(),
        name: "web".into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        basis: Basis::Create,
        subresource: "".into(),
        footprint: footprint.into(),
        before: None,
        object: None,
        ttl: None,
    }
}

/// A denial of a principal's request in a namespace by a limit.
fn denial_of(principal: &str, namespace: &str, quota: &str, kind: LimitKind) -> wire::Denial {
    let (request, head) = (request(namespace, "u"), Head::default());
    let mut denial = super::new(&Actor::named(principal), &request, &refusal(), head).unwrap();
    denial.quotas[0].name = quota.into();
    denial.quotas[0].kind = kind;
    denial
}

fn refusal() -> Refusal {
    let looked = |resource: &str, requested: &str| CheckedLimit {
        guaranteed_to_others: None,
        soft: None,
        resource: resource.into(),
        hard: "1".parse().unwrap(),
        used: "1".parse().unwrap(),
        reserved: "0".parse().unwrap(),
        requested: requested.parse().unwrap(),
    };
    let denial = Denial::InsufficientQuota { names: vec!["pods".into()] };
    Refusal::Denied(Box::new(Denied {
        detail: denial.to_string(),
        reserved: None,
        denial,
        quotas: vec![
            CheckedQuota {
                kind: LimitKind::ResourceQuota,
                name: "compute".into(),
                resources: vec![looked("pods", "2"), looked("services", "0")],
            },
            CheckedQuota {
                kind: LimitKind::ResourceQuota,
                name: "other".into(),
                resources: vec![looked("services", "0")],
            },
        ],
        quotas_omitted: 0,
        retry_after: None,
        fits_when_empty: false,
    }))
}

fn noted(namespace: &str, uid: &str) -> wire::Denial {
    noted_of("alice", namespace, uid)
}

fn noted_of(principal: &str, namespace: &str, uid: &str) -> wire::Denial {
    let head = Head { sequence: 7, time: Timestamp::EPOCH };
    super::new(&Actor::named(principal), &request(namespace, uid), &refusal(), head).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(seconds))
}

const BOUNDS: Bounds = Bounds { records: 3, bytes: usize::MAX, age: Duration::from_secs(100) };

fn ids(log: &DenialLog, namespace: Option<&str>, before: Option<u64>) -> Vec<u64> {
    let namespace = namespace.map(Into::into);
    let query = Query { reader: crate::auth::Reader::default(), namespace, before, limit: 2 };
    log.store.list(&query).into_iter().map(|kept| kept.id).collect()
}

#[test]
fn a_record_says_who_asked_what_and_the_numbers_that_stood_against_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = DenialLog::open(&directory.path().join("denials"), BOUNDS, at(0)).unwrap();
    log.keep(&noted("team-a", "u1"), at(5));
    let kept = log.store.list(&Query { limit: 9, ..Query::default() }).remove(0);
    let record: serde_json::Value = serde_json::from_str(kept.json.get()).unwrap();
    assert_eq!(
        record,
        serde_json::json!({
            "id": 1, "time": at(5), "namespace": "team-a",
            "actor": {"principal": "alice"},
            "object": {"uid": "u1", "resource": "pods", "name": "web", "requested": {"pods": "2"}},
            "reason": "InsufficientQuota",
            "detail": "insufficient quota to consume: pods",
            "quotas": [{"name": "compute", "kind": "ResourceQuota", "resources": [
                {"resource": "pods", "hard": "1", "used": "1", "reserved": "0", "requested": "2"},
            ]}],
            "fitsWhenEmpty": false,
            "asOf": {"sequence": 7, "time": Timestamp::EPOCH},
        })
    );
}

#[test]
fn the_latest_are_kept_as_long_as_they_are_young() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kept").join("denials.ndjson");
    let mut log = DenialLog::open(&path, BOUNDS, at(0)).unwrap();
    for (second, namespace) in [(1, "a"), (2, "b"), (50, "a"), (60, "b")] {
        log.keep(&noted(namespace, "u"), at(second));
    }
    assert_eq!(ids(&log, None, None), [4, 3]);
    assert_eq!(ids(&log, None, Some(3)), [2]);
    assert_eq!(ids(&log, Some("a"), None), [3]);
    drop(log);
    let mut log = DenialLog::open(&path, BOUNDS, at(155)).unwrap();
    assert_eq!(ids(&log, None, None), [4], "a restart forgets what has become too old");
    log.keep(&noted("a", "u"), at(156));
    assert_eq!(ids(&log, None, None), [5, 4], "numbers go on");
}

#[test]
fn a_line_cut_by_a_kill_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("denials");
    let mut log = DenialLog::open(&path, BOUNDS, at(0)).unwrap();
    log.keep(&noted("a", "u"), at(1));
    log.keep(&noted("a", "u"), at(2));
    drop(log);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let mut log = DenialLog::open(&path, BOUNDS, at(3)).unwrap();
    log.keep(&noted("a", "u"), at(3));
    drop(log);
    let log = DenialLog::open(&path, BOUNDS, at(3)).unwrap();
    assert_eq!(log.store.list(&Query { limit: 9, ..Query::default() }).len(), 2);
}

#[test]
fn the_file_does_not_grow_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("denials");
    let mut log = DenialLog::open(&path, BOUNDS, at(0)).unwrap();
    let mut most = 0;
    for second in 0..2000 {
        log.keep(&noted("a", "u"), at(second));
        most = most.max(log.line_count());
    }
    assert!(most <= 2 * 3 + 256, "{most} lines");
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines, log.line_count());
}

#[test]
fn only_denials_are_kept() {
    let request = request("a", "u");
    let refusal = Refusal::UidReused(request.uid.clone());
    assert!(super::new(&Actor::named("alice"), &request, &refusal, Head::default()).is_none());
    let full = Refusal::TooManyPending { limit: "reservations.max_pending", pending: 9 };
    assert!(super::new(&Actor::named("alice"), &request, &full, Head::default()).is_some());
}

#[tokio::test]
async fn what_was_noted_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("denials");
    let (denials, thread) = super::start(&file, BOUNDS).unwrap();
    denials.note(&Actor::named("alice"), &request("a", "u"), &refusal(), Head::default());
    let listed = denials.list(Query { limit: 5, ..Query::default() }).await;
    assert_eq!(listed.len(), 1);
    let count = |quota: &str| {
        let kind = LimitKind::ResourceQuota;
        denials.count(kind, &"a".into(), &quota.into())
    };
    assert_eq!((count("compute"), count("other")), (1, 0));
    denials.close();
    thread.join().unwrap();
    assert!(denials.list(Query { limit: 5, ..Query::default() }).await.is_empty());
}

/// A namespace with many denials never displaces the denials of another one.
#[test]
fn a_flood_of_one_namespace_leaves_those_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("denials");
    let bounds = Bounds { records: 1000, bytes: 20_000, ..BOUNDS };
    let mut log = DenialLog::open(&path, bounds, at(0)).unwrap();
    log.keep(&noted("quiet", "u"), at(1));
    for number in 0..500 {
        log.keep(&noted("flood", &format!("u{number}")), at(2));
    }
    let bytes = log.store.bytes();
    assert!((15_000..=20_000).contains(&bytes), "{bytes}");
    assert_eq!(ids(&log, Some("quiet"), None), [1]);
    assert_eq!(ids(&log, Some("flood"), None), [501, 500]);
    drop(log);
    let log = DenialLog::open(&path, bounds, at(3)).unwrap();
    assert_eq!(ids(&log, Some("quiet"), None), [1], "a restart as well");
}

/// Nor does a principal with denials in many namespaces displace those of another principal.
#[test]
fn a_flood_of_one_principal_leaves_those_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("denials");
    let bounds = Bounds { records: 50, ..BOUNDS };
    let mut log = DenialLog::open(&path, bounds, at(0)).unwrap();
    for _ in 0..20 {
        log.keep(&noted_of("quiet", "team-a", "u"), at(1));
    }
    for number in 0..200 {
        log.keep(&noted_of("flood", &format!("att-{number}"), "u"), at(2));
    }
    let of_quiet = |log: &DenialLog| {
        let of_quiet = log.store.iter().filter(|kept| kept.principal == *"quiet");
        (of_quiet.count(), log.store.len())
    };
    assert_eq!(of_quiet(&log), (20, 50));
    drop(log);
    let log = DenialLog::open(&path, bounds, at(3)).unwrap();
    assert_eq!(of_quiet(&log), (20, 50), "a restart as well");
}

#[test]
fn of_a_long_denial_less_is_kept() {
    let one = quota_semantics::quantity::Quantity::from_units(1);
    let name = |number| format!("example.com/{number:0>60}").into();
    let mut request = request("a", "u");
    Arc::make_mut(&mut request.footprint).resources =
        (0..1000).map(|n| (name(n), one.clone())).collect();
    let Refusal::Denied(mut denied) = refusal() else { unreachable!() };
    let looked = denied.quotas[0].resources[0].clone();
    denied.quotas[0].resources = vec![looked; 1000];
    let refusal = Refusal::Denied(denied);
    let noted = super::new(&Actor::named("alice"), &request, &refusal, Head::default()).unwrap();
    let json = super::to_json(&noted, 1, at(0)).unwrap();
    assert!(json.len() < 32 * 1024, "{} bytes", json.len());
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(record["shortened"], true);
    assert_eq!(record["object"]["uid"], "u");
}

/// Denials wait in memory until their records are written.
#[test]
fn of_a_wide_denial_few_limits_wait_for_the_log() {
    let Refusal::Denied(denied) = refusal() else { unreachable!() };
    let [looked, unwanted] = &denied.quotas[0].resources[..] else { unreachable!() };
    let of_quota = |wanted: usize| CheckedQuota {
        resources: [vec![looked.clone(); wanted], vec![unwanted.clone(); 100]].concat(),
        ..denied.quotas[0].clone()
    };
    let noted = |quotas: Vec<CheckedQuota>, requested: usize| {
        let mut denied = denied.clone();
        denied.quotas = quotas;
        let name = |number| format!("example.com/{number}").into();
        let one = quota_semantics::quantity::Quantity::from_units(1);
        let mut request = request("a", "u");
        Arc::make_mut(&mut request.footprint).resources =
            (0..requested).map(|n| (name(n), one.clone())).collect();
        let refusal = Refusal::Denied(denied);
        super::new(&Actor::named("alice"), &request, &refusal, Head::default()).unwrap()
    };
    for (each, kept, shortened) in [(128, 256, false), (129, 256, true), (300, 256, true)] {
        let denial = noted(vec![of_quota(each), of_quota(0), of_quota(each)], 1);
        let limits = denial.quotas.iter().map(|quota| quota.resources.len());
        assert_eq!((limits.sum::<usize>(), denial.shortened), (kept, shortened), "{each}");
    }
    assert_eq!(noted(Vec::new(), 1025).object.requested.len(), 0);
    assert!(noted(Vec::new(), 1025).shortened);
}

#[test]
fn who_is_denied_by_many_limits_does_not_displace_the_counts_of_others() {
    let mut counts = Counts::default();
    let victim = denial_of("team", "team-a", "compute", LimitKind::ResourceQuota);
    counts.add(&victim);
    for number in 0..2 * COUNTED_MAX {
        let quota = format!("q-{number}");
        counts.add(&denial_of(
            "attacker",
            &format!("ns-{number}"),
            &quota,
            LimitKind::ResourceQuota,
        ));
    }
    counts.add(&victim);
    let of = |namespace: &str, name: &str| {
        counts.get(&place(LimitKind::ResourceQuota, &namespace.into(), &name.into()))
    };
    assert_eq!(of("team-a", "compute"), 2);
    assert_eq!(of("ns-0", "q-0"), 0);
    let last = 2 * COUNTED_MAX - 1;
    assert_eq!(of(&format!("ns-{last}"), &format!("q-{last}")), 1);
    assert_eq!(counts.denials.len(), COUNTED_MAX);
    assert_eq!(counts.begun.len(), COUNTED_MAX);
}

#[test]
fn a_group_counts_for_all_its_namespaces_and_only_exceeded_limits_count() {
    let mut counts = Counts::default();
    for namespace in ["a", "b"] {
        counts.add(&denial_of("p", namespace, "company", LimitKind::ClusterResourceQuota));
    }
    let mut passed = denial_of("p", "a", "other", LimitKind::ResourceQuota);
    passed.quotas[0].resources[0].hard = "100".parse().unwrap();
    counts.add(&passed);
    let group = place(LimitKind::ClusterResourceQuota, &"b".into(), &"company".into());
    assert_eq!(counts.get(&group), 2);
    assert_eq!(counts.get(&place(LimitKind::ResourceQuota, &"a".into(), &"other".into())), 0);
}
