//! Authenticates and authorizes a request.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Query, response::Response};
use http::{header, request::Parts};
use tokio::sync::watch;

use super::{
    Access, Authenticator, Principal, Role, Scope, refusal,
    register::{Credential, Register},
};
use crate::{
    clock::now,
    metrics::{self, AuthRefusal},
    peer::Peer,
    request_headers::rare,
};

/// A caller who is authorized for the request.
pub struct Admitted {
    /// The authenticated caller.
    pub principal: Principal,
    /// The presented credential, and the registers to check it against; none if no token is needed.
    shown: Option<(watch::Receiver<Arc<Register>>, Credential)>,
}

impl Admitted {
    /// The response; a stream ends when the caller loses its rights.
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
    /// Authenticates the caller and authorizes the request, which needs this access. `namespace` is that of the path;
    /// none if it is not valid UTF-8, which handlers reject as well. Removes the token from the headers, so that later
    /// code cannot log it.
    ///
    /// # Errors
    /// The response to a caller that is not authorized.
    pub fn admit(
        &self,
        needed: Access,
        namespace: Option<&str>,
        peer: &Peer,
        parts: &mut Parts,
    ) -> Result<Admitted, Box<Response>> {
        let Some(mut registers) = self.registers() else {
            if rare(&parts.headers, &header::AUTHORIZATION).is_some() {
                parts.headers.remove(header::AUTHORIZATION);
            }
            return Ok(Admitted { principal: Principal::anonymous(), shown: None });
        };
        let register = registers.borrow_and_update().clone();
        let credential = register.credential(&parts.headers, &peer.names);
        parts.headers.remove(header::AUTHORIZATION);
        let holder = credential.and_then(|credential| {
            let holder = register.holder(&credential, now())?;
            Ok((holder.clone(), credential))
        });
        let (principal, credential) = match holder {
            Ok(holder) => holder,
            Err(reason) => {
                turned_away(self, reason, peer, None);
                return Err(Box::new(refusal::unauthenticated(parts.uri.path())));
            }
        };
        if let Err(denied) = authorize(&principal, needed, namespace, parts) {
            turned_away(self, denied.reason, peer, Some(&principal));
            let namespace = denied.namespace.as_deref();
            let response = refusal::forbidden(parts, &principal, denied.roles, namespace);
            return Err(Box::new(response));
        }
        Ok(Admitted { principal, shown: Some((registers, credential)) })
    }
}

/// Whether a response body is complete, not an open watch.
fn is_complete(body: &Body) -> bool {
    hyper::body::Body::size_hint(body).exact().is_some()
}

/// Why a principal is not authorized.
struct Denied {
    reason: AuthRefusal,
    roles: &'static [Role],
    /// None means all namespaces.
    namespace: Option<String>,
}

fn authorize(
    principal: &Principal,
    needed: Access,
    namespace: Option<&str>,
    parts: &Parts,
) -> Result<(), Denied> {
    let Access::Role(roles, scope) = needed else {
        return Ok(());
    };
    let has_role = || roles.iter().any(|role| principal.has(*role));
    let may = |namespace: &str| roles.iter().any(|role| principal.may(*role, namespace));
    let may_everywhere = || roles.iter().any(|role| principal.may_everywhere(*role));
    let denied = |namespace| {
        let reason = if roles.is_empty() {
            AuthRefusal::Unlisted
        } else if has_role() {
            AuthRefusal::Namespace
        } else {
            AuthRefusal::Role
        };
        Err(Denied { reason, roles, namespace })
    };
    let namespaces = match scope {
        Scope::Items | Scope::Readable if has_role() => return Ok(()),
        Scope::Items | Scope::Readable | Scope::Everywhere => Vec::new(),
        Scope::Path => namespace.map(str::to_owned).into_iter().collect(),
        Scope::Query => match of_query(parts) {
            namespaces if namespaces.is_empty() && has_role() => return Ok(()),
            namespaces => namespaces,
        },
    };
    if namespaces.is_empty() && !may_everywhere() {
        return denied(None);
    }
    match namespaces.into_iter().find(|namespace| !may(namespace)) {
        Some(namespace) => denied(Some(namespace)),
        None => Ok(()),
    }
}

/// The namespaces of the query, parsed as handlers parse them; an empty one counts as none.
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
    let Some(held_back) = authenticator.refusals().pass() else {
        return;
    };
    tracing::warn!(
        reason = reason.value(),
        principal = principal.map(|principal| principal.name().as_str()),
        peer = %peer.address,
        held_back,
        "request refused"
    );
}

/// The clock may be set forward while a timer runs, so the time that is left is computed again at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Waits until a credential has expired, was removed, or stands for other rights than at the start of the request.
pub(super) async fn until_revoked(
    mut registers: watch::Receiver<Arc<Register>>,
    credential: Credential,
    principal: Principal,
) {
    loop {
        let register = registers.borrow_and_update().clone();
        match register.holder(&credential, now()) {
            Ok(holder) if *holder == principal => {}
            _ => return,
        }
        let expires = register.expires(&credential);
        let expired = async {
            match expires {
                Some(time) => {
                    let left = time.since(now()).nanoseconds();
                    let left = Duration::from_nanos(u64::try_from(left).unwrap_or(0));
                    tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            changed = registers.changed() => if changed.is_err() {
                return;
            }
        }
    }
}
