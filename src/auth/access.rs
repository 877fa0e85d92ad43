//! The access that a route requires. Each route states it where it is declared; there is no default.

use super::Role;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the listener: tokens are not checked.
    Public,
    /// Every authenticated caller: the answer reveals nothing about a namespace.
    Authenticated,
    /// Callers that have any of these roles in this scope; without roles, nobody.
    Role(&'static [Role], Scope),
}

/// The namespaces in which a role is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the namespace of the path.
    Path,
    /// In the namespace of the query; without one, as [`Scope::Readable`].
    Query,
    /// In any namespace: the answer is about those namespaces alone in which the caller has the role `read`.
    Readable,
    /// In the namespace of each item of the body, which the handler checks; the router requires the role in any
    /// namespace.
    Items,
    /// In all namespaces.
    Everywhere,
}
