//! Versions of namespaces, by whose labels groups choose.

use super::*;

#[test]
fn a_late_version_of_a_namespace_does_not_count_after_a_newer_one_without_changes() {
    let mut given = Given::default();
    given.group(&group("blue", by_label("blue"), "pods=3"));
    given.labels("team-a", 5, "blue");
    given.labels("team-a", 7, "blue");
    given.takes("team-a", "a", "pods=2");
    let late = namespace_of("team-a", 6, "red");
    assert!(!given.sees(&Sighting::Namespace(late)));
    given.counts(&[("blue", "0+2+0")]);
}

/// As after a restore of etcd: a relist records the namespace of that uid again.
#[test]
fn a_namespace_that_is_back_after_its_deletion_is_observed_as_before() {
    let mut given = Given::default();
    for team in ["blue", "red"] {
        given.group(&group(team, by_label(team), "pods=3"));
    }
    given.labels("team-a", 5, "blue");
    given.record(vec![Event::NamespaceDeleted {
        name: "team-a".into(),
        uid: uid("ns-team-a"),
        relist: None,
    }]);
    let back = namespace_of("team-a", 5, "blue");
    given.record(vec![Event::NamespaceObserved(back)]);
    given.takes("team-a", "a", "pods=2");
    given.labels("team-a", 6, "red");
    given.counts(&[("blue", "0+0+0"), ("red", "0+2+0")]);
}
