use std::sync::Arc;

use quota_core::{
    event::{GroupRecord, QuotaRecord},
    state::{Figure, GroupFigure},
};
use quota_semantics::{
    Name, Timestamp, group::Spec, quantity::Quantity, resource::ResourceList, uid::Uid,
};

use super::*;
use crate::{enforcement::NotReported, metrics::RoomFigure};

/// Groups `g0`, `g1`, … of two namespaces each; later groups are fuller.
struct Groups(i64);

fn figure(used: i64) -> Figure {
    let quantity = Quantity::from_units;
    Figure {
        resource: "pods".into(),
        hard: quantity(100),
        used: Some(quantity(used)),
        reserved: quantity(1),
    }
}

fn group(number: i64) -> GroupView {
    let selector = serde_json::json!({
        "labels": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
        },
        "annotations": {"owner": "some \"body\""},
    });
    GroupView {
        record: Arc::new(GroupRecord {
            name: format!("g{number}").into(),
            uid: Uid::new("u").unwrap(),
            created: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
            spec: Spec { selector: serde_json::from_value(selector).unwrap(), ..Spec::default() },
            metadata: r#"{"labels":{"a-b":"1","a.b":"2","x":"y"}}"#.into(),
        }),
        entry: 1,
        hard: ResourceList::new(),
        override_until: None,
        has_parent: false,
        children: Vec::new(),
        figures: vec![GroupFigure {
            figure: figure(number),
            guaranteed_to_others: Quantity::from_units(7),
        }],
        members: 2,
        bytes: 0,
    }
}

impl QuotaSource for Groups {
    fn visit(&self, _: &mut dyn FnMut(&QuotaRecord, &Name, &[Figure], f64)) {}

    fn visit_room(&self, _: &mut dyn FnMut(&Name, &Name, &[RoomFigure])) {}

    fn denials(&self, _: LimitKind, _: &Name, _: &Name) -> u64 {
        3
    }

    fn covers(&self, _: &str) -> bool {
        true
    }

    fn not_reported(&self, _: &str) -> Option<NotReported> {
        None
    }

    fn visit_groups(&self, visitor: &mut dyn FnMut(&GroupView)) {
        (0..self.0).for_each(|number| visitor(&group(number)));
    }

    fn visit_members(&self, _: &str, visitor: &mut dyn FnMut(&MemberView)) {
        for namespace in ["team-a", "team-b"] {
            visitor(&MemberView { namespace: namespace.into(), figures: vec![figure(1)] });
        }
    }
}

fn rendered(groups: i64, most: usize) -> String {
    let mut text = String::new();
    let source = Groups(groups);
    let chosen = ChosenGroups::new(&source, most, &mut NotReportedKinds::default());
    render_groups(&mut text, &source, &chosen, chosen.left);
    text
}

#[test]
fn groups_are_told_as_openshift_state_metrics_tells_them() {
    let text = rendered(1, 100);
    let prefix = "openshift_clusterresourcequota";
    for line in [
        r#"_usage{name="g0",resource="pods",type="hard"} 100"#,
        r#"_usage{name="g0",resource="pods",type="used"} 0"#,
        r#"_usage{name="g0",resource="pods",type="reserved"} 1"#,
        r#"_usage{name="g0",resource="pods",type="guaranteed"} 7"#,
        r#"_namespace_usage{name="g0",resource="pods",type="used",namespace="team-b"} 1"#,
        r#"_selector{name="g0",type="annotation",key="owner",value="some \"body\""} 1"#,
        r#"_selector{name="g0",type="match-labels",key="team",value="a"} 1"#,
        r#"_selector{name="g0",type="match-expressions",key="tier",operator="In",values="x,y"} 1"#,
        r#"_created{name="g0"} 1700000000"#,
        // A duplicate label would invalidate the whole scrape.
        r#"_labels{name="g0",label_a_b="1",label_x="y"} 1"#,
    ] {
        assert!(text.contains(&format!("{prefix}{line}\n")), "{line}\n{text}");
    }
    assert!(text.contains("quota_ledger_groups_left_out 0\n"), "{text}");
    let denials = "quota_ledger_group_denials_total{name=\"g0\"} 3\n";
    assert!(text.contains(denials), "{text}");
}

#[test]
fn the_limit_of_each_namespace_is_not_that_of_all() {
    let mut view = group(500);
    Arc::make_mut(&mut view.record).spec.extensions.each = true;
    let mut pages = Pages::default();
    pages.write(&view);
    assert!(!pages.usage.contains("hard"), "{}", pages.usage);
    assert!(pages.usage.contains(r#"type="used"} 500"#), "{}", pages.usage);
    assert!(fullness(&view) < 0.1);
    assert_eq!(series(&view), 9);
}

#[test]
fn groups_come_before_their_namespaces_and_the_fullest_first() {
    let series = |text: &str| {
        let of_groups = |line: &&str| line.starts_with("openshift_");
        text.lines().filter(of_groups).count()
    };
    // Nine series for each group beside its denials, and six for its namespaces.
    assert_eq!(series(&rendered(2, 32)), 30);
    let text = rendered(3, 10 + 10 + 6 + 2);
    assert!(!text.contains("g0") && text.contains("g1") && text.contains("g2"));
    assert_eq!(series(&text), 9 + 9 + 6);
    assert!(text.contains("quota_ledger_groups_left_out 1\n"), "{text}");
    let left_out = "quota_ledger_group_namespaces_left_out 2\n";
    assert!(text.contains(left_out), "{text}");
}
