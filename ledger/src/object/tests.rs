use super::*;

fn read(kind: &str, json: &str) -> Object {
    Object::from_json(&kind.parse().unwrap(), json.as_bytes()).unwrap()
}

#[test]
fn an_object_that_cannot_be_read_says_why() {
    let pods = GroupResource::new("", "pods");
    let error = Object::from_json(&pods, br#"{"spec":{"activeDeadlineSeconds":"1"}}"#).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot read pods: invalid type: string"),
        "{error}"
    );
    assert!(Object::from_json(&pods, b"[").is_err());
}

#[test]
fn only_a_pod_that_is_being_deleted_lapses() {
    let deleting = |phase: &str| {
        let json = format!(
            r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30}},
                "status":{{"phase":"{phase}"}}}}"#
        );
        read("pods", &json)
    };
    let lapse = "2026-01-01T00:00:30Z".parse().unwrap();
    assert_eq!(deleting("Running").lapse(), Some(lapse));
    assert_eq!(deleting("Failed").lapse(), None);
    assert_eq!(read("pods", "{}").lapse(), None);

    let pods = GroupResource::new("", "pods");
    let counts = |now| {
        deleting("Running")
            .footprint(&pods, now, &NoContext)
            .resources
            .len()
    };
    assert_eq!(counts(lapse), 2);
    assert_eq!(counts(lapse.plus(crate::Span::from_nanoseconds(1))), 1);
}
