//! Finds the route of a request, checks access, and calls the handler.

use std::{
    borrow::Cow,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, Method, header};
use quota_semantics::Name;

use crate::{
    auth::{Access, Admitted, Authenticator, Principal, Scope},
    cluster::Cluster,
    peer::Peer,
    problem::{Problem, Reason},
    routes::{BodyLimit, FixedLengths, PathParameters, ResponseFuture, Route, RouteState, Spec},
};

/// The label of requests that no route matches.
const UNMATCHED: &str = "_other_";

/// The routes of a listener. Clones share them.
#[derive(Clone)]
pub struct Router(Arc<Shared>);

struct Shared {
    paths: matchit::Router<Path>,
    authenticator: Option<Authenticator>,
    /// The only path that is restricted to authorized callers; none if all are.
    guarded: Option<&'static str>,
    refuse: fn(Refused, &Method, &str) -> Response,
    /// The cluster, if there is one: its leader answers writes.
    cluster: Option<Cluster>,
    /// Whether the callers are the other nodes of the cluster.
    is_for_nodes: bool,
}

/// The routes of one path.
struct Path {
    label: &'static str,
    gaps: FixedLengths,
    routes: Vec<Route>,
}

/// Why there is no handler for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The path does not exist.
    NoPath,
    /// The path exists, but not with this method.
    NoMethod,
}

impl Refused {
    /// The refusal as a problem.
    #[must_use]
    pub(crate) fn as_problem(self, method: &Method, path: &str) -> Response {
        let (reason, detail) = match self {
            Self::NoPath => (Reason::NotFound, format!("there is nothing at {path}")),
            Self::NoMethod => {
                let detail = format!("{method} is not offered at {path}");
                (Reason::MethodNotAllowed, detail)
            }
        };
        Problem::new(reason, detail).into_response()
    }
}

impl Router {
    /// A router with these routes, open to everybody.
    ///
    /// # Panics
    /// Two routes are the same, or a path is ambiguous: the table is part of the program, and tested.
    #[must_use]
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        for route in routes {
            let label = route.spec.path;
            match paths.iter_mut().find(|path| path.label == label) {
                Some(path) => {
                    let is_new = path.route(&route.spec.method).is_none();
                    assert!(is_new, "{} {label} is declared twice", route.spec.method);
                    path.routes.push(route);
                }
                None => paths.push(Path {
                    label,
                    gaps: FixedLengths::of(label),
                    routes: vec![route],
                }),
            }
        }
        let mut tree = matchit::Router::new();
        for path in paths {
            let label = path.label;
            let inserted = tree.insert(label, path);
            inserted.unwrap_or_else(|error| panic!("{label}: {error}"));
        }
        Self(Arc::new(Shared {
            paths: tree,
            authenticator: None,
            guarded: None,
            refuse: Refused::as_problem,
            cluster: None,
            is_for_nodes: false,
        }))
    }

    /// The same router, restricted to authorized callers.
    #[must_use]
    pub(crate) fn with_authenticator(self, authenticator: Authenticator) -> Self {
        self.map(|shared| shared.authenticator = Some(authenticator))
    }

    /// The same router, of which one path is restricted to authorized callers.
    #[must_use]
    pub(crate) fn with_authenticator_at(
        self,
        path: &'static str,
        authenticator: Authenticator,
    ) -> Self {
        self.map(|shared| {
            shared.authenticator = Some(authenticator);
            shared.guarded = Some(path);
        })
    }

    /// The same router, in a cluster if there is one: the leader answers writes.
    #[must_use]
    pub(crate) fn in_cluster(self, cluster: Option<Cluster>) -> Self {
        self.map(|shared| shared.cluster = cluster)
    }

    /// The same router, for the other nodes of the cluster, which have authorized the callers.
    #[must_use]
    pub(crate) fn for_nodes_of(self, cluster: Cluster) -> Self {
        self.map(|shared| {
            shared.cluster = Some(cluster);
            shared.is_for_nodes = true;
        })
    }

    /// The same router, with other responses to requests without a handler.
    #[must_use]
    pub fn with_refusals(self, refuse: fn(Refused, &Method, &str) -> Response) -> Self {
        self.map(|shared| shared.refuse = refuse)
    }

    fn map(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared =
            Arc::into_inner(self.0).expect("a router is put together before it is shared");
        change(&mut shared);
        Self(Arc::new(shared))
    }

    /// Finds the route of a request.
    #[must_use]
    pub fn find(&self, method: &Method, path: &str) -> Found<'_> {
        let Ok(found) = self.0.paths.at(path) else {
            return self.nothing();
        };
        let places = PathParameters::of(path, &found.value.gaps);
        // No name is empty: `/api/v1/namespaces//resourcequotas` must not mean all namespaces.
        if places.is_any_empty() {
            return self.nothing();
        }
        Found {
            shared: &self.0,
            path: Some(found.value),
            route: found.value.route(method),
            places,
        }
    }

    /// The match for a request without a route.
    #[must_use]
    pub fn nothing(&self) -> Found<'_> {
        Found {
            shared: &self.0,
            path: None,
            route: None,
            places: PathParameters::default(),
        }
    }

    /// Answers a request outside of a connection, without the limits of a listener.
    pub async fn call(&self, request: Request) -> Response {
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.unwrap_or_else(|| Peer {
            address: ([127, 0, 0, 1], 0).into(),
            names: Arc::new([]),
        });
        let found = self.find(request.method(), request.uri().path());
        found.answer(request, &peer).await
    }
}

impl Path {
    fn route(&self, method: &Method) -> Option<&Route> {
        let method = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        self.routes
            .iter()
            .find(|route| route.spec.method == *method)
    }

    /// The value of `Allow`.
    fn allowed(&self) -> Option<HeaderValue> {
        let mut methods = Vec::new();
        for Spec { method, .. } in self.routes.iter().map(Route::spec) {
            methods.push(method.as_str());
            if *method == Method::GET {
                methods.push("HEAD");
            }
        }
        HeaderValue::try_from(methods.join(", ")).ok()
    }
}

/// The match of a router for a request.
#[derive(Clone, Copy)]
pub struct Found<'r> {
    shared: &'r Shared,
    path: Option<&'r Path>,
    route: Option<&'r Route>,
    places: PathParameters,
}

impl Found<'_> {
    /// The metrics label of the request: the path in the table, so that the number of label values is bounded.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.path.map_or(UNMATCHED, |path| path.label)
    }

    /// The limit of the request's body.
    #[must_use]
    pub fn body(&self) -> BodyLimit {
        self.route
            .map_or(BodyLimit::Request, |route| route.spec.body)
    }

    /// Whether a 503 may bear `Retry-After`.
    #[must_use]
    pub(crate) fn retry_after(&self) -> bool {
        self.route.is_none_or(|route| route.spec.retry_after)
    }

    /// Answers the matched request. All steps that need not wait run at once.
    #[must_use]
    pub fn answer(self, request: Request, peer: &Peer) -> PendingResponse {
        let is_head = *request.method() == Method::HEAD;
        let begun = self.begin(request, peer, is_head);
        begun.unwrap_or_else(|response| PendingResponse {
            answering: Box::pin(ready(*response)),
            admitted: None,
            principal: None,
            is_head,
            retry_after: self.retry_after(),
        })
    }

    fn begin(
        &self,
        request: Request,
        peer: &Peer,
        is_head: bool,
    ) -> Result<PendingResponse, Box<Response>> {
        let (mut parts, body) = request.into_parts();
        let needed = self.needed();
        let mut admitted = None;
        match &self.shared.authenticator {
            Some(authenticator) if needed != Access::Public && self.is_guarded() => {
                let uri = authenticator.is_required().then(|| parts.uri.clone());
                let namespace = uri.as_ref().and_then(|uri| self.namespace(uri.path()));
                let caller = authenticator.admit(needed, namespace.as_deref(), peer, &mut parts)?;
                // Without tokens every caller is the same one.
                if authenticator.is_required() {
                    parts.extensions.insert(caller.principal.clone());
                }
                admitted = Some(caller);
            }
            _ => {
                parts.extensions.insert(peer.clone());
            }
        }
        if self.shared.is_for_nodes
            && let Some(cluster) = &self.shared.cluster
        {
            cluster.admit(&mut parts)?;
        }
        let principal = parts.extensions.get::<Principal>();
        let principal = principal.filter(|principal| !principal.is_anonymous());
        let principal = principal.map(|principal| principal.name().clone());
        let Some(route) = self.route else {
            return Err(Box::new(self.refused(&parts.method, parts.uri.path())));
        };
        let request = Request::from_parts(parts, body);
        let call = RouteState {
            places: self.places,
            state: (),
        };
        let answering = match &self.shared.cluster {
            Some(cluster) => cluster.answer(&route.spec, request, call, &route.handle),
            None => (route.handle)(request, call),
        };
        Ok(PendingResponse {
            answering,
            admitted,
            principal,
            is_head,
            retry_after: self.retry_after(),
        })
    }

    /// Whether the router's authenticator is responsible for this path.
    fn is_guarded(&self) -> bool {
        let guarded = self.shared.guarded;
        guarded.is_none_or(|guarded| guarded == self.label())
    }

    fn needed(&self) -> Access {
        match (self.path, self.route) {
            (_, Some(route)) => route.spec.access,
            // A file of a public page.
            (Some(path), None)
                if path
                    .routes
                    .iter()
                    .all(|route| route.spec.access == Access::Public) =>
            {
                Access::Public
            }
            // The path exists, but not with this method: no role is enough.
            (Some(_), None) => Access::Role(&[], Scope::Everywhere),
            // Every authenticated caller may learn that the path does not exist.
            (None, None) => Access::Authenticated,
        }
    }

    /// The namespace of the path; none if it is not valid UTF-8, which handlers reject as well.
    fn namespace<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        let label = self.path?.label;
        let variables = label.split('/').filter(|segment| segment.starts_with('{'));
        let index = variables
            .into_iter()
            .position(|name| name == "{namespace}")?;
        self.places.get(index, path)
    }

    fn refused(&self, method: &Method, path: &str) -> Response {
        let Some(matched) = self.path else {
            return (self.shared.refuse)(Refused::NoPath, method, path);
        };
        let mut response = (self.shared.refuse)(Refused::NoMethod, method, path);
        if let Some(allowed) = matched.allowed() {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        response
    }
}

/// The pending response to a matched request.
pub struct PendingResponse {
    answering: ResponseFuture,
    admitted: Option<Admitted>,
    /// The caller, if it is known and not anonymous.
    principal: Option<Name>,
    is_head: bool,
    retry_after: bool,
}

impl PendingResponse {
    /// The caller, if it has a name of its own: without tokens all callers are anonymous.
    #[must_use]
    pub(crate) const fn principal(&self) -> Option<&Name> {
        self.principal.as_ref()
    }
}

impl Future for PendingResponse {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let mut response = ready!(self.answering.as_mut().poll(cx));
        if let Some(admitted) = self.admitted.take() {
            response = admitted.until_revoked(response);
        }
        if !self.retry_after {
            response.headers_mut().remove(header::RETRY_AFTER);
        }
        Poll::Ready(match self.is_head {
            true => without_body(response),
            false => response,
        })
    }
}

/// The response to `HEAD`: the response to `GET` without its body, but with its length.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        let length = HeaderValue::from(length);
        parts
            .headers
            .entry(header::CONTENT_LENGTH)
            .or_insert(length);
    }
    Response::from_parts(parts, Body::empty())
}
