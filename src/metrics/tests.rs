use std::{collections::BTreeSet, time::Duration};

use quota_core::{
    event::QuotaRecord,
    state::{Figure, GroupView, MemberView},
};
use quota_replication::protocol::{Counts, Role};
use quota_semantics::{
    Name, Timestamp, admission::LimitKind, object::GroupResource, quantity::Quantity, quota::Spec,
    uid::Uid,
};
use quota_service::metrics::{Kind, Label as _};
use quota_testkit::docs::documented;

use super::*;
use crate::{
    enforcement::{self, NotReported},
    problem::Reason,
};

#[test]
fn names_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for Metric { name, kind, labels, help } in ALL {
        assert!(names.insert(name), "{name} is there twice");
        let prefixes =
            ["quota_ledger_", "kube_resourcequota", "openshift_clusterresourcequota_", "process_"];
        assert!(prefixes.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), matches!(kind, Kind::Counter), "{name}");
        if let Kind::Histogram(buckets) = kind {
            assert!(name.ends_with("_seconds") || name.ends_with("_entries"), "{name}");
            assert!(buckets.is_sorted_by(|a, b| a < b), "{name}");
        }
        assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
        for label in *labels {
            let values: BTreeSet<_> = label.values.iter().collect();
            assert_eq!(values.len(), label.values.len(), "{name} {}", label.name);
        }
    }
}

/// Run with `UPDATE_DOCS=1` after a change of the table.
#[test]
fn the_documented_list_is_this_table() {
    let list: String = ALL.iter().map(Metric::item).collect();
    documented("metrics.md", "quotad", &list);
}

#[test]
fn a_limit_is_called_by_its_key() {
    let shipped: toml::Table = toml::Table::try_from(crate::config::Config::default()).unwrap();
    for key in Limit::VALUES {
        let (section, name) = key.split_once('.').unwrap();
        assert!(shipped[section].get(name).is_some(), "{key}");
    }
}

struct Quotas(i64);

impl QuotaSource for Quotas {
    fn visit_groups(&self, _: &mut dyn FnMut(&GroupView)) {}

    fn visit_members(&self, _: &str, _: &mut dyn FnMut(&MemberView)) {}

    fn visit_room(&self, visitor: &mut dyn FnMut(&Name, &Name, &[RoomFigure])) {
        for number in 0..self.0 {
            let figure = |resource: &str| RoomFigure {
                resource: resource.into(),
                available: 2.5,
                share: number as f64,
                kind: LimitKind::ClusterResourceQuota,
                name: "company".into(),
            };
            let namespace = format!("team-{number}").into();
            visitor(&namespace, &"admin".into(), &[figure("pods"), figure("requests.cpu")]);
        }
    }

    fn denials(&self, _: LimitKind, _: &Name, name: &Name) -> u64 {
        u64::from(**name == *"quota \"0\"") * 7
    }

    fn covers(&self, resource: &str) -> bool {
        resource != "pods"
    }

    fn not_reported(&self, limit: &str) -> Option<NotReported> {
        (limit == "pods").then(|| NotReported {
            kind: GroupResource::new("", "pods"),
            reason: enforcement::Reason::Failing("403".into()),
        })
    }

    fn visit(&self, visitor: &mut dyn FnMut(&QuotaRecord, &Name, &[Figure], f64)) {
        for number in 0..self.0 {
            let figure = |resource: &str| Figure {
                resource: resource.into(),
                hard: "2500m".parse().unwrap(),
                used: Some(Quantity::from_units(number)),
                reserved: Quantity::default(),
            };
            let record = QuotaRecord {
                namespace: "team-a".into(),
                name: format!("quota \"{number}\"").into(),
                uid: Uid::new("u").unwrap(),
                created: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
                spec: Spec::default(),
                metadata: "".into(),
            };
            visitor(&record, &"admin".into(), &[figure("requests.cpu"), figure("pods")], 0.0);
        }
    }
}

#[test]
fn quotas_are_told_as_kube_state_metrics_tells_them() {
    let mut text = String::new();
    let mut kinds = quotas::NotReportedKinds::default();
    quotas::render(&mut text, &Quotas(1), 9, &mut kinds);
    kinds.render(&mut text);
    let labels = r#"resourcequota="quota \"0\"",namespace="team-a""#;
    let expected = format!(
        "kube_resourcequota{{{labels},resource=\"requests.cpu\",type=\"hard\"}} 2.5\n\
         kube_resourcequota{{{labels},resource=\"requests.cpu\",type=\"used\"}} 0\n\
         kube_resourcequota{{{labels},resource=\"requests.cpu\",type=\"reserved\"}} 0\n"
    );
    assert!(text.contains(&expected), "{text}");
    assert!(
        text.contains(&format!("kube_resourcequota_created{{{labels}}} 1700000000\n")),
        "{text}"
    );
    let denials = format!("quota_ledger_quota_denials_total{{{labels}}} 7\n");
    assert!(text.contains(&denials), "{text}");
    let open = format!("quota_ledger_limit_not_enforced{{{labels},resource=\"pods\"}} 1\n");
    assert!(text.contains(&open), "{text}");
    assert_eq!(text.matches("quota_ledger_limit_not_enforced{").count(), 1);
    assert!(text.contains("quota_ledger_quotas_left_out 0\n"), "{text}");
    let open = "quota_ledger_kind_not_reported{resource=\"pods\",reason=\"403\"} 1\n";
    assert!(text.contains(open), "{text}");
}

#[test]
fn whole_quotas_are_exported_the_fullest_first_and_the_rest_is_counted() {
    let mut text = String::new();
    // Nine series for each quota.
    quotas::render(&mut text, &Quotas(1000), 76, &mut quotas::NotReportedKinds::default());
    let amounts = text.lines().filter(|line| line.starts_with("kube_resourcequota{"));
    assert_eq!(amounts.count(), 8 * 6);
    let created = text.lines().filter(|line| line.starts_with("kube_resourcequota_created{"));
    assert_eq!(created.count(), 8);
    for number in 992..1000 {
        let name = format!("quota \\\"{number}\\\"");
        assert!(text.contains(&name), "{name} in {text}");
    }
    assert!(text.contains("quota_ledger_quotas_left_out 992\n"), "{text}");
}

#[test]
fn what_binds_is_told_of_whole_namespaces_the_fullest_first() {
    let mut text = String::new();
    quotas::render_room(&mut text, &Quotas(3), 5);
    let labels = r#"resource="pods",kind="ClusterResourceQuota",name="company""#;
    for namespace in ["team-1", "team-2"] {
        let line = format!("quota_ledger_available{{namespace=\"{namespace}\",{labels}}} 2.5\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert_eq!(text.matches("quota_ledger_available{").count(), 4);
    assert!(text.contains("quota_ledger_namespaces_left_out 1\n"), "{text}");
}

/// A tenant with many full quotas, in one namespace or in as many, does not displace those of others.
#[test]
fn nobody_displaces_the_series_of_others_by_exporting_more() {
    let candidate = |principal: &str, namespace: String, fullness| quotas::Candidate {
        principal: principal.into(),
        namespace: namespace.into(),
        fullness,
        series: 4,
    };
    let namespaces: [fn(usize) -> String; 2] =
        [|_| "att".to_owned(), |number| format!("att-{number}")];
    for namespace in namespaces {
        let mut all: Vec<_> =
            (0..300).map(|number| candidate("attacker", namespace(number), 1.0)).collect();
        all.push(candidate("admin", "team-a".into(), 0.9));
        all.push(candidate("admin", "team-a".into(), 0.8));
        all.push(candidate("admin", "team-b".into(), 0.1));
        let (exported, left) = quotas::choose(&all, 4 * 10 + 3);
        assert_eq!(exported[300..], [true; 3]);
        assert_eq!(exported.iter().filter(|exported| **exported).count(), 10);
        assert_eq!(left, 3);
        // Each namespace of a principal before the second quota of one.
        let (exported, _) = quotas::choose(&all, 4 * 4);
        assert_eq!(exported[300..], [true, false, true]);
    }
}

#[test]
fn process_metrics_are_read() {
    let mut text = String::new();
    render_process(&mut text);
    for metric in ALL.iter().filter(|metric| metric.name.starts_with("process_")) {
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(metric.name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("{} is missing in {text}", metric.name));
        assert!(value.parse::<f64>().unwrap() >= 0.0, "{} {value}", metric.name);
    }
}

#[test]
fn what_is_recorded_is_rendered_and_counters_begin_with_0() {
    let recorder = builder(ALL).unwrap().build_recorder();
    let handle = recorder.handle();
    ::metrics::with_local_recorder(&recorder, || {
        initialise();
        decisions(Decision::Denied, Some(Reason::ExceedsHard));
        ledger_batch(Default::default(), Default::default(), 3);
        let connection = http_connection(Listener::Api);
        drop(connection);
        http_request("/v1/quotas", &http::Method::GET, 200, Default::default());
        http_request("/v1/quotas", &http::Method::CONNECT, 405, Default::default());
    });
    let text = handle.render();
    for line in [
        "quota_ledger_decisions_total{decision=\"denied\",reason=\"ExceedsHard\"} 1",
        "quota_ledger_decisions_total{decision=\"granted\",reason=\"None\"} 0",
        "quota_ledger_limit_reached_total{limit=\"limits.queue\"} 0",
        "quota_ledger_snapshot_failures_total 0",
        "quota_ledger_ledger_batch_entries_bucket{le=\"4\"} 1",
        "quota_ledger_ledger_batch_entries_bucket{le=\"2\"} 0",
        "quota_ledger_http_connections{listener=\"api\"} 0",
        "quota_ledger_http_requests_total{route=\"/v1/quotas\",method=\"GET\",code=\"200\"} 1",
        "quota_ledger_http_requests_total{route=\"/v1/quotas\",method=\"_other_\",code=\"405\"} 1",
        "# TYPE quota_ledger_ledger_batch_entries histogram",
    ] {
        assert!(text.lines().any(|rendered| rendered == line), "{line} is not in {text}");
    }
}

#[test]
fn while_the_age_of_a_replica_is_unknown_no_earlier_one_is_told() {
    let recorder = builder(ALL).unwrap().build_recorder();
    let handle = recorder.handle();
    let told = |age| {
        ::metrics::with_local_recorder(&recorder, || {
            cluster(Some(Role::Follower), 1, age, None, Counts::default());
        });
        let text = handle.render();
        let name = "quota_ledger_cluster_replica_age_seconds ";
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().parse::<f64>().unwrap()
    };
    assert!(told(Some(Duration::ZERO)) < 1.0);
    assert!(told(None).is_infinite());
}
