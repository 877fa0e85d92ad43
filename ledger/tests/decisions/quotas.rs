//! Changes of limits, by an editor or by adoption.

use super::*;

#[test]
fn a_quota_of_unknown_version_is_news_only_if_something_changed() {
    let mut given = Given::hard("pods=9");
    let seen = |hard: &str| match alive("quota", 0, "resourcequotas=1") {
        Sighting::Alive { object, .. } => Sighting::Alive {
            object,
            quota: Some(Box::new(Adopted {
                created: at(0),
                spec: quota(hard, None).spec,
                metadata: Box::default(),
            })),
        },
        other => other,
    };
    assert!(given.sees(&seen("pods=4")));
    assert!(!given.sees(&seen("pods=4")));
    assert!(given.sees(&seen("pods=5")));
    assert!(!given.sees(&seen("pods=5")));
}

/// The operator may let the cluster's quotas be adopted when their objects are recorded already.
#[test]
fn a_quota_that_is_recorded_as_an_object_only_is_adopted_when_it_is_reported_again() {
    let mut given = Given::default();
    let seen = |version: u64, hard: Option<&str>| match alive("compute", version, "pods=1") {
        Sighting::Alive { object, .. } => Sighting::Alive {
            object,
            quota: hard.map(|hard| {
                Box::new(Adopted {
                    created: at(0),
                    spec: quota(hard, None).spec,
                    metadata: Box::default(),
                })
            }),
        },
        other => other,
    };
    assert!(given.sees(&seen(4, None)));
    assert!(given.sees(&seen(5, None)));
    assert!(!given.sees(&seen(4, Some("pods=4"))), "an older version");
    assert!(given.sees(&seen(5, Some("pods=5"))));
    assert_eq!(given.counted(), ("1".into(), "0".into()));
    assert!(!given.sees(&seen(5, Some("pods=6"))), "it is adopted");
    assert!(given.sees(&deleted("compute")));
    assert!(!given.sees(&seen(5, Some("pods=5"))), "it is deleted");
}

/// A newer version of the object would replace it, too.
#[test]
fn an_adopted_quota_replaces_one_of_its_name_that_was_set_at_the_daemon() {
    let mut given = Given::hard("pods=9");
    let seen = |id: &str, version: u64, hard: Option<&str>| match alive(id, version, "pods=1") {
        Sighting::Alive { mut object, .. } => {
            object.name = "compute".into();
            let quota = hard.map(|hard| {
                Box::new(Adopted {
                    created: at(0),
                    spec: quota(hard, None).spec,
                    metadata: Box::default(),
                })
            });
            Sighting::Alive { object, quota }
        }
        other => other,
    };
    let owner = |given: &Given| {
        let record = given.state.quota_record("team-a", "compute");
        record.unwrap().0.uid.clone()
    };
    assert!(given.sees(&seen("a", 5, None)));
    assert!(!given.sees(&seen("a", 4, Some("pods=4"))), "an older version");
    assert_ne!(owner(&given), uid("a"));
    assert!(given.sees(&seen("a", 5, Some("pods=5"))));
    assert_eq!(owner(&given), uid("a"));
    assert!(!given.sees(&seen("a", 5, Some("pods=5"))), "it is adopted");

    // The end of the first object was not reported: its last version does not replace the quota of the second.
    assert!(given.sees(&seen("b", 7, Some("pods=7"))));
    assert!(!given.sees(&seen("a", 5, Some("pods=5"))));
    assert_eq!(owner(&given), uid("b"));
}

#[test]
fn a_quota_changes_only_as_its_editor_saw_it() {
    let mut given = Given::hard("pods=9");
    let set = |given: &Given, hard: &str, precondition| {
        decide::set_quota(&given.state, given.now(), &quota(hard, Some(precondition)))
    };
    assert!(matches!(
        set(&given, "pods=8", Precondition::Absent),
        Err(Refusal::Conflict { current: 1, expected: 0, .. })
    ));
    assert!(set(&given, "pods=9", Precondition::Version(1)).unwrap().is_empty());
    given.record(set(&given, "pods=09", Precondition::Version(1)).unwrap());
    assert!(matches!(
        set(&given, "pods=8", Precondition::Version(1)),
        Err(Refusal::Conflict { current: 2, .. })
    ));
    let delete = decide::delete_quota(
        &given.state,
        &team(),
        &Name::from("compute"),
        Some(Precondition::Version(1)),
    );
    assert!(matches!(delete, Err(Refusal::Conflict { .. })));
}

#[test]
fn a_lowered_limit_is_shown_and_binds_at_once() {
    let mut given = Given::hard("pods=9");
    given.sees(&alive("a", 1, "pods=5"));
    given.quota("pods=3");
    denied(given.reserve(&reserve_request("b", "pods=1")));
    assert_eq!(given.counted().0, "5");
}
