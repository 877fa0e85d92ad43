//! What every request of the API passes before it is handled.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts as _, MatchedPath, Query, RawPathParams, Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::{header, request::Parts};
use tokio::sync::watch;

use super::{
    Authenticator, Principal, Role,
    access::{self, Scope},
    lasting::until_revoked,
    refusal,
    register::{Credential, Register},
};
use crate::{
    metrics::{self, AuthRefusal},
    server::Peer,
    writer::now,
};

/// The same router, for callers that are known and may do what they ask for. Each request bears its
/// [`Principal`], and no token any more.
///
/// A request for a path that does not exist is passed on by whoever is known; for one that exists, [`access`] says
/// who may. While nobody needs a token, everybody is `anonymous` and everything is passed on.
pub fn guarded(router: Router, authenticator: Authenticator) -> Router {
    router.layer(middleware::from_fn_with_state(authenticator, guard))
}

async fn guard(
    State(authenticator): State<Authenticator>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let route = parts.extensions.get::<MatchedPath>().cloned();
    let peer = parts.extensions.get::<Peer>().cloned();
    let namespace = match authenticator.asks() {
        true => of_path(&mut parts).await,
        false => None,
    };
    let target = Target {
        route: route.as_ref().map(MatchedPath::as_str),
        namespace: namespace.as_deref(),
        peer: peer.as_ref(),
    };
    let admitted = match authenticator.admit(&target, &mut parts) {
        Ok(admitted) => admitted,
        Err(response) => return *response,
    };
    parts.extensions.insert(admitted.principal.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    match admitted.shown {
        Some((registers, credential)) if !is_complete(response.body()) => {
            let revoked = until_revoked(registers, credential, admitted.principal);
            response.map(|body| {
                let stream = futures::StreamExt::take_until(body.into_data_stream(), revoked);
                Body::from_stream(stream)
            })
        }
        _ => response,
    }
}

/// What a request is for, as whoever routed it knows.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The path, as the router has it; none: there is no such path.
    pub route: Option<&'a str>,
    /// The namespace of the path; none if it is not text, which no handler takes either.
    pub namespace: Option<&'a str>,
    /// Who is at the other end of the connection.
    pub peer: Option<&'a Peer>,
}

/// A caller who may do what he asks for.
pub struct Admitted {
    /// Who it is.
    pub principal: Principal,
    /// What he showed; none: nobody needs a token.
    shown: Option<(watch::Receiver<Arc<Register>>, Credential)>,
}

impl Authenticator {
    /// Finds out who calls, and whether he may do what he asks for. From then on nobody can log his token.
    ///
    /// # Errors
    /// The answer that he gets if he may not.
    pub fn admit(&self, target: &Target<'_>, parts: &mut Parts) -> Result<Admitted, Box<Response>> {
        let Some(mut registers) = self.registers() else {
            parts.headers.remove(header::AUTHORIZATION);
            return Ok(Admitted {
                principal: Principal::anonymous(),
                shown: None,
            });
        };
        let register = registers.borrow_and_update().clone();
        let names = target.peer.map_or(&[][..], |peer| &peer.names);
        let credential = register.credential(&parts.headers, names);
        parts.headers.remove(header::AUTHORIZATION);
        let known = credential.and_then(|credential| {
            let holder = register.holder(&credential, now())?;
            Ok((holder.clone(), credential))
        });
        let (principal, credential) = match known {
            Ok(known) => known,
            Err(reason) => {
                turned_away(self, reason, target.peer, None);
                return Err(Box::new(refusal::unauthenticated(parts.uri.path())));
            }
        };
        if let Err(denied) = authorize(&principal, target, parts) {
            turned_away(self, denied.reason, target.peer, Some(&principal));
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

fn authorize(principal: &Principal, target: &Target<'_>, parts: &Parts) -> Result<(), Denied> {
    let Some(route) = target.route else {
        return Ok(());
    };
    let Some(rule) = access::required(&parts.method, route) else {
        return Err(Denied {
            reason: AuthRefusal::Unlisted,
            roles: &[],
            namespace: None,
        });
    };
    let may = |namespace: &str| {
        rule.roles
            .iter()
            .any(|role| principal.may(*role, namespace))
    };
    let denied = |namespace| {
        let has_role = rule.roles.iter().any(|role| principal.has(*role));
        let reason = if has_role {
            AuthRefusal::Namespace
        } else {
            AuthRefusal::Role
        };
        Err(Denied {
            reason,
            roles: rule.roles,
            namespace,
        })
    };
    let namespaces = match rule.scope {
        Scope::None => return Ok(()),
        Scope::Items if rule.roles.iter().any(|role| principal.has(*role)) => return Ok(()),
        Scope::Items | Scope::Everywhere => Vec::new(),
        Scope::Path => target.namespace.map(str::to_owned).into_iter().collect(),
        Scope::Query => of_query(parts),
    };
    if namespaces.is_empty()
        && !rule
            .roles
            .iter()
            .any(|role| principal.may_everywhere(*role))
    {
        return denied(None);
    }
    match namespaces.into_iter().find(|namespace| !may(namespace)) {
        Some(namespace) => denied(Some(namespace)),
        None => Ok(()),
    }
}

/// The namespace of the path.
async fn of_path(parts: &mut Parts) -> Option<String> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let mut params = params.iter();
    let (_, namespace) = params.find(|(name, _)| *name == "namespace")?;
    Some(namespace.to_owned())
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
    peer: Option<&Peer>,
    principal: Option<&Principal>,
) {
    metrics::auth_refused(reason);
    let Some(held_back) = authenticator.refusals().pass(Instant::now()) else {
        return;
    };
    tracing::warn!(
        reason = metrics::Label::value(reason),
        principal = principal.map(|principal| principal.name().as_str()),
        peer = peer.map(|peer| tracing::field::display(peer.address)),
        held_back,
        "a caller was turned away"
    );
}
