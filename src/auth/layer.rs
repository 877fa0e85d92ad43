//! What every request of the API passes before it is handled.

use std::time::Instant;

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts as _, MatchedPath, Query, RawPathParams, Request, State},
    middleware::{self, Next},
    response::Response,
};
use http::{header, request::Parts};

use super::{
    Authenticator, Principal, Role,
    access::{self, Scope},
    lasting::until_revoked,
    refusal,
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
    let Some(mut registers) = authenticator.registers() else {
        parts.headers.remove(header::AUTHORIZATION);
        parts.extensions.insert(Principal::anonymous());
        return next.run(Request::from_parts(parts, body)).await;
    };
    let register = registers.borrow_and_update().clone();
    let names = parts
        .extensions
        .get::<Peer>()
        .map(|peer| peer.names.clone());
    let credential = register.credential(&parts.headers, names.as_deref().unwrap_or_default());
    // From here on nobody can log it.
    parts.headers.remove(header::AUTHORIZATION);
    let known = credential.and_then(|credential| {
        let holder = register.holder(&credential, now())?;
        Ok((holder.clone(), credential))
    });
    let (principal, credential) = match known {
        Ok(known) => known,
        Err(reason) => {
            turned_away(&authenticator, reason, &parts, None);
            return refusal::unauthenticated(parts.uri.path());
        }
    };
    if let Err(Denied {
        reason,
        roles,
        namespace,
    }) = authorize(&principal, &mut parts).await
    {
        turned_away(&authenticator, reason, &parts, Some(&principal));
        return refusal::forbidden(&parts, &principal, roles, namespace.as_deref());
    }
    parts.extensions.insert(principal.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    if is_complete(response.body()) {
        return response;
    }
    let revoked = until_revoked(registers, credential, principal);
    response.map(|body| {
        let stream = futures::StreamExt::take_until(body.into_data_stream(), revoked);
        Body::from_stream(stream)
    })
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

async fn authorize(principal: &Principal, parts: &mut Parts) -> Result<(), Denied> {
    let Some(path) = parts.extensions.get::<MatchedPath>().cloned() else {
        return Ok(());
    };
    let Some(rule) = access::required(&parts.method, path.as_str()) else {
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
        Scope::Path => of_path(parts).await,
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

/// The namespace of the path; none if it is not text, which no handler takes either.
async fn of_path(parts: &mut Parts) -> Vec<String> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.iter().flat_map(RawPathParams::iter);
    params
        .filter(|(name, _)| *name == "namespace")
        .map(|(_, namespace)| namespace.to_owned())
        .collect()
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
    parts: &Parts,
    principal: Option<&Principal>,
) {
    metrics::auth_refused(reason);
    let Some(held_back) = authenticator.refusals().pass(Instant::now()) else {
        return;
    };
    let peer = parts.extensions.get::<Peer>();
    tracing::warn!(
        reason = metrics::Label::value(reason),
        principal = principal.map(|principal| principal.name().as_str()),
        peer = peer.map(|peer| tracing::field::display(peer.address)),
        held_back,
        "a caller was turned away"
    );
}
