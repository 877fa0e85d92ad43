//! The route table: each route is declared once, with all its properties.
//!
//! Every area of the API (`/v1`, Kubernetes' paths, the webhook, the page, the admin listener) has a function
//! `routes()` that returns its part of the table. Axum's router, the access check, the limits of
//! bodies, the metrics' `route` label, the index page and the tables in the docs are derived from it.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    extract::{FromRequestParts, RawPathParams, Request},
    handler::Handler,
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter},
};
use futures::{FutureExt as _, future::Either};
use http::{Method, header, request::Parts};
use quota_semantics::Name;
use tower::Service;

use crate::{
    auth::{Access, Admitted, Authenticator, Principal, Scope},
    cluster::Cluster,
    problem::{Problem, Reason},
    server::{Bounds, Guarded, Peer},
};

/// The properties of a route, without its handler.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The method; `GET` answers `HEAD` as well.
    pub method: Method,
    /// The path: `{name}` is one segment, `{*name}` for the rest. Also the route's label in metrics.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// The limit of the request's body.
    pub body: BodyLimit,
    /// Whether a 503 may bear `Retry-After`. An API server repeats a webhook call with this header up to ten times,
    /// which multiplies an overload.
    pub retry_after: bool,
    /// Whether a repeated request has no further effect: in a cluster, such a request is sent to the next leader if the
    /// previous one did not answer.
    pub is_idempotent: bool,
    /// Whether the request concerns the node that receives it, regardless of the leader.
    pub is_of_node: bool,
    /// The description of the response, in a line of Markdown.
    pub about: &'static str,
    /// The entry in the description of the API.
    pub operation: Operation,
}

/// The entry of a route in the description of the API (OpenAPI).
#[derive(Clone, Copy, Debug, Default)]
pub struct Operation {
    /// The operation id, from which generated clients derive a function name.
    pub id: &'static str,
    /// Names of query parameters; the suffix `!` makes one required.
    pub query: &'static [&'static str],
    /// The media types of the body, and its schema.
    pub sends: Option<(&'static [&'static str], &'static str)>,
    /// Whether the body is required.
    pub needs_body: bool,
    /// The responses on success: by status a schema, a media type, or empty.
    pub answers: &'static [(u16, &'static str)],
}

/// The limit of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// `limits.request_body_bytes`.
    Request,
    /// `limits.events_body_bytes`.
    Events,
    /// A fixed size.
    Fixed {
        /// Bytes of a body that is kept in memory. The bytes of a longer body are dropped; if `dropped` is not 0, so are
        /// those of a body for which `limits.bodies_bytes` has no room.
        kept: u64,
        /// Further bytes that the handler reads and drops, so that the caller can finish sending and read the response.
        dropped: u64,
    },
}

/// A response in the making.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The handler of a route, which needs a state of type `S`.
pub(crate) type Handle<S> = Arc<dyn Fn(Request, S) -> ResponseFuture + Send + Sync>;

/// A route and its handler, which needs a state of type `S`.
pub struct Route<S = ()> {
    pub(crate) spec: Spec,
    pub(crate) handle: Handle<S>,
}

macro_rules! methods {
    ($($(#[$about:meta])* $name:ident: $method:ident;)*) => {$(
        $(#[$about])*
        pub fn $name<T, S: 'static, H>(path: &'static str, access: Access, handler: H) -> Route<S>
        where
            H: Handler<T, S, Future = ResponseFuture>,
        {
            Route::new(Method::$method, path, access, handler)
        }
    )*};
}

methods! {
    /// A route for `GET` and `HEAD`.
    get: GET;
    /// A route for `POST`.
    post: POST;
    /// A route for `PUT`.
    put: PUT;
    /// A route for `PATCH`.
    patch: PATCH;
    /// A route for `DELETE`.
    delete: DELETE;
}

impl<S: 'static> Route<S> {
    fn new<T, H>(method: Method, path: &'static str, access: Access, handler: H) -> Self
    where
        H: Handler<T, S, Future = ResponseFuture>,
    {
        let spec = Spec {
            method,
            path,
            access,
            body: BodyLimit::Request,
            retry_after: true,
            is_idempotent: false,
            is_of_node: false,
            about: "",
            operation: Operation::default(),
        };
        Self::of(spec, handler)
    }

    /// A route with another handler than the one in the table.
    pub fn of<T, H>(spec: Spec, handler: H) -> Self
    where
        H: Handler<T, S, Future = ResponseFuture>,
    {
        let handle = Arc::new(move |request, state| handler.clone().call(request, state));
        Self { spec, handle }
    }

    /// Sets the description of the response, in a line of Markdown.
    pub fn about(mut self, about: &'static str) -> Self {
        self.spec.about = about;
        self
    }

    /// Sets the operation id, and the responses.
    pub fn operation(mut self, id: &'static str, answers: &'static [(u16, &'static str)]) -> Self {
        self.spec.operation.id = id;
        self.spec.operation.answers = answers;
        self
    }

    /// Sets the query parameters.
    pub fn query(mut self, names: &'static [&'static str]) -> Self {
        self.spec.operation.query = names;
        self
    }

    /// Sets the schema of a JSON body.
    pub fn sends(self, schema: &'static str) -> Self {
        self.sends_as(&["application/json"], schema)
    }

    /// Sets the schema of a body in any of these media types.
    pub(crate) fn sends_as(
        mut self,
        media_types: &'static [&'static str],
        schema: &'static str,
    ) -> Self {
        self.spec.operation.sends = Some((media_types, schema));
        self.spec.operation.needs_body = true;
        self
    }

    /// Makes the body optional.
    pub(crate) fn body_may_be_left_out(mut self) -> Self {
        self.spec.operation.needs_body = false;
        self
    }

    /// Sets another limit of the request's body.
    pub fn body(mut self, limit: BodyLimit) -> Self {
        self.spec.body = limit;
        self
    }

    /// The route's 503 never bears `Retry-After`.
    pub(crate) fn without_retry_after(mut self) -> Self {
        self.spec.retry_after = false;
        self
    }

    /// A repeated request has no further effect.
    pub(crate) fn idempotent(mut self) -> Self {
        self.spec.is_idempotent = true;
        self
    }

    /// The request concerns the node that receives it, regardless of the leader.
    pub fn of_node(mut self) -> Self {
        self.spec.is_of_node = true;
        self
    }

    /// The same route, which refuses requests that do not pass this check before its handler sees them.
    pub(crate) fn checked(
        self,
        check: impl Fn(&Request) -> Result<(), Problem> + Send + Sync + 'static,
    ) -> Self {
        let Self { spec, handle } = self;
        let checked = move |request: Request, state: S| -> ResponseFuture {
            match check(&request) {
                Ok(()) => handle(request, state),
                Err(problem) => Box::pin(ready(problem.into_response())),
            }
        };
        Self { spec, handle: Arc::new(checked) }
    }

    /// The properties of the route.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// The route with the state that its handler needs.
    pub fn with_state(self, state: S) -> Route {
        let Self { spec, handle } = self;
        Route { spec, handle: Arc::new(move |request, ()| handle(request, state.clone())) }
    }
}

/// The routes with the state that their handlers need.
pub fn with_state<S>(routes: Vec<Route<S>>, state: &S) -> Vec<Route>
where
    S: Clone + Send + Sync + 'static,
{
    let bind = |route: Route<S>| route.with_state(state.clone());
    routes.into_iter().map(bind).collect()
}

/// The variable parts of a request's path, percent-decoded.
///
/// # Errors
/// `Malformed` if one is not valid UTF-8.
pub(crate) fn path_parameters(parts: &mut Parts) -> Result<RawPathParams, Problem> {
    let found = RawPathParams::from_request_parts(parts, &()).now_or_never();
    found.and_then(Result::ok).ok_or_else(|| {
        let detail = format!("{} is not percent-encoded UTF-8", parts.uri.path());
        Problem::new(Reason::Malformed, detail)
    })
}

/// The first variable parts of a path, percent-decoded.
#[derive(Clone, Debug)]
pub struct Target<const N: usize>(pub [Name; N]);

impl<const N: usize, S: Send + Sync> FromRequestParts<S> for Target<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = path_parameters(parts)?;
        let mut names = found.iter().map(|(_, name)| Name::from(name));
        Ok(Self(std::array::from_fn(|_| names.next().unwrap_or_default())))
    }
}

/// The label of requests that no route matches.
const UNMATCHED: &str = "_other_";

/// What applies to all routes of a listener. By default they are open to everybody.
#[derive(Clone)]
pub struct Rules {
    authenticator: Option<Authenticator>,
    /// The only path that is restricted to authorized callers; none if all are.
    guarded: Option<&'static str>,
    refuse: fn(Refused, &Method, &str) -> Response,
    /// The cluster, if there is one: its leader answers writes.
    cluster: Option<Cluster>,
    /// Whether the callers are the other nodes of the cluster.
    is_for_nodes: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            authenticator: None,
            guarded: None,
            refuse: Refused::as_problem,
            cluster: None,
            is_for_nodes: false,
        }
    }
}

impl Rules {
    /// Restricts all routes to authorized callers.
    pub(crate) fn with_authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Restricts one path to authorized callers.
    pub(crate) fn with_authenticator_at(
        mut self,
        path: &'static str,
        authenticator: Authenticator,
    ) -> Self {
        self.guarded = Some(path);
        self.with_authenticator(authenticator)
    }

    /// In a cluster, if there is one: the leader answers writes.
    pub(crate) fn in_cluster(mut self, cluster: Option<Cluster>) -> Self {
        self.cluster = cluster;
        self
    }

    /// For the other nodes of the cluster, which have authorized the callers.
    pub(crate) fn for_nodes_of(mut self, cluster: Cluster) -> Self {
        self.is_for_nodes = true;
        self.in_cluster(Some(cluster))
    }

    /// With other responses to requests without a handler.
    pub fn with_refusals(mut self, refuse: fn(Refused, &Method, &str) -> Response) -> Self {
        self.refuse = refuse;
        self
    }
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

/// Axum's router for these routes. Each route's service checks access and calls the handler.
///
/// The limits of the listener apply within this service (`server::guard`), not in layers around the router: they depend
/// on the route, and each of axum's layers is one more boxed future per request.
///
/// # Panics
/// Two routes are the same, or a path is ambiguous: the table is part of the program, and tested.
pub fn router(routes: impl IntoIterator<Item = Route>, rules: Rules) -> axum::Router {
    let rules = Arc::new(rules);
    let nowhere = Endpoint(Arc::new(Shared {
        label: UNMATCHED,
        // Every authenticated caller may learn that the path does not exist.
        access: Access::Authenticated,
        answer: Err(Refused::NoPath),
        rules: rules.clone(),
        nowhere: None,
    }));
    let endpoint = |label, access, answer| {
        Endpoint(Arc::new(Shared {
            label,
            access,
            answer,
            rules: rules.clone(),
            nowhere: Some(nowhere.clone()),
        }))
    };
    let mut paths: BTreeMap<&'static str, (MethodRouter, bool)> = BTreeMap::new();
    for route in routes {
        let (path, access) = (route.spec.path, route.spec.access);
        let filter = MethodFilter::try_from(route.spec.method.clone());
        let filter = filter.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (methods, is_public) = paths.remove(path).unwrap_or((MethodRouter::new(), true));
        let methods = methods.on_service(filter, endpoint(path, access, Ok(route)));
        paths.insert(path, (methods, is_public && access == Access::Public));
    }
    let mut router = axum::Router::new();
    for (path, (methods, is_public)) in paths {
        let access = match is_public {
            // A file of a public page.
            true => Access::Public,
            // The path exists, but not with this method: no role is enough.
            false => Access::Role(&[], Scope::Everywhere),
        };
        let other = endpoint(path, access, Err(Refused::NoMethod));
        router = router.route(path, methods.fallback_service(other));
    }
    router.fallback_service(nowhere)
}

/// The service of a route, or of a path for methods without a route. Clones share it.
#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Shared>);

struct Shared {
    label: &'static str,
    access: Access,
    answer: Result<Route, Refused>,
    rules: Arc<Rules>,
    /// Refuses paths with an empty segment; none if this service itself does.
    nowhere: Option<Endpoint>,
}

impl Service<Request> for Endpoint {
    type Response = Response;
    type Error = Infallible;
    type Future = AnsweredRequest;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> AnsweredRequest {
        // No name is empty: `/api/v1/namespaces//resourcequotas` must not mean all namespaces.
        let endpoint = match &self.0.nowhere {
            Some(nowhere) if request.uri().path().contains("//") => nowhere,
            _ => self,
        };
        AnsweredRequest(match request.extensions_mut().remove::<Arc<Bounds>>() {
            Some(bounds) => Either::Left(bounds.answer(endpoint, request)),
            // Not of a connection.
            None => {
                let peer = request.extensions().get::<Peer>().cloned();
                let peer = peer.unwrap_or_else(|| Peer {
                    address: ([127, 0, 0, 1], 0).into(),
                    names: Arc::new([]),
                });
                Either::Right(endpoint.answer(request, &peer))
            }
        })
    }
}

/// The pending response of an [`Endpoint`].
pub(crate) struct AnsweredRequest(Either<Guarded, PendingResponse>);

impl Future for AnsweredRequest {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

impl Endpoint {
    /// The metrics label of the request: the path in the table, so that the number of label values is bounded.
    pub(crate) fn label(&self) -> &'static str {
        self.0.label
    }

    /// The limit of the request's body.
    pub(crate) fn body(&self) -> BodyLimit {
        let route = self.0.answer.as_ref();
        route.map_or(BodyLimit::Request, |route| route.spec.body)
    }

    /// Whether a 503 may bear `Retry-After`.
    pub(crate) fn retry_after(&self) -> bool {
        let route = self.0.answer.as_ref();
        route.map_or(true, |route| route.spec.retry_after)
    }

    /// Answers a request. All steps that need not wait run at once.
    pub(crate) fn answer(&self, request: Request, peer: &Peer) -> PendingResponse {
        let begun = self.begin(request, peer);
        begun.unwrap_or_else(|response| PendingResponse {
            answering: Box::pin(ready(*response)),
            admitted: None,
            principal: None,
            retry_after: self.retry_after(),
        })
    }

    fn begin(&self, request: Request, peer: &Peer) -> Result<PendingResponse, Box<Response>> {
        let Shared { access, answer, rules, .. } = &*self.0;
        let (mut parts, body) = request.into_parts();
        let mut admitted = None;
        match &rules.authenticator {
            Some(authenticator) if *access != Access::Public && self.is_guarded() => {
                let is_of_path = matches!(access, Access::Role(_, Scope::Path));
                let names = is_of_path.then(|| path_parameters(&mut parts).ok()).flatten();
                let mut names = names.iter().flatten();
                let namespace = names.find_map(|(key, name)| (key == "namespace").then_some(name));
                let caller = authenticator.admit(*access, namespace, peer, &mut parts)?;
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
        if rules.is_for_nodes
            && let Some(cluster) = &rules.cluster
        {
            cluster.admit(&mut parts)?;
        }
        let principal = parts.extensions.get::<Principal>();
        let principal = principal.filter(|principal| !principal.is_anonymous());
        let principal = principal.map(|principal| principal.name().clone());
        let route = match answer {
            Ok(route) => route,
            Err(refused) => {
                let path = parts.uri.path();
                return Err(Box::new((rules.refuse)(*refused, &parts.method, path)));
            }
        };
        let request = Request::from_parts(parts, body);
        let answering = match &rules.cluster {
            Some(cluster) => cluster.answer(&route.spec, request, &route.handle),
            None => (route.handle)(request, ()),
        };
        Ok(PendingResponse { answering, admitted, principal, retry_after: self.retry_after() })
    }

    /// Whether the router's authenticator is responsible for this path.
    fn is_guarded(&self) -> bool {
        let guarded = self.0.rules.guarded;
        guarded.is_none_or(|guarded| guarded == self.label())
    }
}

/// The pending response of a handler.
pub(crate) struct PendingResponse {
    answering: ResponseFuture,
    admitted: Option<Admitted>,
    /// The caller, if it is known and not anonymous.
    principal: Option<Name>,
    retry_after: bool,
}

impl PendingResponse {
    /// The caller, if it has a name of its own: without tokens all callers are anonymous.
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
        Poll::Ready(response)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt as _;

    use super::*;
    use super::{Rules, router};
    use crate::{auth::Access::Public, routes::get};

    #[tokio::test]
    async fn variable_parts_are_decoded() {
        let one = |Target([name]): Target<1>| async move { name.to_string() };
        let two = |Target([namespace, uid]): Target<2>| async move { format!("{namespace}|{uid}") };
        let routes = [
            get("/groups/{name}", Public, one),
            get("/namespaces/{namespace}/reservations/{uid}/commit", Public, two),
            get("/ui/{*path}", Public, one),
        ];
        let router = router(routes, Rules::default());
        for (path, status, expected) in [
            ("/groups/%C3%BC", 200, "ü"),
            ("/namespaces/team-a/reservations/x%2Fy/commit", 200, "team-a|x/y"),
            ("/ui/a/b.js", 200, "a/b.js"),
            ("/groups/%FF", 400, "percent-encoded"),
            ("/namespaces//reservations/x/commit", 404, "nothing"),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{path}");
            let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let is_expected =
                if status == 200 { text == expected } else { text.contains(expected) };
            assert!(is_expected, "{path}: {text}");
        }
    }
}
