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

#[test]
fn a_quota_changes_only_as_its_editor_saw_it() {
    let mut given = Given::hard("pods=9");
    let set = |given: &Given, hard: &str, precondition| {
        decide::set_quota(&given.state, given.now(), &quota(hard, Some(precondition)))
    };
    assert!(matches!(
        set(&given, "pods=8", Precondition::Absent),
        Err(Refusal::Conflict {
            current: 1,
            expected: 0,
            ..
        })
    ));
    assert!(
        set(&given, "pods=9", Precondition::Version(1))
            .unwrap()
            .is_empty()
    );
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
