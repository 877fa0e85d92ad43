//! Which role each path of the API needs, and where. What is not listed, nobody may do.

use http::Method;

use super::Role::{self, Admin, Ingest, Read, Reserve};

/// Who may call a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The method; `GET` is `HEAD` as well, `*` is any.
    pub method: &'static str,
    /// The path, as the router has it.
    pub path: &'static str,
    /// Roles, each of which suffices; none: everybody who is known.
    pub roles: &'static [Role],
    /// Where the role is needed.
    pub scope: Scope,
}

/// Where a role is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nowhere in particular: the answer tells nothing about a namespace.
    None,
    /// In the namespace of the path.
    Path,
    /// In the namespace of the query; without one, in all namespaces.
    Query,
    /// In the namespace of each item of the body, which the handler looks at; here, in any.
    Items,
    /// In all namespaces.
    Everywhere,
}

const fn rule(
    method: &'static str,
    path: &'static str,
    roles: &'static [Role],
    scope: Scope,
) -> Rule {
    Rule {
        method,
        path,
        roles,
        scope,
    }
}

/// The whole table.
pub const RULES: &[Rule] = &[
    rule("GET", "/", &[], Scope::None),
    rule("GET", "/v1/status", &[], Scope::None),
    rule("GET", "/v1/usage", &[Read], Scope::Everywhere),
    rule("GET", "/v1/usage/history", &[Read], Scope::Everywhere),
    rule("GET", "/v1/quotas", &[Read], Scope::Everywhere),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/quotas",
        &[Read],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/quotas/{name}",
        &[Read],
        Scope::Path,
    ),
    rule(
        "PUT",
        "/v1/namespaces/{namespace}/quotas/{name}",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "DELETE",
        "/v1/namespaces/{namespace}/quotas/{name}",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/reservations",
        &[Read, Reserve],
        Scope::Path,
    ),
    rule(
        "POST",
        "/v1/namespaces/{namespace}/reservations",
        &[Reserve],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/reservations/{uid}",
        &[Read, Reserve],
        Scope::Path,
    ),
    rule(
        "DELETE",
        "/v1/namespaces/{namespace}/reservations/{uid}",
        &[Reserve],
        Scope::Path,
    ),
    rule(
        "POST",
        "/v1/namespaces/{namespace}/reservations/{uid}/extend",
        &[Reserve],
        Scope::Path,
    ),
    rule(
        "POST",
        "/v1/namespaces/{namespace}/reservations/{uid}/commit",
        &[Reserve],
        Scope::Path,
    ),
    rule("POST", "/v1/reservations:batch", &[Reserve], Scope::Items),
    rule(
        "POST",
        "/v1/namespaces/{namespace}/check",
        &[Read, Reserve],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/usage",
        &[Read],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/objects",
        &[Read],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/usage/history",
        &[Read],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/explain",
        &[Read],
        Scope::Path,
    ),
    rule(
        "GET",
        "/v1/namespaces/{namespace}/denials",
        &[Read],
        Scope::Path,
    ),
    rule("GET", "/v1/denials", &[Read], Scope::Everywhere),
    rule("GET", "/v1/objects", &[Read], Scope::Everywhere),
    // What is listed may be of any namespace, and the answer tells what the ledger has of it.
    rule("POST", "/v1/drift", &[Read], Scope::Everywhere),
    // They put the record of the facts right, whatever its sources told.
    rule("POST", "/v1/corrections", &[Admin], Scope::Everywhere),
    // They cost the cluster's API server something.
    rule("POST", "/v1/relist", &[Admin], Scope::Everywhere),
    rule("GET", "/v1/entries", &[Read], Scope::Query),
    rule("GET", "/v1/watch", &[Read], Scope::Query),
    // They hold whatever was sent, so nobody else is to see them.
    rule("GET", "/v1/dead-letters", &[Admin], Scope::Everywhere),
    rule("GET", "/v1/backup", &[Admin], Scope::Everywhere),
    // Facts, limits among them while `quotas.adopt` is on.
    rule("POST", "/v1/events", &[Ingest], Scope::Everywhere),
    // A review names its namespace in the body, and one API server sends those of all namespaces.
    rule("POST", "/admit", &[Reserve], Scope::Everywhere),
    // It can give back what `/admit` has reserved, and nothing else.
    rule("POST", "/audit", &[Reserve], Scope::Everywhere),
    // The Kubernetes-style API.
    rule("GET", "/version", &[], Scope::None),
    rule("GET", "/api", &[], Scope::None),
    rule("GET", "/apis", &[], Scope::None),
    rule("GET", "/api/v1", &[], Scope::None),
    rule("GET", "/openapi/v2", &[], Scope::None),
    rule("GET", "/openapi/v3", &[], Scope::None),
    rule("GET", "/openapi/v3/api/v1", &[], Scope::None),
    rule("GET", "/api/v1/resourcequotas", &[Read], Scope::Everywhere),
    rule(
        "GET",
        "/api/v1/namespaces/{namespace}/resourcequotas",
        &[Read],
        Scope::Path,
    ),
    rule(
        "POST",
        "/api/v1/namespaces/{namespace}/resourcequotas",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "DELETE",
        "/api/v1/namespaces/{namespace}/resourcequotas",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "GET",
        "/api/v1/namespaces/{namespace}/resourcequotas/{name}",
        &[Read],
        Scope::Path,
    ),
    rule(
        "PUT",
        "/api/v1/namespaces/{namespace}/resourcequotas/{name}",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "PATCH",
        "/api/v1/namespaces/{namespace}/resourcequotas/{name}",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "DELETE",
        "/api/v1/namespaces/{namespace}/resourcequotas/{name}",
        &[Admin],
        Scope::Path,
    ),
    rule(
        "GET",
        "/api/v1/namespaces/{namespace}/resourcequotas/{name}/status",
        &[Read],
        Scope::Path,
    ),
    rule("GET", "/api/v1/namespaces", &[Read], Scope::Everywhere),
    rule(
        "GET",
        "/api/v1/namespaces/{namespace}",
        &[Read],
        Scope::Path,
    ),
    // There is nothing else.
];

/// The rule of a path that the router knows.
#[must_use]
pub fn required(method: &Method, path: &str) -> Option<&'static Rule> {
    let method = match *method {
        Method::HEAD => "GET",
        _ => method.as_str(),
    };
    RULES
        .iter()
        .find(|rule| rule.path == path && (rule.method == method || rule.method == "*"))
}
