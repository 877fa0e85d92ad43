//! The beginning and the end of relists.

use quota_core::decide::Finish;

use super::*;

fn relist(payload: &str) -> Option<Relist> {
    let mut events = read(payload);
    assert_eq!(events.len(), 1);
    match events.remove(0).unwrap().observation {
        Some(Observation::Relist { relist, .. }) => Some(relist),
        None | Some(Observation::Bookmark { .. }) => None,
        Some(other) => panic!("{other:?}"),
    }
}

fn finish() -> Finish {
    Finish {
        resource: "pods".into(),
        namespace: None,
        id: None,
        allow_empty: false,
        version: 0,
        is_bookmark: false,
    }
}

#[test]
fn a_begin_and_an_end_say_what_is_listed() {
    let begin = |namespace: Option<&str>, id: Option<&str>, allow_empty| Relist::Begin {
        resource: "pods".into(),
        namespace: namespace.map(Into::into),
        id: id.map(Into::into),
        allow_empty,
        resets_versions: false,
    };
    let read = relist(r#"{"type":"RELIST_BEGIN","resource":"pods","namespace":null}"#);
    assert_eq!(read, Some(begin(None, None, false)));
    let read = relist(
        r#"{"type":"RELIST_BEGIN","resource":"pods","namespace":"team-a","id":"r-1","allowEmpty":true}"#,
    );
    assert_eq!(read, Some(begin(Some("team-a"), Some("r-1"), true)));
    let read = relist(
        r#"{"type":"RELIST_END","resource":"pods","namespace":"team-a","id":"r-1","resourceVersion":"17","allowEmpty":true}"#,
    );
    let all = Finish {
        namespace: Some("team-a".into()),
        id: Some("r-1".into()),
        allow_empty: true,
        version: 17,
        ..finish()
    };
    assert_eq!(read, Some(Relist::Finish(all)));
    let event = r#"{"specversion":"1.0","id":"5","source":"s","type":"t","data":{"type":"RELIST_END","resource":"pods"}}"#;
    assert_eq!(relist(event), Some(Relist::Finish(finish())));
}

#[test]
fn only_the_bookmark_behind_the_initial_events_is_an_end() {
    let bookmark = |annotation: &str| {
        format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{
                "resourceVersion":"12746","creationTimestamp":null{annotation}}},
                "spec":{{"containers":null}},"status":{{}}}}}}"#
        )
    };
    let ends = r#","annotations":{"k8s.io/initial-events-end":"true"}"#;
    let all = Finish { version: 12746, is_bookmark: true, ..finish() };
    assert_eq!(relist(&bookmark(ends)), Some(Relist::Finish(all)));
    assert_eq!(relist(&bookmark("")), None);
    assert_eq!(relist(&bookmark(&ends.replace("true", "false"))), None);
}

#[test]
fn a_relist_that_cannot_be_understood_is_rejected() {
    for (event, what) in [
        (r#"{"type":"RELIST_BEGIN"}"#, "resource is missing"),
        (r#"{"type":"RELIST_END","resource":"Pods"}"#, "resource"),
        (r#"{"type":"RELIST_END","resource":"pods","namespace":"Team"}"#, "namespace"),
        (r#"{"type":"RELIST_BEGIN","resource":"pods","id":""}"#, "id: 1 to"),
        (r#"{"type":"RELIST_BEGIN","resource":"pods","allowEmpty":"yes"}"#, "allowEmpty"),
        (r#"{"type":"RELIST_END","resource":"pods","resourceVersion":"x"}"#, "resourceVersion"),
    ] {
        let (rejection, reason) = rejected(event);
        assert_eq!(rejection, Rejection::InvalidField, "{event}: {reason}");
        assert!(reason.contains(what), "{event}: {reason}");
    }
}
