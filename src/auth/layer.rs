//! Authenticates and authorizes a request.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Query,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use tokio::sync::watch;

use super::{
    Access, Authenticator, Principal, Role, Scope,
    authenticator::{Credential, Register},
};
use crate::{
    clock::now,
    kubernetes_status::{Failure, StatusDetails},
    metrics::{self, AuthRefusal},
    peer::Peer,
    problem::{Problem, Reason},
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
                return Err(Box::new(unauthenticated(parts.uri.path())));
            }
        };
        if let Err(denied) = authorize(&principal, needed, namespace, parts) {
            turned_away(self, denied.reason, peer, Some(&principal));
            let namespace = denied.namespace.as_deref();
            let response = forbidden(parts, &principal, denied.roles, namespace);
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

/// The response does not reveal whether a token is unknown, wrong or expired.
pub(super) fn unauthenticated(path: &str) -> Response {
    let mut response = if is_of_kubernetes(path) {
        let reason = "Unauthorized";
        Failure::new(StatusCode::UNAUTHORIZED, reason, reason).into_response()
    } else {
        let detail = "a valid bearer token or client certificate is needed";
        Problem::new(Reason::Unauthorized, detail).into_response()
    };
    let scheme = HeaderValue::from_static("Bearer realm=\"quotad\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    response
}

/// The caller needs any of these roles in this namespace, or in all namespaces if it is none.
pub(super) fn forbidden(
    parts: &Parts,
    principal: &Principal,
    roles: &[Role],
    namespace: Option<&str>,
) -> Response {
    let path = parts.uri.path();
    if is_of_kubernetes(path) {
        return in_kubernetes_words(principal, &parts.method, path, is_watch(parts))
            .into_response();
    }
    let detail = match roles {
        [] => format!("nobody may {} {path}", parts.method),
        roles => principal.lacks(roles, namespace),
    };
    Problem::new(Reason::Forbidden, detail).into_response()
}

/// Paths that Kubernetes clients use.
pub(crate) fn is_of_kubernetes(path: &str) -> bool {
    ["/api", "/apis", "/openapi", "/version"].iter().any(|root| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn is_watch(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "watch"))
}

/// A request in Kubernetes' terms.
struct KubernetesRequest<'a> {
    group: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
}

impl<'a> KubernetesRequest<'a> {
    /// None if the path does not name a resource.
    fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.split('/').skip(1);
        let group = match (segments.next()?, segments.next()?) {
            ("api", _) => "",
            ("apis", group) => segments.next().map(|_| group)?,
            _ => return None,
        };
        let (mut namespace, mut resource) = ("", segments.next()?);
        let mut name = segments.next().unwrap_or_default();
        if resource == "namespaces" && !name.is_empty() {
            namespace = name;
            if let Some(inner) = segments.next() {
                (resource, name) = (inner, segments.next().unwrap_or_default());
            }
        }
        Some(Self { group, namespace, resource, name })
    }

    fn verb(&self, method: &Method, watch: bool) -> &'static str {
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ if watch => "watch",
            _ if self.name.is_empty() => "list",
            _ => "get",
        }
    }

    fn details(&self) -> StatusDetails {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        StatusDetails {
            kind: given(self.resource),
            name: given(self.name),
            group: given(self.group),
            ..StatusDetails::default()
        }
    }
}

/// In the words of Kubernetes (`forbiddenMessage` in apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
fn in_kubernetes_words(principal: &Principal, method: &Method, path: &str, watch: bool) -> Failure {
    let forbidden = |message: String, details: StatusDetails| {
        let mut failure = Failure::new(StatusCode::FORBIDDEN, "Forbidden", message);
        *failure.details() = details;
        failure
    };
    let user = principal.name().as_str();
    let Some(request) = KubernetesRequest::parse(path) else {
        let verb = method.as_str().to_ascii_lowercase();
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        return forbidden(message, StatusDetails::default());
    };
    let qualified = match request.group {
        "" => request.resource.to_owned(),
        group => format!("{}.{group}", request.resource),
    };
    let about = match request.name {
        "" => qualified,
        name => format!("{qualified} {name:?}"),
    };
    let place = match request.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let verb = request.verb(method, watch);
    let KubernetesRequest { group, resource, .. } = request;
    let message = format!(
        "{about} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
    );
    forbidden(message, request.details())
}
