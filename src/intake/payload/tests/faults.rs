//! Events that are rejected, and events beside them that must not be lost.

use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn a_name_that_only_an_api_server_takes_is_recorded_in_a_short_form() {
    let named = |name: &str| alive(pod("ADDED", "", SPEC).replace("web-0", name)).0.name;
    let long = |end: &str| format!("{}{end}", "ü".repeat(200));
    let [one, other] = ["a", "b"].map(|end| named(&long(end)));
    assert!(one.starts_with(&"ü".repeat(118)) && one.len() <= 253, "{one}");
    assert_ne!(one, other);
    assert!(named("a\\u001b[b").starts_with("a_[b~"));
    assert_eq!(*named(&"x".repeat(253)), "x".repeat(253));
}

#[test]
fn what_cannot_be_understood_is_rejected_with_its_reason() {
    use Rejection::{InvalidField, InvalidQuantity, Malformed, TooLarge, UnknownShape};
    let deep = "[".repeat(100_000);
    let large = "x".repeat(4 * 1024 * 1024);
    let large = format!(
        r#"{{"type":"ADDED","object":{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"a","uid":"u",
            "labels":{{"a":"{large}"}}}}}}}}"#
    );
    for (event, rejection, what) in [
        ("nonsense".to_owned(), Malformed, "expected"),
        (r#"{"type":"ADDED""#.to_owned(), Malformed, "EOF"),
        ("5".to_owned(), InvalidField, "invalid type"),
        ("{}".to_owned(), UnknownShape, "no type"),
        (r#"{"type":"ADDED"}"#.to_owned(), UnknownShape, "neither an object"),
        (r#"{"type":"SYNC"}"#.to_owned(), UnknownShape, r#"unknown type "SYNC""#),
        (
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"}}"#.to_owned(),
            UnknownShape,
            "error",
        ),
        (r#"{"type":"ADDED","type":"ADDED"}"#.to_owned(), InvalidField, "duplicate field"),
        (pod("ADDED", "", r#","spec":{"containers":5}"#), InvalidField, "invalid type"),
        (pod("ADDED", "", SPEC).replace(UID, ""), InvalidField, "no uid"),
        (pod("ADDED", "", SPEC).replace("\"42\"", "\"x\""), InvalidField, r#"resourceVersion "x""#),
        (
            pod("ADDED", "", SPEC).replace("team-a", "Team"),
            InvalidField,
            r#"namespace "Team": a lowercase"#,
        ),
        (pod("ADDED", "", SPEC).replace("web-0", "a/b"), InvalidField, "fit for a path"),
        (pod("ADDED", "", SPEC).replace("Pod", "P d"), InvalidField, "resource \"p ds\""),
        (pod("ADDED", "", SPEC).replace("100m", "1x"), InvalidField, "quantit"),
        (plain("").replace("u-1", "a b"), InvalidField, "printable ASCII"),
        (plain("").replace("widgets", "Widgets"), InvalidField, "resource"),
        (plain("").replace(r#""name":"w1","#, ""), InvalidField, "name is missing"),
        (plain("").replace(r#""team-a""#, "7"), InvalidField, "namespace: invalid type"),
        (plain(r#","resourceVersion":"-7""#), InvalidField, "not a number"),
        (plain(r#","resourceVersion":-7"#), InvalidField, "resourceVersion"),
        (plain(r#","resourceVersion":"99999999999999999999""#), InvalidField, "not a number"),
        // No API server uses such a version: it would make the ledger ignore all later ones.
        (
            plain(r#","resourceVersion":"9223372036854775808""#),
            InvalidField,
            "not a number up to 9223372036854775807",
        ),
        (plain(r#","usage":{"a b":"1"}"#), InvalidField, r#"resource name "a b""#),
        (plain(r#","usage":{"cpu":"-1"}"#), InvalidQuantity, "cpu: must not be negative"),
        (plain(r#","usage":{"cpu":"1 core"}"#), InvalidQuantity, "cpu: "),
        (plain(r#","usage":{"cpu":"1 core","cpu":"1"}"#), InvalidQuantity, "cpu: "),
        (plain(r#","usage":{"cpu":{}}"#), InvalidQuantity, "cpu: "),
        (plain(r#","usage":[]"#), InvalidField, "usage: "),
        (large, TooLarge, "more than 3932160"),
        (format!(r#"{{"data":{deep}"#), Malformed, ""),
        (deep, Malformed, ""),
    ] {
        let (found, reason) = rejected(&event);
        assert_eq!((found, reason.contains(what)), (rejection, true), "{reason}");
        assert!(reason.len() <= REASON_MAX_BYTES + 3);
    }
}

#[test]
fn events_are_utf_8_and_one_that_is_not_spoils_no_other() {
    let events = read(
        [
            plain(r#","note":""#).as_bytes().strip_suffix(b"}").unwrap(),
            b"\xff\"}\n",
            plain("").as_bytes(),
        ]
        .concat(),
    );
    let [Err(bad), Ok(_)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(bad.rejection, Rejection::Malformed);
    assert!(bad.reason.contains("utf-8"), "{}", bad.reason);
}

#[test]
fn lines_elements_and_printed_values_are_told_apart() {
    let event = plain("");
    assert_eq!(read("").len() + read(" \n\r\n\t").len() + read("[]").len(), 0);
    assert_eq!(read(format!("\n{event}\r\n\n{event}\n")).len(), 2);
    assert_eq!(read(format!(" [{event},\n{event}]\n")).len(), 2);
    assert_eq!(read(event.replace(',', ",\n")).len(), 1);
    assert!(read(event.replace(',', ",\n"))[0].is_ok());

    let lines: Vec<_> = read(format!("{event}\n\nbad\n{event}\n{{\n")).into_iter().collect();
    let bad: Vec<_> = lines.iter().filter_map(|line| line.as_ref().err()).collect();
    assert_eq!(
        bad.iter().map(|bad| (bad.line, &bad.text[..])).collect::<Vec<_>>(),
        [(3, &b"bad"[..]), (5, b"{")]
    );

    let elements = read(format!("[{event}, 5, {event}]"));
    assert!(matches!(&elements[1], Err(Rejected { line: 2, text, .. }) if &text[..] == b"5"));
    let broken = read(format!("[{event}, 5"));
    assert!(broken.len() == 1 && broken[0].is_err());
}

#[test]
fn a_payload_that_is_no_list_of_events_is_given_up() {
    for (payload, last_line) in
        [("x\n".repeat(30_000), 10_001), (format!("[{}1]", "1,".repeat(30_000)), 10_001)]
    {
        let events = read(&payload);
        assert_eq!(events.len() as u64, REJECTED_MAX + 1);
        let last = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!((last.line, last.rejection), (last_line, Rejection::TooLarge));
        assert!(last.text.len() >= 40_000 - 1);
    }
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(plain("")),
        Just(pod("MODIFIED", "", SPEC).replace('\n', "")),
        "[^\n]{0,40}",
        Just("{\"type\":\"ADDED\",\"object\":".to_owned()),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert!(read(&bytes).len() <= bytes.len());
    }

    #[test]
    fn broken_events_are_read_without_a_panic(
        which in 0..3_usize, cut in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut bytes = [pod("ADDED", "", SPEC), plain(r#","usage":{"cpu":"1"}"#),
            format!("[{}]", plain(""))][which].clone().into_bytes();
        let at = cut.index(bytes.len());
        bytes[at] = with;
        read(&bytes);
        bytes.truncate(at);
        read(&bytes);
    }

    #[test]
    fn every_line_is_accounted_for(lines in vec(line(), 0..20)) {
        let payload = format!("{}\n{}", plain(""), lines.join("\n"));
        let events = read(&payload);
        let full = |line: &str| !line.as_bytes().trim_ascii().is_empty();
        prop_assert_eq!(events.len(), payload.split('\n').filter(|line| full(line)).count());
        for rejected in events.iter().filter_map(|event| event.as_ref().err()) {
            let line = payload.split('\n').nth(rejected.line as usize - 1).unwrap();
            prop_assert_eq!(&rejected.text[..], line.as_bytes());
        }
    }
}
