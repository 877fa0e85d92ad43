//! What a route asks of its callers. Each route states it where it is declared; there is no default.

use super::Role;

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the listener: no token is looked at.
    Public,
    /// Every authenticated caller: the answer reveals nothing about a namespace.
    Authenticated,
    /// Callers with any of these roles, there.
    Role(&'static [Role], Scope),
}

/// Where a role is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the namespace of the path.
    Path,
    /// In the namespace of the query; without one, in all namespaces.
    Query,
    /// In the namespace of each item of the body, which the handler checks; the router asks for the role in any.
    Items,
    /// In all namespaces.
    Everywhere,
}
