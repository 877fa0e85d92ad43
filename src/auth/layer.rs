//! Whether a caller may do what a request asks for.

use std::{sync::Arc, time::Instant};

use axum::{body::Body, extract::Query, response::Response};
use http::{header, request::Parts};
use tokio::sync::watch;

use super::{
    Access, Authenticator, Principal, Role, Scope,
    lasting::until_revoked,
    refusal,
    register::{Credential, Register},
};
use crate::{
    metrics::{self, AuthRefusal},
    peer::Peer,
    writer::now,
};

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// There is no such path: whoever is known gets to know that.
    Nothing,
    /// What its route asks for.
    Role(Access),
    /// There is such a path, but not with this method: nobody may.
    Unlisted,
}

/// What a request is for, as whoever routed it knows.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it needs.
    pub needed: Needed,
    /// The namespace of the path; none if it is not text, which no handler takes either.
    pub namespace: Option<&'a str>,
    /// Who is at the other end of the connection.
    pub peer: &'a Peer,
}

/// A caller who may do what he asks for.
pub struct Admitted {
    /// Who it is.
    pub principal: Principal,
    /// What he showed; none: nobody needs a token.
    shown: Option<(watch::Receiver<Arc<Register>>, Credential)>,
}

impl Admitted {
    /// The answer, which ends with the caller's rights if it is a stream.
    #[must_use]
    pub(crate) fn until_revoked(self, response: Response) -> Response {
        match self.shown {
            Some((registers, credential)) if !is_complete(response.body()) => {
                let revoked = until_revoked(registers, credential, self.principal);
                response.map(|body| {
                    let stream = futures::StreamExt::take_until(body.into_data_stream(), revoked);
                    Body::from_stream(stream)
                })
            }
            _ => response,
        }
    }
}

impl Authenticator {
    /// Finds out who calls, and whether he may do what he asks for. From then on nobody can log his token.
    ///
    /// # Errors
    /// The answer that he gets if he may not.
    pub fn admit(
        &self,
        request: &Request<'_>,
        parts: &mut Parts,
    ) -> Result<Admitted, Box<Response>> {
        let Some(mut registers) = self.registers() else {
            parts.headers.remove(header::AUTHORIZATION);
            return Ok(Admitted {
                principal: Principal::anonymous(),
                shown: None,
            });
        };
        let register = registers.borrow_and_update().clone();
        let credential = register.credential(&parts.headers, &request.peer.names);
        parts.headers.remove(header::AUTHORIZATION);
        let known = credential.and_then(|credential| {
            let holder = register.holder(&credential, now())?;
            Ok((holder.clone(), credential))
        });
        let (principal, credential) = match known {
            Ok(known) => known,
            Err(reason) => {
                turned_away(self, reason, request.peer, None);
                return Err(Box::new(refusal::unauthenticated(parts.uri.path())));
            }
        };
        if let Err(denied) = authorize(&principal, request, parts) {
            turned_away(self, denied.reason, request.peer, Some(&principal));
            let namespace = denied.namespace.as_deref();
            let response = refusal::forbidden(parts, &principal, denied.roles, namespace);
            return Err(Box::new(response));
        }
        Ok(Admitted {
            principal,
            shown: Some((registers, credential)),
        })
    }
}

/// Whether an answer is there as a whole, and not a watch.
fn is_complete(body: &Body) -> bool {
    hyper::body::Body::size_hint(body).exact().is_some()
}

/// Why a principal may not do something.
struct Denied {
    reason: AuthRefusal,
    roles: &'static [Role],
    /// None: all namespaces.
    namespace: Option<String>,
}

fn authorize(principal: &Principal, request: &Request<'_>, parts: &Parts) -> Result<(), Denied> {
    let (roles, scope) = match request.needed {
        Needed::Nothing | Needed::Role(Access::Public | Access::Authenticated) => return Ok(()),
        Needed::Role(Access::Role(roles, scope)) => (roles, scope),
        Needed::Unlisted => {
            return Err(Denied {
                reason: AuthRefusal::Unlisted,
                roles: &[],
                namespace: None,
            });
        }
    };
    let has_role = || roles.iter().any(|role| principal.has(*role));
    let may = |namespace: &str| roles.iter().any(|role| principal.may(*role, namespace));
    let may_everywhere = || roles.iter().any(|role| principal.may_everywhere(*role));
    let denied = |namespace| {
        let reason = match has_role() {
            true => AuthRefusal::Namespace,
            false => AuthRefusal::Role,
        };
        Err(Denied {
            reason,
            roles,
            namespace,
        })
    };
    let namespaces = match scope {
        Scope::Items if has_role() => return Ok(()),
        Scope::Items | Scope::Everywhere => Vec::new(),
        Scope::Path => request.namespace.map(str::to_owned).into_iter().collect(),
        Scope::Query => of_query(parts),
    };
    if namespaces.is_empty() && !may_everywhere() {
        return denied(None);
    }
    match namespaces.into_iter().find(|namespace| !may(namespace)) {
        Some(namespace) => denied(Some(namespace)),
        None => Ok(()),
    }
}

/// The namespaces of the query, read as handlers read it; an empty one counts as none.
fn of_query(parts: &Parts) -> Vec<String> {
    let Ok(Query(query)) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri) else {
        return Vec::new();
    };
    let namespaces = query.into_iter().filter(|(name, _)| name == "namespace");
    let namespaces: Vec<_> = namespaces.map(|(_, namespace)| namespace).collect();
    if namespaces.iter().any(String::is_empty) {
        return Vec::new();
    }
    namespaces
}

fn turned_away(
    authenticator: &Authenticator,
    reason: AuthRefusal,
    peer: &Peer,
    principal: Option<&Principal>,
) {
    metrics::auth_refused(reason);
    let Some(held_back) = authenticator.refusals().pass(Instant::now()) else {
        return;
    };
    tracing::warn!(
        reason = metrics::Label::value(reason),
        principal = principal.map(|principal| principal.name().as_str()),
        peer = %peer.address,
        held_back,
        "a caller was turned away"
    );
}
