//! Authentication of HTTP callers, and their rights.
//!
//! A caller presents a bearer token or a client certificate; the tokens file maps it to a [`Principal`], and the [route
//! table](crate::routes) states the role that each route needs. Without a tokens file every caller is `anonymous` and
//! may do everything.

mod principal;
mod rights;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Query, Request},
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::Authority,
};
use quota_client::tokens::PresentedToken;
pub use quota_client::tokens::{Certificate, File, FileError, Issued, Pattern, Role, Token, issue};
use quota_semantics::Timestamp;
use tokio::sync::watch;

pub(crate) use principal::{CHANGE_REASON_MAX_BYTES, is_change_reason, requester};
pub use principal::{Caller, Principal, actor};
pub use rights::{Access, Reader, Scope};

use crate::{
    config::schema,
    log_limiter::LogLimiter,
    metrics::{self, AuthRefusal},
    now,
    problem::{Failure, Problem, Reason, StatusDetails},
    reload::Followed,
    server::{
        Peer,
        guard::{self, rare},
    },
};

/// A larger file is refused.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Authenticates callers. Clones share the register.
#[derive(Clone)]
pub struct Authenticator(Arc<Shared>);

struct Shared {
    /// None if every caller is anonymous.
    register: Option<watch::Sender<Arc<Register>>>,
    refusals: LogLimiter,
}

/// Why a tokens file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("auth.tokens_file = {path}: {cause}", path = path.display())]
pub struct Error {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Authenticator {
    /// An authenticator that requires no token.
    pub fn off() -> Self {
        Self::with(None)
    }

    /// The same authenticator; without any principal if no token is required.
    pub(crate) fn or_nobody(self) -> Self {
        match self.is_required() {
            true => self,
            false => Self::with(Some(watch::channel(Arc::default()).0)),
        }
    }

    /// Reads the configured file, if there is one; the [`Follower`] applies later changes of the file.
    ///
    /// # Errors
    /// The file cannot be read or used.
    pub fn load(config: &schema::Auth) -> Result<(Self, Option<Follower>), Error> {
        let Some(path) = &config.tokens_file else {
            return Ok((Self::off(), None));
        };
        let error = |cause| Error { path: path.clone(), cause };
        let text = read(path).map_err(|cause| error(cause.into()))?;
        let register = Register::from(File::parse(&text).map_err(|cause| error(cause.into()))?);
        tracing::info!(records = register.len(), "callers need a token or certificate");
        let (register, _) = watch::channel(Arc::new(register));
        let authenticator = Self::with(Some(register));
        let follower = Follower {
            authenticator: authenticator.clone(),
            path: path.clone(),
            seen: blake3::hash(text.as_bytes()),
        };
        Ok((authenticator, Some(follower)))
    }

    fn with(register: Option<watch::Sender<Arc<Register>>>) -> Self {
        Self(Arc::new(Shared { register, refusals: LogLimiter::new(1) }))
    }

    /// Whether callers need a token.
    pub(crate) fn is_required(&self) -> bool {
        self.0.register.is_some()
    }

    /// The registers in force over time; none if every caller is anonymous.
    fn registers(&self) -> Option<watch::Receiver<Arc<Register>>> {
        self.0.register.as_ref().map(watch::Sender::subscribe)
    }

    /// Limits the log lines about rejected callers.
    fn refusals(&self) -> &LogLimiter {
        &self.0.refusals
    }
}

/// Follows changes of the tokens file.
pub struct Follower {
    authenticator: Authenticator,
    path: PathBuf,
    /// The hash of the text that was read last, usable or not, so that one bad file is logged once.
    seen: blake3::Hash,
}

impl Followed for Follower {
    type Content = String;

    fn news(&mut self) -> Option<String> {
        match read(&self.path) {
            // An empty file is ignored: an editor that writes in place truncates the file first. A file without tokens
            // needs at least a comment.
            Ok(text) if text.is_empty() => None,
            Ok(text) => (blake3::hash(text.as_bytes()) != self.seen).then_some(text),
            // The file may be missing while it is being replaced; the next look will find it.
            Err(error) => {
                tracing::warn!(%error, "the tokens file cannot be read, the old one stays");
                metrics::tokens_reload_failed();
                None
            }
        }
    }

    fn take(&mut self, text: String) {
        self.seen = blake3::hash(text.as_bytes());
        match File::parse(&text) {
            Ok(file) => {
                let register = Register::from(file);
                tracing::info!(records = register.len(), "a new tokens file is in force");
                if let Some(registers) = &self.authenticator.0.register {
                    registers.send_replace(Arc::new(register));
                }
            }
            Err(error) => {
                tracing::error!(%error, "the new tokens file cannot be used, the old one stays");
                metrics::tokens_reload_failed();
            }
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        let message = format!("is larger than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// All tokens and certificates in force.
#[derive(Debug, Default)]
struct Register {
    tokens: HashMap<String, StoredToken>,
    certificates: HashMap<String, Principal>,
}

#[derive(Debug)]
struct StoredToken {
    /// Compared in constant time, by `blake3::Hash` itself.
    hash: blake3::Hash,
    principal: Principal,
    expires: Option<Timestamp>,
}

/// A credential as presented, without its secret.
#[derive(Clone, Debug)]
enum Credential {
    /// A bearer token.
    Token { id: String, hash: blake3::Hash },
    /// A client certificate with this name.
    Certificate { name: String },
}

impl From<File> for Register {
    fn from(file: File) -> Self {
        let token = |token: Token| {
            let principal = Principal::new(&token.principal, &token.roles, &token.namespaces);
            let (hash, expires) = (token.hash, token.expires);
            let stored = StoredToken { hash, principal, expires };
            (token.id, stored)
        };
        let certificate = |certificate: Certificate| {
            let Certificate { name, principal, roles, namespaces } = certificate;
            (name, Principal::new(&principal, &roles, &namespaces))
        };
        Self {
            tokens: file.tokens.into_iter().map(token).collect(),
            certificates: file.certificates.into_iter().map(certificate).collect(),
        }
    }
}

impl Register {
    /// The number of records.
    fn len(&self) -> usize {
        self.tokens.len() + self.certificates.len()
    }

    /// The credential in these headers, on a connection whose certificate bears these names. A token takes precedence
    /// over a certificate, valid or not; of several names the first one with a record counts.
    fn credential(&self, headers: &HeaderMap, names: &[String]) -> Result<Credential, AuthRefusal> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            let has_record = |name: &&String| self.certificates.contains_key(*name);
            return match names.iter().find(has_record) {
                Some(name) => Ok(Credential::Certificate { name: name.clone() }),
                None if names.is_empty() => Err(AuthRefusal::Missing),
                None => Err(AuthRefusal::Unknown),
            };
        };
        let token = value.to_str().ok().and_then(bearer).and_then(PresentedToken::parse);
        let Some(token) = token.filter(|_| values.next().is_none()) else {
            return Err(AuthRefusal::Malformed);
        };
        Ok(Credential::Token { id: token.id.to_owned(), hash: token.hash() })
    }

    /// The principal that a credential belongs to.
    fn holder(&self, credential: &Credential, now: Timestamp) -> Result<&Principal, AuthRefusal> {
        match credential {
            Credential::Token { id, hash } => {
                let stored = self.tokens.get(id).filter(|stored| stored.hash == *hash);
                let stored = stored.ok_or(AuthRefusal::Unknown)?;
                if stored.expires.is_some_and(|expires| expires <= now) {
                    return Err(AuthRefusal::Expired);
                }
                Ok(&stored.principal)
            }
            Credential::Certificate { name } => {
                self.certificates.get(name).ok_or(AuthRefusal::Unknown)
            }
        }
    }

    /// When a credential expires.
    fn expires(&self, credential: &Credential) -> Option<Timestamp> {
        match credential {
            Credential::Token { id, .. } => self.tokens.get(id)?.expires,
            Credential::Certificate { .. } => None,
        }
    }
}

/// The token in a header value (RFC 6750); the scheme is case-insensitive.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

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
async fn until_revoked(
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
fn unauthenticated(path: &str) -> Response {
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
fn forbidden(
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

// Detects requests of web pages of other origins: a page that a user visits must not be able to write to a ledger on the
// user's machine.

/// Refuses a request of a page of another origin.
///
/// # Errors
/// `CrossOrigin`.
pub(crate) fn refuse_foreign_page(request: &Request) -> Result<(), Problem> {
    match is_foreign_page(request.uri(), request.headers()) {
        false => Ok(()),
        true => Err(Problem::new(
            Reason::CrossOrigin,
            "the request comes from a page of another origin",
        )),
    }
}

/// Whether a page of another origin sends the request. Browsers send the page's origin with every request that writes,
/// other clients do not.
pub(crate) fn is_foreign_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = guard::rare(headers, &header::ORIGIN) else {
        return false;
    };
    let origin = origin.to_str().ok();
    let page = origin.and_then(|origin| origin.split_once("://"));
    page.is_none_or(|(_, authority)| Some(authority) != addressed(uri, headers))
}

/// The host and port to which the request is sent. Over HTTP/2 only the URI has them.
fn addressed<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let host = || headers.get(header::HOST)?.to_str().ok();
    uri.authority().map(Authority::as_str).or_else(host)
}
