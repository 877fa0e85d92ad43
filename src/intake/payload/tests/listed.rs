//! Objects of a listing.

use super::*;

fn listed(text: &str) -> Result<Option<Listed>, String> {
    reader().read_listed(text.as_bytes(), NOW)
}

#[test]
fn a_listed_object_is_what_its_event_tells() {
    let event = pod("ADDED", "", SPEC);
    let object = event.split_once("\"object\":").unwrap().1;
    let object = object.strip_suffix('}').unwrap();
    let read = listed(object).unwrap().unwrap();
    assert_eq!(*read.object, alive(&event).0);
    let measured = plain(r#","usage":{"requests.example.com/units":"3"}"#);
    let read = listed(&measured.replace(r#""type":"ADDED","#, "")).unwrap().unwrap();
    assert_eq!(*read.object, alive(&measured).0);
}

#[test]
fn a_field_by_the_name_of_type_is_the_objects_own() {
    let secret = r#"{"type":"DELETED","apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"a","uid":"s-1"}}"#;
    let read = listed(secret).unwrap().unwrap();
    assert_eq!(&*read.object.resource, "secrets");
}

#[test]
fn a_listed_quota_has_its_limits() {
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","namespace":"a","uid":"q-1"},"spec":{"hard":{"pods":"3"}}}"#;
    let read = listed(quota).unwrap().unwrap();
    assert!(read.quota.unwrap().spec.hard.get("pods").is_some());
    assert!(read.object.footprint.resources.get("resourcequotas").is_some());
}

#[test]
fn what_does_not_count_is_passed_over_and_what_is_no_object_refused() {
    for text in [
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n"}}"#,
        r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"a","uid":"e"}}"#,
    ] {
        assert!(listed(text).unwrap().is_none(), "{text}");
    }
    for (text, why) in [
        ("7", "no object"),
        (r#"[null,null,null,"a","pods","n","u",null,null]"#, "no object"),
        ("{}", "neither"),
        (r#"{"metadata":{"name":"n","namespace":"a"}}"#, "apiVersion and kind"),
        (r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"a"}}"#, "no uid"),
        (r#"{"type":"ADDED","object":{}}"#, "apiVersion and kind"),
        (
            r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"a","uid":"u"}}}"#,
            "neither",
        ),
    ] {
        let error = listed(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}
