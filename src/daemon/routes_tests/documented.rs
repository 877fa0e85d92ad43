//! The lists of routes in the docs. `UPDATE_DOCS=1 cargo test --lib documented` updates them.

use quota_testkit::docs::documented;

use super::*;
use crate::auth::{Access, Scope, is_of_kubernetes};

fn call(spec: &Spec) -> String {
    let path = spec.path.replace("{namespace}", "{ns}");
    format!("`{} {path}`", spec.method)
}

/// The routes without the static files of the page.
fn listed() -> Vec<Spec> {
    let specs = specs().into_iter();
    specs.filter(|spec| !spec.path.starts_with("/ui/")).collect()
}

#[test]
fn calls() {
    let mut list = String::new();
    for spec in listed() {
        assert!(!spec.about.is_empty(), "{} says nothing", spec.path);
        if !is_of_kubernetes(spec.path) {
            list.push_str(&format!("- {}: {}\n", call(&spec), spec.about));
        }
    }
    documented("api.md", "calls", &list);
}

#[test]
fn access() {
    let mut allowed: Vec<(String, Vec<String>)> = Vec::new();
    for spec in listed() {
        let who = match spec.access {
            Access::Public => "anybody".to_owned(),
            Access::Authenticated => "any authenticated caller".to_owned(),
            Access::Role(roles, scope) => {
                let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
                let place = match scope {
                    Scope::Path => "the namespace",
                    Scope::Query => "the requested namespace, else in any, of which the answer is",
                    Scope::Readable => "any namespace, of which the answer is",
                    Scope::Items => "the namespace of each item",
                    Scope::Everywhere => "all namespaces",
                };
                format!("{} in {place}", roles.join(" or "))
            }
        };
        let call = call(&spec).replace("`GET ", "`");
        match allowed.iter_mut().find(|(known, _)| *known == who) {
            Some((_, calls)) => calls.push(call),
            None => allowed.push((who, vec![call])),
        }
    }
    let mut list = String::new();
    for (who, calls) in allowed {
        list.push_str(&format!("- **{who}**: {}\n", calls.join(", ")));
    }
    documented("security.md", "access", &list);
}
