//! The rights that a route needs, and the namespaces that a caller may read.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::{Principal, Role};

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

/// The namespaces that a caller may read.
#[derive(Clone, Debug, Default)]
pub struct Reader(Option<Principal>);

impl Reader {
    /// The namespaces that this principal may read.
    pub fn of(principal: &Principal) -> Self {
        let reads_all = principal.may_everywhere(Role::Read);
        Self((!reads_all).then(|| principal.clone()))
    }

    /// Whether these are all namespaces, and what is in none.
    pub const fn reads_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the caller may read a namespace. The empty name stands for what is in none.
    pub fn reads(&self, namespace: &str) -> bool {
        let principal = self.0.as_ref();
        principal.is_none_or(|principal| principal.may(Role::Read, namespace))
    }
}

impl<S: Sync> FromRequestParts<S> for Reader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&Principal::of(&parts.extensions)))
    }
}
