//! Groups: decisions over quotas of many namespaces.

mod namespaces;
mod objects;

use std::sync::Arc;

use quota_core::{
    decide::{Audience, GroupBounds, GroupChange, Notice, delete_group, set_group},
    event::{Entry, NamespaceRecord},
    suggest::{Denials, Suggesting, Wish},
    time::Period,
};
use quota_semantics::{
    admission::LimitKind,
    group::{Enforcement, Extensions, Override, Selector, Spec as GroupSpec},
    quota::{ScopeExpression, ScopeSelector},
};

use super::*;

fn in_namespace(namespace: &str, id: &str, amounts: &str) -> Request {
    Request { namespace: namespace.into(), ..reserve_request(id, amounts) }
}

/// A namespace with a label.
fn namespace_of(name: &str, version: u64, team: &str) -> Arc<NamespaceRecord> {
    Arc::new(NamespaceRecord {
        name: name.into(),
        uid: uid(&format!("ns-{name}")),
        version,
        labels: [("team".into(), team.into())].into(),
        annotations: Default::default(),
    })
}

fn by_label(team: &str) -> Selector {
    let selector = serde_json::json!({"labels": {"matchLabels": {"team": team}}});
    serde_json::from_value(selector).unwrap()
}

fn by_names(names: &[&str]) -> Selector {
    let listed = serde_json::json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": names});
    let selector = serde_json::json!({"labels": {"matchExpressions": [listed]}});
    serde_json::from_value(selector).unwrap()
}

fn group(name: &str, selector: Selector, hard: &str) -> GroupChange {
    GroupChange {
        name: name.into(),
        fresh_uid: uid(name),
        spec: GroupSpec {
            selector,
            quota: Spec { hard: list(hard), ..Spec::default() },
            extensions: Extensions::default(),
        },
        metadata: Box::default(),
        precondition: None,
    }
}

fn child(
    name: &str,
    parent: &str,
    namespaces: &[&str],
    hard: &str,
    guaranteed: &str,
) -> GroupChange {
    let mut child = group(name, by_names(namespaces), hard);
    child.spec.extensions.parent = Some(parent.into());
    child.spec.extensions.guaranteed = list(guaranteed);
    child
}

impl Given {
    fn group(&mut self, change: &GroupChange) {
        let set = set_group(&self.state, self.now(), change, &GroupBounds::default());
        let events = set.unwrap();
        assert!(!events.is_empty());
        self.record(events);
    }

    fn refuses(&self, change: &GroupChange, bounds: &GroupBounds) -> String {
        set_group(&self.state, self.now(), change, bounds).unwrap_err().to_string()
    }

    fn labels(&mut self, namespace: &str, version: u64, team: &str) {
        let record = namespace_of(namespace, version, team);
        assert!(self.sees(&Sighting::Namespace(record)));
    }

    /// Reserves, and returns the notices.
    fn takes(&mut self, namespace: &str, id: &str, amounts: &str) -> Vec<Notice> {
        self.reserve(&in_namespace(namespace, id, amounts)).unwrap().notices
    }

    /// Checks the used, reserved and guaranteed amounts of groups.
    fn counts(&self, groups: &[(&str, &str)]) {
        for (name, expected) in groups {
            let view = self.state.group(name).unwrap();
            let figures = view.figures.into_iter().map(|it| {
                let used = it.figure.used.unwrap_or_default();
                format!("{used}+{}+{}", it.figure.reserved, it.guaranteed_to_others)
            });
            let counted = figures.collect::<Vec<_>>().join(",");
            assert_eq!(counted, *expected, "{name}");
        }
    }
}

#[test]
fn a_group_counts_all_its_namespaces() {
    let mut given = Given::default();
    given.group(&group("pool", by_names(&["team-a", "team-b"]), "pods=3"));
    given.takes("team-a", "a", "pods=2");
    given.takes("team-b", "b", "pods=1");
    given.takes("team-c", "c", "pods=9");
    given.counts(&[("pool", "0+3+0")]);
    let denied = denied(given.reserve(&in_namespace("team-b", "b2", "pods=1")));
    assert_eq!(
        denied.detail,
        "exceeded quota: pool, requested: pods=1, used: pods=3, limited: pods=3; pool is shared by 2 namespaces, \
         team-b uses pods=1 of it; reserved: pods=3"
    );
    assert_eq!(denied.quotas.len(), 1);
    assert_eq!(denied.quotas[0].kind, LimitKind::ClusterResourceQuota);
    // The end of any of the group's reservations makes room.
    assert_eq!(denied.retry_after, Some(at(30)));
    given.passes(31, Timestamp::MAX);
    given.takes("team-b", "b2", "pods=3");
}

#[test]
fn quotas_come_before_groups_and_the_nearest_group_first() {
    let mut given = Given::hard("pods=1");
    given.group(&group("all", by_names(&["team-b"]), "pods=1"));
    given.group(&child("own", "all", &["team-a"], "pods=1", ""));
    let names = |denied: &decide::Denied| -> Vec<Name> {
        denied.quotas.iter().map(|quota| quota.name.clone()).collect()
    };
    let denied_by_all = denied(given.reserve(&reserve_request("x", "pods=2")));
    assert_eq!(names(&denied_by_all), ["compute", "own", "all"]);
    assert!(denied_by_all.detail.starts_with("exceeded quota: compute,"));
    given.quota("pods=9");
    let denied = denied(given.reserve(&reserve_request("x", "pods=2")));
    assert!(denied.detail.starts_with("exceeded quota: own,"), "{}", denied.detail);
}

#[test]
fn what_others_are_guaranteed_is_not_to_be_had() {
    let mut given = Given::default();
    given.group(&group("root", by_names(&["team-c"]), "pods=10"));
    given.group(&child("a", "root", &["team-a"], "pods=9", "pods=3"));
    given.group(&child("b", "root", &["team-b"], "pods=9", "pods=4"));
    given.counts(&[("root", "0+0+7")]);
    let denied = denied(given.reserve(&in_namespace("team-a", "x", "pods=7")));
    assert_eq!(
        denied.detail,
        "exceeded quota: root, requested: pods=7, used: pods=4, limited: pods=10; root is shared by 1 namespace, \
         team-a uses pods=0 of it; pods=4 are guaranteed to others"
    );
    assert_eq!(denied.quotas[1].resources[0].guaranteed_to_others, Some("4".parse().unwrap()));
    given.takes("team-a", "x", "pods=6");
    given.counts(&[("root", "0+6+4")]);
    assert!(given.reserve(&in_namespace("team-c", "y", "pods=1")).is_err());
    given.takes("team-b", "z", "pods=4");
    given.counts(&[("root", "0+10+0")]);
}

#[test]
fn what_others_are_guaranteed_is_no_room_either_when_nothing_else_counts() {
    let mut given = Given::default();
    given.group(&group("root", by_names(&["team-c"]), "pods=10"));
    given.group(&child("a", "root", &["team-a"], "pods=9", "pods=3"));
    given.group(&child("b", "root", &["team-b"], "pods=9", "pods=4"));
    given.takes("team-a", "x", "pods=2");
    for (amount, fits) in [("pods=6", true), ("pods=7", false)] {
        let denied = denied(given.reserve(&in_namespace("team-a", "y", amount)));
        assert_eq!(denied.fits_when_empty, fits, "{amount}");
        // Waiting helps exactly if the denial says so.
        assert_eq!(denied.retry_after.is_some(), fits, "{amount}");
    }
}

#[test]
fn siblings_that_are_guaranteed_the_same_in_one_namespace_contend() {
    let mut given = Given::default();
    given.group(&group("root", by_names(&["team-c"]), "pods=10,secrets=9"));
    given.group(&child("a", "root", &["team-a", "team-b"], "pods=9", "pods=3"));
    given.group(&child("b", "root", &["team-b"], "pods=9", "pods=4"));
    given.group(&child("c", "root", &["team-a"], "secrets=9", "secrets=1"));
    given.group(&child("d", "root", &["team-a"], "pods=9", ""));
    let contender = |given: &Given, name: &str| {
        let found = given.state.contender(name);
        found.map(|(group, namespace)| format!("{group} in {namespace}"))
    };
    assert_eq!(contender(&given, "a"), None, "no namespace is shared");
    given.takes("team-b", "x", "pods=1");
    assert_eq!(contender(&given, "a").unwrap(), "b in team-b");
    assert_eq!(contender(&given, "b").unwrap(), "a in team-b");
    for name in ["root", "c", "d", "none"] {
        assert_eq!(contender(&given, name), None, "{name}");
    }
    given.record(delete_group(&given.state, &"root".into(), None).unwrap());
    assert_eq!(contender(&given, "a"), None, "they are no siblings any more");
}

#[test]
fn a_batch_is_decided_over_all_groups_together() {
    let mut given = Given::default();
    given.group(&group("root", by_names(&["team-c"]), "pods=4"));
    given.group(&child("a", "root", &["team-a"], "pods=4", "pods=2"));
    given.group(&child("b", "root", &["team-b"], "pods=4", ""));
    let asks = |b: &str| [in_namespace("team-a", "x", "pods=2"), in_namespace("team-b", "y", b)];
    let (index, refusal) = given.reserve_all(&asks("pods=3")).unwrap_err();
    assert_eq!(index, 1);
    assert!(
        refusal.to_string().starts_with("exceeded quota: root, requested: pods=3, used: pods=2,"),
        "{refusal}"
    );
    assert_eq!(given.reserve_all(&asks("pods=2")).unwrap().len(), 2);
}

#[test]
fn labels_move_usage_at_once_and_nothing_is_evicted() {
    let mut given = Given::default();
    given.group(&group("red", by_label("red"), "pods=2"));
    given.group(&group("blue", by_label("blue"), "pods=1"));
    given.labels("team-a", 1, "red");
    given.sees(&alive("p1", 1, "pods=1"));
    given.takes("team-a", "p2", "pods=1");
    given.counts(&[("red", "1+1+0"), ("blue", "0+0+0")]);
    given.labels("team-a", 2, "blue");
    given.counts(&[("red", "0+0+0"), ("blue", "1+1+0")]);
    assert!(given.reserve(&reserve_request("p3", "pods=1")).is_err());
    given.record(delete_group(&given.state, &"blue".into(), None).unwrap());
    given.takes("team-a", "p3", "pods=1");
}

#[test]
fn labels_that_are_not_known_are_waited_for_where_they_matter() {
    let mut given = Given::default();
    given.group(&group("red", by_label("red"), "pods=2"));
    let refused = given.reserve(&reserve_request("x", "pods=1")).unwrap_err();
    assert!(matches!(&refused, Refusal::NotReady { group, .. } if *group == *"red"), "{refused:?}");
    // Resources that the group does not limit, and namespaces with recorded labels, are decided.
    given.takes("team-a", "y", "secrets=1");
    given.labels("team-a", 1, "blue");
    given.takes("team-a", "x", "pods=1");
    // A list of namespaces needs no labels.
    let mut listed = Given::default();
    listed.group(&group("listed", by_names(&["team-b"]), "pods=0"));
    listed.reserve(&reserve_request("x", "pods=1")).unwrap();
}

#[test]
fn labels_that_are_not_known_are_not_waited_for_where_no_limit_can_deny() {
    let mut given = Given::default();
    let mut lax = group("lax", by_label("red"), "pods=2");
    for enforcement in [Enforcement::Audit, Enforcement::Warn] {
        lax.spec.extensions.enforcement = enforcement;
        given.group(&lax);
        given.takes("team-a", &format!("{enforcement:?}"), "pods=9");
    }
    // Its parent may deny.
    lax.spec.extensions.parent = Some("root".into());
    given.group(&lax);
    given.group(&group("root", by_names(&["team-b"]), "pods=99"));
    let refused = given.reserve(&reserve_request("x", "pods=1")).unwrap_err();
    assert!(matches!(refused, Refusal::NotReady { .. }), "{refused:?}");

    // A quota replaces the group of its name that limits each member alone.
    let mut replaced = Given::default();
    let mut each = group("compute", by_label("red"), "pods=2");
    each.spec.extensions.each = true;
    replaced.group(&each);
    assert!(replaced.reserve(&reserve_request("x", "pods=1")).is_err());
    replaced.quota("pods=3");
    replaced.takes("team-a", "x", "pods=3");
}

#[test]
fn limits_for_each_hold_for_every_namespace_alone() {
    let mut given = Given::default();
    let mut each = group("compute", by_names(&["team-a", "team-b"]), "pods=2");
    each.spec.extensions.each = true;
    given.group(&each);
    given.takes("team-a", "a", "pods=2");
    given.takes("team-b", "b", "pods=2");
    let denied = denied(given.reserve(&in_namespace("team-b", "b2", "pods=1")));
    assert_eq!(
        denied.detail,
        "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2; reserved: pods=2"
    );
    // A quota of the same name replaces it.
    given.quota("pods=3");
    given.takes("team-a", "a2", "pods=1");
    // Also several in one decision.
    let two = ["c", "d"].map(|id| in_namespace("team-b", id, "pods=2"));
    assert!(given.reserve_all(&two).is_err());
}

#[test]
fn limits_that_are_not_enforced_are_told_of() {
    for (enforcement, audience) in
        [(Enforcement::Warn, Audience::Caller), (Enforcement::Audit, Audience::Auditors)]
    {
        let mut given = Given::default();
        let mut lax = group("lax", by_names(&["team-a"]), "pods=1");
        lax.spec.extensions.enforcement = enforcement;
        given.group(&lax);
        assert_eq!(given.takes("team-a", "x", "pods=1"), []);
        let notices = given.takes("team-a", "y", "pods=1");
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].audience, audience);
        assert_eq!(
            notices[0].message,
            "exceeded quota: lax, requested: pods=1, used: pods=1, limited: pods=1"
        );
        given.counts(&[("lax", "0+2+0")]);
    }
}

#[test]
fn soft_limits_warn() {
    let mut given = Given::default();
    let mut soft = group("pool", by_names(&["team-a"]), "pods=3");
    soft.spec.extensions.soft = list("pods=1");
    given.group(&soft);
    assert_eq!(given.takes("team-a", "x", "pods=1"), []);
    let notices = given.takes("team-a", "y", "pods=1");
    assert_eq!(notices[0].message, "quota pool: pods is at 2, above its soft limit of 1");
}

fn annotated(key: &str, value: &str) -> Box<str> {
    let annotations = serde_json::json!({format!("quota-ledger.io/{key}"): value});
    serde_json::json!({"annotations": annotations}).to_string().into()
}

#[test]
fn plain_quotas_say_the_same_by_annotations() {
    let mut given = Given::default();
    let set = |given: &mut Given, metadata| {
        let change = QuotaChange { metadata, ..quota("pods=1", None) };
        let events = decide::set_quota(&given.state, given.now(), &change).unwrap();
        given.record(events);
    };
    set(&mut given, annotated("enforcement", "warn"));
    assert_eq!(given.takes("team-a", "x", "pods=2").len(), 1);
    let until = at(60);
    let limits = serde_json::json!({"hard": {"pods": "3"}, "until": until}).to_string();
    set(&mut given, annotated("override", &limits));
    given.takes("team-a", "y", "pods=1");
    assert_eq!(given.state.override_of("team-a", "compute"), (list("pods=3"), Some(until)));
    assert!(given.reserve(&reserve_request("z", "pods=1")).is_err());
}

#[test]
fn an_override_ends_by_an_entry_when_its_time_is_over() {
    let mut given = Given::default();
    let mut raised = group("pool", by_names(&["team-a"]), "pods=1,secrets=1");
    raised.spec.extensions.r#override = Some(Override { hard: list("pods=2"), until: at(10) });
    given.group(&raised);
    given.takes("team-a", "x", "pods=2");
    assert_eq!(given.state.group("pool").unwrap().hard, list("pods=2,secrets=1"));
    assert_eq!(given.state.next_override_end(), Some(at(10)));
    assert_eq!(given.passes(10, Timestamp::EPOCH), 1);
    let view = given.state.group("pool").unwrap();
    assert_eq!((view.hard, view.override_until), (list("pods=1,secrets=1"), None));
    assert_eq!(given.state.next_override_end(), None);
    given.counts(&[("pool", "0+2+0,0+0+0")]);
    // An override that has ended when it is set never applies.
    given.record(delete_group(&given.state, &"pool".into(), None).unwrap());
    given.group(&raised);
    assert_eq!(given.passes(0, Timestamp::EPOCH), 0);
    assert_eq!(given.state.group("pool").unwrap().hard, list("pods=1,secrets=1"));
}

#[test]
fn groups_with_scopes_count_what_matches() {
    let mut given = Given::default();
    let mut scoped = group("high", by_names(&["team-a"]), "pods=1");
    scoped.spec.quota.selector = Some(ScopeSelector {
        match_expressions: vec![ScopeExpression {
            scope_name: "PriorityClass".into(),
            operator: "In".into(),
            values: vec!["high".into()],
        }],
    });
    scoped.spec.extensions.parent = Some("root".into());
    given.group(&group("root", by_names(&["team-b"]), "pods=9"));
    given.group(&scoped);
    given.takes("team-a", "plain", "pods=5");
    let high = |id: &str| {
        let mut request = reserve_request(id, "pods=1");
        Arc::make_mut(&mut request.footprint).traits =
            quota_semantics::object::Traits::Pod(quota_semantics::object::PodTraits {
                priority_class: "high".into(),
                ..Default::default()
            });
        request
    };
    given.reserve(&high("x")).unwrap();
    // The parent counts the part of the namespace that its child counts.
    given.counts(&[("high", "0+1+0"), ("root", "0+1+0")]);
    assert!(given.reserve(&high("y")).is_err());
}

#[test]
fn groups_are_refused_where_they_cannot_stand() {
    let mut given = Given::default();
    let bounds = GroupBounds { max: 3, max_depth: 2, per_namespace: 2 };
    given.group(&group("root", by_names(&["team-a"]), "pods=4"));
    given.group(&child("mid", "root", &["team-a"], "pods=4", "pods=3"));
    let cases = [
        (child("root", "mid", &["team-a"], "pods=4", ""), "cannot be part of itself"),
        (child("leaf", "mid", &["team-b"], "pods=1", ""), "3 groups deep; at most 2"),
        (child("other", "root", &["team-b"], "pods=4", "pods=2"), "guaranteed pods=5"),
        (group("empty", Selector::default(), "pods=1"), "must restrict the selected projects"),
    ];
    for (change, why) in cases {
        let refused = given.refuses(&change, &bounds);
        assert!(refused.contains(why), "{refused}");
    }
    // The number of groups that count a namespace is limited, if the namespace exists.
    given.quota("pods=9");
    let refused = given.refuses(&group("third", by_names(&["team-a"]), "pods=1"), &bounds);
    assert!(refused.contains("groups.max_per_namespace"), "{refused}");
    given.group(&group("third", by_names(&["team-b"]), "pods=1"));
    let refused = given.refuses(&group("fourth", by_names(&["team-b"]), "pods=1"), &bounds);
    assert!(refused.contains("groups.max is 3"), "{refused}");
}

#[test]
fn a_parent_counts_the_namespaces_of_children_that_were_there_before() {
    let mut given = Given::default();
    let bounds = GroupBounds { per_namespace: 2, ..GroupBounds::default() };
    given.quota("pods=9");
    for (name, parent) in [("a", "above-a"), ("b", "above-b")] {
        given.group(&child(name, parent, &["team-a"], "pods=1", ""));
    }
    let above = group("above-a", by_names(&["team-b"]), "pods=4");
    let refused = given.refuses(&above, &bounds);
    assert!(refused.contains("groups.max_per_namespace"), "{refused}");
}

/// The amounts of a group grow by one a day, all of them in one namespace.
#[test]
fn a_limit_is_full_no_later_than_that_of_a_group_that_counts_its_namespace() {
    const DAY: i64 = 86_400;
    let full_in = |shows_groups: bool| -> Vec<(String, Option<u64>)> {
        let mut given = Given::hard("pods=100");
        given.group(&group("both", by_names(&["team-a", "team-b"]), "pods=10"));
        let period = Period { from: at(0), to: at(6 * DAY) };
        let wish = Wish { percentile: 10_000, headroom: 0 };
        let team_a = Box::new(|name: &str| name == "team-a");
        let mut suggesting = Suggesting::begin(&given.state, period, wish, team_a);
        for day in 0..6 {
            given.seconds = day * DAY;
            let pod = alive(&format!("p-{day}"), 1, "pods=1");
            let Verdict::Accepted(events) = decide::observe(&given.state, pod) else {
                panic!("it was seen before");
            };
            for event in events {
                let sequence = given.state.head().sequence + 1;
                let actor = Actor::named("test");
                let entry = Entry { sequence, time: given.now(), actor, event };
                suggesting.before(&given.state, &entry);
                given.state.apply(&entry);
                suggesting.after(&given.state);
            }
        }
        let suggestions = suggesting.finish(&given.state, &Denials::new(), |_| shows_groups);
        suggestions.iter().map(|it| (it.name.to_string(), it.full_in_seconds)).collect()
    };
    let four_days = Some(4 * 86_400);
    assert_eq!(full_in(true), [("both".into(), four_days), ("compute".into(), four_days)]);
    assert_eq!(full_in(false), [("compute".into(), four_days)]);
}
