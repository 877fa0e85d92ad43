use super::*;

type Placed = (String, serde_json::Value);

fn items(text: &str) -> Outcome<(Vec<Placed>, Option<u64>)> {
    let mut items = Vec::new();
    let version = read(text.as_bytes(), |item| {
        items.push((item.place, serde_json::from_str(&item.text).unwrap()));
        Ok(())
    })?;
    Ok((items, version))
}

fn names(text: &str) -> Vec<String> {
    let (items, _) = items(text).unwrap();
    let name = |(place, object): &Placed| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        format!("{place} {kind}/{name}")
    };
    items.iter().map(name).collect()
}

fn why(text: &str) -> String {
    items(text).unwrap_err().message
}

const A: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"1"}}"#;
const B: &str = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"b","uid":"2"}}"#;

#[test]
fn lists_arrays_and_lines_are_read() {
    let list = format!(
        "{{\n \"apiVersion\": \"v1\",\n \"items\": [\n{A},\n{B}],\n \"kind\": \"List\",\n \"metadata\": {{\"resourceVersion\": \"\"}}\n}}\n"
    );
    assert_eq!(names(&list), ["item 1 Pod/a", "item 2 Service/b"]);
    assert_eq!(names(&format!("[{A},{B}]")), ["item 1 Pod/a", "item 2 Service/b"]);
    assert_eq!(names(&format!("{A}\n\n{B}\n")), ["line 1 Pod/a", "line 3 Service/b"]);
    assert_eq!(names(&format!("{A}\n{list}")).len(), 3);
    for empty in
        ["", " \n", "[]", r#"{"kind":"PodList","items":null}"#, r#"{"kind":"List","items":[]}"#]
    {
        assert!(names(empty).is_empty(), "{empty}");
    }
}

#[test]
fn what_a_typed_list_says_of_its_items_is_told_with_each() {
    let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"77"},
        "items":[{"metadata":{"name":"a"}},{ "metadata":{"name":"b"} },{"uid":"plain"}]}"#;
    assert_eq!(names(list), ["item 1 Pod/a", "item 2 Pod/b", "item 3 /"]);
    let (found, version) = items(list).unwrap();
    assert_eq!((found[0].1["apiVersion"].as_str(), version), (Some("v1"), Some(77)));
    let older = list.replace("77", "66");
    assert_eq!(items(&format!("{list}\n{older}\n{list}")).unwrap().1, Some(66));
}

#[test]
fn a_part_of_a_list_is_refused_wherever_it_says_so() {
    for metadata in [
        r#"{"continue":"x"}"#,
        r#"{"remainingItemCount":3}"#,
        r#"{"continue":"","remainingItemCount":1}"#,
    ] {
        for list in [
            format!(r#"{{"kind":"List","metadata":{metadata},"items":[{A}]}}"#),
            format!(r#"{{"items":[{A}],"metadata":{metadata}}}"#),
        ] {
            assert!(why(&list).contains("is a part"), "{list}");
        }
    }
    let whole = format!(r#"{{"items":[{A}],"metadata":{{"continue":"","remainingItemCount":0}}}}"#);
    assert_eq!(names(&whole).len(), 1);
}

#[test]
fn what_is_cut_off_or_no_listing_is_refused() {
    let list = format!(r#"{{"kind":"List","items":[{A},{B}]}}"#);
    for end in 1..list.len() {
        assert!(items(&list[..end]).is_err(), "{}", &list[..end]);
    }
    assert!(why("7").contains("a list of objects"));
    assert!(why("[7]").contains("item 1 is no object"));
    assert!(why(r#"[["Pod",{},null]]"#).contains("item 1 is no object"));
    assert!(why(&format!("[{A},{list}]")).contains("item 2 is a list within a list"));
    assert!(why(r#"{"kind":"PodList","apiVersion":"v1"}"#).contains("a list without items"));
    assert!(why(r#"{"kind":"ConfigMap","items":[]}"#).contains("ConfigMap"));
    assert!(why(&format!("{A}\n{{]")).contains("line 2"));
    let listed = r#"{"kind":"AllowList","metadata":{"uid":"u"}}"#;
    assert_eq!(names(listed).len(), 1, "an object whose kind is called so");
}

#[test]
fn no_more_than_one_object_is_held_and_none_may_be_too_long() {
    /// An endless list of objects.
    struct Endless(Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for byte in buffer.iter_mut() {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(buffer.len())
        }
    }
    let line = format!("{{\"x\":\"{}\"}}\n", "y".repeat(1000));
    let mut taken = 0_u64;
    let read_all = read_bounded(Endless(line.into_bytes(), 0), 3000, |_| {
        taken += 1;
        match taken {
            20 => Err(Failure::general("enough")),
            _ => Ok(()),
        }
    });
    assert_eq!(read_all.unwrap_err().message, "enough");
    for endless in ["[", " ", "{\"x\":\"y", "[{\"x\":\"y", "{\"items\":[{\"x\":\"y"] {
        let (start, repeated) = endless.split_at(endless.len() - 1);
        let input = start.as_bytes().chain(Endless(repeated.into(), 0));
        let wrong = read_bounded(input, 100, |_| Ok(())).unwrap_err().message;
        assert!(wrong.contains("100 bytes at line 1"), "{endless}: {wrong}");
    }
}
