use proptest::prelude::*;
use serde_json::json;

use super::*;

fn list() -> Value {
    json!({
        "kind": "List",
        "items": [
            {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "n": 1},
            {"metadata": {"name": "b"}, "n": 20, "tags": ["p", "q", "r"]},
        ],
    })
}

fn render(template: &str) -> String {
    Template::parse(template)
        .unwrap_or_else(|error| panic!("{template}: {error}"))
        .render(&list())
}

/// The examples of kubectl's page on JSONPath, applied to another list.
#[test]
fn templates_print_what_kubectl_prints() {
    let cases = [
        ("{.items[*].metadata.name}", "a b"),
        ("{$.items[0].metadata.name}", "a"),
        ("{@.kind}", "List"),
        ("kind is {.kind}.", "kind is List."),
        ("{['kind']}", "List"),
        ("{.items[1].tags[0:2]}", "p q"),
        ("{.items[1].tags[-1:]}", "r"),
        ("{.items[1].tags[-1]}", "r"),
        ("{.items[1].tags[::2]}", "p r"),
        ("{.items[1].tags[0,2]}", "p r"),
        (
            "{.items[*]['metadata','n']}",
            "{\"labels\":{\"app.kubernetes.io/name\":\"x\"},\"name\":\"a\"} 1 {\"name\":\"b\"} 20",
        ),
        ("{..name}", "a b"),
        ("{.items[?(@.n>1)].metadata.name}", "b"),
        ("{.items[?(@.metadata.name=='a')].n}", "1"),
        ("{.items[?(@.tags)].n}", "20"),
        ("{.items[?(@.n!=1)].n}", "20"),
        (
            "{range .items[*]}{.metadata.name}:{.n}{'\\n'}{end}done",
            "a:1\nb:20\ndone",
        ),
        ("{range .items[*]}{$.kind} {end}", "List List "),
        (
            "{.items[0].metadata.labels.app\\.kubernetes\\.io/name}",
            "x",
        ),
        ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
        ("{.items[*].absent}", ""),
        ("{.items[7].n}", ""),
        (".kind", "List"),
        ("{.items[0].n}", "1"),
        (
            "{.kind}{\"\\t\"}{.items[1].tags}",
            "List\t[\"p\",\"q\",\"r\"]",
        ),
    ];
    for (template, text) in cases {
        assert_eq!(render(template), text, "{template}");
    }
}

#[test]
fn what_is_no_template_is_said_to_be_wrong_and_where() {
    for (template, why) in [
        ("{.a", "\"}\" is missing at character 4"),
        ("{range .a}x", "{range} without {end} at character 12"),
        ("{end}", "{end} without {range} at character 6"),
        (
            "{.a[}",
            "a number, a name in quotes, * or ?( is missing at character 5",
        ),
        ("{.a['x}", "the quote does not end at character 8"),
        (
            "{.a[::0]}",
            "the step of a slice is at least 1 at character 8",
        ),
        ("{#}", "no path begins here at character 2"),
        (".a b", "unexpected text after the path at character 4"),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert_eq!(error.to_string(), why, "{template}");
    }
    let deep = "{range .a}".repeat(100);
    assert!(Template::parse(&deep).is_err());
    assert!(Template::parse(&format!("{{.{}}}", "a[?(@.".repeat(100))).is_err());
    assert!(Template::parse(&"x".repeat(1 << 17)).is_err());
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z.]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z./ 'é\\\\]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every value within a value, with the path that leads there in two spellings.
fn places(value: &Value, own: (String, String), found: &mut Vec<((String, String), Value)>) {
    found.push((own.clone(), value.clone()));
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let back = items.len() - index;
                let next = (format!("{}[{index}]", own.0), format!("{}[-{back}]", own.1));
                places(item, next, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
                let escaped: String = name.chars().flat_map(|c| ['\\', c]).collect();
                let next = (
                    format!("{}['{quoted}']", own.0),
                    format!("{}.{escaped}", own.1),
                );
                places(field, next, found);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn every_value_is_found_by_the_path_that_leads_to_it(value in values()) {
        let mut all = Vec::new();
        places(&value, ("$".to_owned(), "$".to_owned()), &mut all);
        for ((one, other), expected) in &all {
            for text in [one, other] {
                let path = Path::parse(text).unwrap();
                prop_assert_eq!(path.find(&value), vec![expected], "{}", text);
            }
        }
        let everything = Path::parse("$..*").unwrap();
        prop_assert_eq!(everything.find(&value).len(), all.len());
    }

    #[test]
    fn any_text_is_taken_or_refused(text in "[{}$@.*?()\\[\\]'\"a:0-9,=<>! \\\\-]{0,40}", value in values()) {
        if let Ok(template) = Template::parse(&text) {
            template.render(&value);
        }
    }

    #[test]
    fn text_outside_of_braces_stays(before in "[^{}]{0,10}", after in "[^{}]{0,10}") {
        let template = Template::parse(&format!("{before}{{.kind}}{after}")).unwrap();
        prop_assert_eq!(template.render(&list()), format!("{before}List{after}"));
    }
}
