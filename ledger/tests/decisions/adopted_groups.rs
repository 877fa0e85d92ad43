//! Groups that a source has reported.

use std::sync::Arc;

use quota_core::{
    decide::{Finish, GroupBounds, GroupChange, Relist, delete_group, set_group, unless_adopted},
    event::{GroupRecord, RelistOutcome},
    source::{self, Observation},
};
use quota_semantics::group::{Extensions, Spec as GroupSpec, manifest::RESOURCE};

use super::*;

/// A group over one namespace, as observed in a version.
fn seen(name: &str, version: u64, hard: &str, extensions: &[(&str, &str)]) -> GroupRecord {
    let annotations =
        extensions.iter().map(|(key, text)| (format!("quota-ledger.io/{key}"), (*text).to_owned()));
    let annotations = annotations.collect();
    let selector =
        serde_json::json!({"labels": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}});
    let carrier = quota_semantics::group::extension::Carrier::Group;
    GroupRecord {
        name: name.into(),
        uid: uid(&format!("uid-{name}")),
        created: at(0),
        spec: GroupSpec {
            selector: serde_json::from_value(selector).unwrap(),
            quota: Spec { hard: list(hard), ..Spec::default() },
            extensions: Extensions::from_annotations(&annotations, carrier).0,
        },
        metadata: format!("{{\"adoptedVersion\":{version}}}").into(),
    }
}

fn shown(record: GroupRecord) -> Sighting {
    Sighting::Group { record: Arc::new(record), max_depth: 3 }
}

fn gone(name: &str) -> Sighting {
    Sighting::GroupEnded { name: name.into(), uid: uid(&format!("uid-{name}")) }
}

impl Given {
    fn shows(&mut self, record: GroupRecord) -> bool {
        self.sees(&shown(record))
    }

    fn hard_of(&self, group: &str) -> Option<String> {
        let (record, _) = self.state.group_record(group)?;
        Some(record.spec.quota.hard.pretty())
    }

    fn extensions(&self, group: &str) -> Vec<String> {
        let (record, _) = self.state.group_record(group).unwrap();
        let annotations = record.spec.extensions.to_annotations().into_keys();
        annotations.map(|key| key.replace("quota-ledger.io/", "")).collect()
    }

    /// Records the reports of a source in one batch, and ends the groups that its relists have not listed. Returns how
    /// the relists ended.
    fn takes_in(&mut self, items: Vec<Observation>) -> Vec<RelistOutcome> {
        let now = self.now();
        let actor = Actor::named("test");
        let mut transaction = WriteTransaction::new(&mut self.state, &mut self.open, now);
        let (_, relisted) = source::record(&mut transaction, &actor, items, 0, None);
        let mut outcomes: Vec<_> = relisted.decided.iter().filter_map(outcome).collect();
        while let Some(relist) = self.state.closed_relist() {
            let (gone, _) = self.state.unlisted(&relist.scope, 0, u32::MAX);
            let ended = decide::end_unlisted(&self.state, &relist.scope, relist.began, &gone);
            self.record(ended);
            let over = decide::end_relist(&self.state, &relist.scope, relist.began);
            outcomes.extend(over.iter().filter_map(outcome));
            self.record(over.into_iter().collect());
        }
        outcomes
    }
}

fn outcome(event: &Event) -> Option<RelistOutcome> {
    match event {
        Event::RelistEnded(end) => Some(end.outcome),
        _ => None,
    }
}

/// A list of these groups, as of a version.
fn listing(groups: Vec<GroupRecord>, version: u64, resets_versions: bool) -> Vec<Observation> {
    let begin = Relist::Begin {
        resource: RESOURCE.into(),
        namespace: None,
        id: None,
        allow_empty: true,
        resets_versions,
    };
    let end = Relist::Finish(Finish {
        resource: RESOURCE.into(),
        namespace: None,
        id: None,
        allow_empty: false,
        version,
        is_bookmark: false,
    });
    let item = |relist| Observation::Relist { relist, received: None };
    let groups = groups.into_iter().map(|it| Observation::Sighting(shown(it)));
    let first = std::iter::once(item(begin));
    first.chain(groups).chain([item(end)]).collect()
}

#[test]
fn what_a_source_shows_is_a_group_until_it_is_deleted() {
    let mut given = Given::default();
    assert!(given.shows(seen("g", 5, "pods=3", &[])));
    denied(given.reserve(&reserve_request("a", "pods=4")));
    given.reserve(&reserve_request("b", "pods=3")).unwrap();
    // An old version, and another version with the same content.
    assert!(!given.shows(seen("g", 5, "pods=9", &[])));
    assert!(!given.shows(seen("g", 6, "pods=3", &[])));
    assert!(given.shows(seen("g", 7, "pods=5", &[])));
    assert_eq!(given.hard_of("g").unwrap(), "pods=5");
    assert!(given.sees(&gone("g")));
    assert_eq!(given.hard_of("g"), None);
    assert!(!given.sees(&gone("g")));
    assert!(!given.shows(seen("g", 9, "pods=5", &[])), "deleted for good");
    let anew = GroupRecord { uid: uid("another"), ..seen("g", 10, "pods=1", &[]) };
    assert!(given.shows(anew));
    given.sees(&gone("g"));
    assert_eq!(given.hard_of("g").unwrap(), "pods=1", "another one by its name");
    // The end is remembered even of a group that was never observed.
    assert!(given.sees(&gone("h")));
    assert!(!given.shows(seen("h", 3, "pods=1", &[])));
}

#[test]
fn a_late_version_of_a_group_does_not_count_after_its_change_was_undone() {
    let mut given = Given::default();
    let of_generation = |version, generation: u64, hard| GroupRecord {
        metadata: format!("{{\"adoptedVersion\":{version},\"generation\":{generation}}}").into(),
        ..seen("g", version, hard, &[])
    };
    assert!(given.shows(of_generation(100, 1, "pods=4")));
    assert!(!given.shows(of_generation(101, 1, "pods=4")), "the status");
    assert!(given.shows(of_generation(120, 3, "pods=4")));
    assert!(!given.shows(of_generation(110, 2, "pods=10")));
    assert_eq!(given.hard_of("g").unwrap(), "pods=4");
}

#[test]
fn a_group_of_a_cluster_is_changed_there() {
    let mut given = Given::default();
    let mut change = GroupChange {
        name: "g".into(),
        fresh_uid: uid("fresh"),
        spec: seen("g", 0, "pods=1", &[]).spec,
        metadata: Box::default(),
        precondition: None,
    };
    let set = |given: &Given, change: &GroupChange| {
        let policy = Policy { adopts_quotas: true, ..Policy::default() };
        let events = set_group(&given.state, given.now(), change, &GroupBounds::default())?;
        unless_adopted(&given.state, &policy, events)
    };
    let events = set(&given, &change).unwrap();
    given.record(events);
    given.sees(&Sighting::GroupEnded { name: "g".into(), uid: uid("fresh") });
    assert!(given.hard_of("g").is_some(), "it was not theirs");
    given.shows(seen("g", 5, "pods=3", &[]));
    assert_eq!(given.hard_of("g").unwrap(), "pods=3", "it is now");
    change.spec.quota.hard = list("pods=7");
    let refused = set(&given, &change).unwrap_err().to_string();
    assert!(refused.contains("kubectl edit clusterresourcequota g"), "{refused}");
    let deleted = delete_group(&given.state, &"g".into(), None).unwrap();
    let policy = Policy { adopts_quotas: true, ..Policy::default() };
    assert!(unless_adopted(&given.state, &policy, deleted.clone()).is_err());
    assert!(unless_adopted(&given.state, &Policy::default(), deleted).is_ok());
}

#[test]
fn annotations_without_a_place_are_not_in_force() {
    let mut given = Given::default();
    let below = |name: &str, version, parent: &str| {
        seen(name, version, "pods=3", &[("parent", parent), ("guaranteed", "{\"pods\":\"2\"}")])
    };
    given.shows(below("a", 1, "b"));
    given.shows(below("b", 2, "c"));
    given.shows(below("c", 3, "a"));
    assert_eq!(given.extensions("a"), ["guaranteed", "parent"]);
    assert_eq!(given.extensions("c"), ["guaranteed"], "it would close a cycle");
    given.shows(seen("top", 4, "pods=9", &[]));
    given.shows(below("c", 5, "top"));
    assert_eq!(given.extensions("c"), ["guaranteed"], "four are too deep");
    given.shows(below("b", 6, "none"));
    given.shows(below("c", 7, "top"));
    assert_eq!(given.extensions("c"), ["guaranteed", "parent"], "two are not");
    given.shows(below("d", 8, "none"));
    given.shows(seen("none", 9, "pods=1", &[("soft", "{\"pods\":\"2\"}")]));
    assert_eq!(given.extensions("none"), [""; 0], "above its own limit");
    assert_eq!(given.hard_of("none").unwrap(), "pods=1");
    let labels = ("objects", "{\"matchLabels\":{\"app\":\"web\"}}");
    given.shows(seen("e", 10, "pods=1", &[labels, ("enforcement", "warn")]));
    assert_eq!(given.extensions("e"), ["enforcement"], "the label is not recorded");
}

#[test]
fn a_group_is_as_the_cluster_says_whoever_named_it_before() {
    let mut given = Given::default();
    let below =
        |name: &str, version, parent: &str| seen(name, version, "pods=3", &[("parent", parent)]);
    given.shows(below("a", 1, "b"));
    given.shows(below("b", 2, "c"));
    given.shows(below("c", 3, "d"));
    given.shows(seen("d", 4, "pods=9", &[]));
    assert_eq!(given.extensions("c"), [""; 0], "four are too deep");
    assert_eq!(given.extensions("b"), ["parent"], "three are not");

    given.shows(below("e", 5, "scoped"));
    let mut scoped = seen("scoped", 6, "pods=9", &[]);
    scoped.spec.quota.scopes = vec!["Terminating".into()];
    given.shows(scoped);
    assert_eq!(given.extensions("e"), [""; 0], "scopes take no children");
    assert_eq!(given.hard_of("scoped").unwrap(), "pods=9");
}

#[test]
fn a_list_ends_the_groups_that_it_does_not_show() {
    let mut given = Given::default();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        given.shows(seen(name, number as u64 + 1, "pods=3", &[]));
    }
    let own = GroupChange {
        name: "own".into(),
        fresh_uid: uid("own"),
        spec: seen("own", 0, "pods=9", &[]).spec,
        metadata: Box::default(),
        precondition: None,
    };
    let set = set_group(&given.state, given.now(), &own, &GroupBounds::default());
    given.record(set.unwrap());
    // Observed before, changed, and recorded in a later version than that of the list.
    let listed = vec![seen("a", 1, "pods=3", &[])];
    assert_eq!(given.takes_in(listing(listed, 2, false)), [RelistOutcome::Complete]);
    let left = |given: &Given| -> Vec<String> {
        let (groups, _) = given.state.groups_page("", 9);
        groups.iter().map(|view| view.record.name.to_string()).collect()
    };
    assert_eq!(left(&given), ["a", "c", "own"]);
    // A group that was ended by a relist is not deleted for good.
    let listed = vec![seen("a", 1, "pods=3", &[]), seen("b", 2, "pods=4", &[])];
    given.takes_in(listing(listed, 9, false));
    assert_eq!(left(&given), ["a", "b", "own"]);
    // Versions went back.
    let listed = vec![seen("b", 1, "pods=1", &[])];
    given.takes_in(listing(listed, 1, true));
    assert_eq!(left(&given), ["b", "own"]);
    assert_eq!(given.hard_of("b").unwrap(), "pods=1");
    given.takes_in(listing(Vec::new(), 9, false));
    assert_eq!(left(&given), ["own"]);
}
