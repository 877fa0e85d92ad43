//! The tables of routes in the docs. `UPDATE_DOCS=1 cargo test --lib documented` updates them.

use std::{env, fs, path::Path};

use super::*;
use crate::auth::{Access, Scope, is_of_kubernetes};

/// Replaces the text between two marks of a page, or demands that it is up to date.
fn check(page: &str, mark: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = (
        format!("<!-- {mark}: begin -->\n"),
        format!("<!-- {mark}: end -->"),
    );
    let (before, rest) = text.split_once(&begin).unwrap();
    let (old, after) = rest.split_once(&end).unwrap();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(
            old, table,
            "docs/{page} is not what the routes are: UPDATE_DOCS=1"
        );
    }
}

fn call(spec: &Spec) -> String {
    let path = spec.path.replace("{namespace}", "{ns}");
    format!("`{} {path}`", spec.method)
}

/// The routes without the static files of the page.
fn listed() -> Vec<Spec> {
    let specs = specs().into_iter();
    specs
        .filter(|spec| !spec.path.starts_with("/ui/"))
        .collect()
}

#[test]
fn calls() {
    let mut table = "| call | answer |\n|---|---|\n".to_owned();
    for spec in listed().iter().filter(|spec| !is_of_kubernetes(spec.path)) {
        assert!(!spec.about.is_empty(), "{} says nothing", spec.path);
        table.push_str(&format!("| {} | {} |\n", call(spec), spec.about));
    }
    check("api.md", "calls", &table);
}

#[test]
fn calls_of_kubernetes() {
    let mut table = "| call | answer |\n|---|---|\n".to_owned();
    for spec in listed().iter().filter(|spec| is_of_kubernetes(spec.path)) {
        assert!(!spec.about.is_empty(), "{} says nothing", spec.path);
        table.push_str(&format!("| {} | {} |\n", call(spec), spec.about));
    }
    check("kubectl.md", "calls", &table);
}

#[test]
fn access() {
    let mut table = "| call | roles | where |\n|---|---|---|\n".to_owned();
    for spec in listed() {
        let (roles, place) = match spec.access {
            Access::Public => ("anybody".to_owned(), ""),
            Access::Authenticated => ("any authenticated caller".to_owned(), ""),
            Access::Role(roles, scope) => {
                let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
                let place = match scope {
                    Scope::Path => "the namespace",
                    Scope::Query => "the requested namespace, else all namespaces",
                    Scope::Items => "the namespace of each item",
                    Scope::Everywhere => "all namespaces",
                };
                (roles.join(", "), place)
            }
        };
        table.push_str(&format!("| {} | {roles} | {place} |\n", call(&spec)));
    }
    check("security.md", "access", &table);
}
