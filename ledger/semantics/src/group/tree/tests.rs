use std::collections::BTreeMap;

use super::*;
use crate::group::manifest::ManifestSpec;

#[derive(Default)]
struct Groups(BTreeMap<Name, Spec>);

impl Forest for Groups {
    fn spec(&self, name: &str) -> Option<&Spec> {
        self.0.get(name)
    }
    fn children(&self, name: &str) -> Vec<Name> {
        let is_child = |(_, spec): &(&Name, &Spec)| spec.extensions.parent.as_deref() == Some(name);
        let children = self.0.iter().filter(is_child);
        children.map(|(name, _)| name.clone()).collect()
    }
}

fn spec(json: &str) -> Spec {
    let manifest: ManifestSpec = serde_json::from_str(json).unwrap();
    Spec {
        selector: manifest.selector,
        quota: manifest.quota,
        extensions: serde_json::from_str(json).unwrap(),
    }
}

impl Groups {
    /// Sets a group if it is valid; otherwise returns the errors.
    fn set(&mut self, name: &str, json: &str) -> Vec<String> {
        let mut spec = spec(json);
        if spec.selector.is_empty() && !json.contains("selector") {
            spec.selector = serde_json::from_str(r#"{"annotations":{"a":"b"}}"#).unwrap();
        }
        let errors = validate(self, &name.into(), &spec, 3);
        if errors.is_empty() {
            self.0.insert(name.into(), spec);
        }
        errors.iter().map(ToString::to_string).collect()
    }

    fn refuses(&mut self, name: &str, json: &str, error: &str) {
        let errors = self.set(name, json);
        assert!(errors.iter().any(|it| it.starts_with(error)), "{name} {json}: {errors:?}");
    }

    fn accepts(&mut self, name: &str, json: &str) {
        assert_eq!(self.set(name, json), Vec::<String>::new(), "{name} {json}");
    }
}

const PARENT: &str = "metadata.annotations[quota-ledger.io/parent]: ";

#[test]
fn cycles_are_refused_from_whichever_side_they_are_closed() {
    let mut groups = Groups::default();
    groups.refuses("a", r#"{"parent":"a"}"#, PARENT);
    groups.accepts("a", r#"{"parent":"c"}"#);
    groups.accepts("b", r#"{"parent":"a"}"#);
    let error =
        format!("{PARENT}Invalid value: \"b\": a group cannot be part of itself: c -> b -> a -> c");
    groups.refuses("c", r#"{"parent":"b"}"#, &error);
    groups.accepts("c", "{}");
    groups.refuses("c", r#"{"parent":"a"}"#, PARENT);
}

#[test]
fn depth_counts_what_is_above_and_below() {
    let mut groups = Groups::default();
    groups.accepts("a", "{}");
    groups.accepts("b", r#"{"parent":"a"}"#);
    groups.accepts("d", r#"{"parent":"c"}"#);
    groups.refuses("c", r#"{"parent":"b"}"#, PARENT);
    groups.accepts("c", r#"{"parent":"a"}"#);
    groups.refuses("e", r#"{"parent":"d"}"#, PARENT);
}

#[test]
fn guarantees_fit_into_every_limit_above_from_either_side() {
    let mut groups = Groups::default();
    let guaranteed = |pods: u32, parent: &str| {
        format!(r#"{{"parent":"{parent}","guaranteed":{{"pods":"{pods}"}}}}"#)
    };
    let hard = |pods: u32| format!(r#"{{"quota":{{"hard":{{"pods":"{pods}"}}}}}}"#);
    groups.accepts("a", &guaranteed(4, "p"));
    groups.accepts("b", &guaranteed(4, "p"));
    groups.refuses("p", &hard(7), "spec.quota.hard[pods]: Invalid value: \"7\"");
    groups.accepts("p", &hard(8));
    let error = "metadata.annotations[quota-ledger.io/guaranteed][pods]: Invalid value: \"5\"";
    groups.refuses("b", &guaranteed(5, "p"), error);
    groups.accepts("b", &guaranteed(3, "p"));
    groups.refuses("p", &hard(6), "spec.quota.hard[pods]");
    // Also through a group without limits of its own.
    groups.accepts("c", &guaranteed(2, "m"));
    groups.refuses("m", r#"{"parent":"p"}"#, PARENT);
    groups.accepts("c", &guaranteed(1, "m"));
    groups.accepts("m", r#"{"parent":"p"}"#);
    groups.refuses("c", &guaranteed(2, "m"), error.split("[pods]").next().unwrap());
    // The guarantee of a group includes those of its children.
    groups.accepts("m", &guaranteed(1, "p"));
}

#[test]
fn only_a_group_with_children_may_select_nothing_and_only_one_without_may_count_in_part() {
    let mut groups = Groups::default();
    groups.refuses("p", r#"{"selector":{}}"#, "spec.selector: Required value: must restrict");
    groups.accepts("a", r#"{"parent":"p"}"#);
    groups.accepts("p", r#"{"selector":{}}"#);
    groups.refuses("p", r#"{"quota":{"scopes":["BestEffort"]}}"#, "spec.quota.scopes: Forbidden");
    groups.refuses(
        "p",
        r#"{"objects":{"matchLabels":{"a":"b"}}}"#,
        "metadata.annotations[quota-ledger.io/objects]",
    );
    groups.refuses("p", r#"{"each":true}"#, "metadata.annotations[quota-ledger.io/each]");
    groups.accepts("a", r#"{"parent":"p","quota":{"scopes":["BestEffort"]}}"#);
    groups.refuses("b", r#"{"parent":"a"}"#, PARENT);
}
