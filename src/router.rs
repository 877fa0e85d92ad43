//! Builds axum's router from the route table. Each route's service checks access and calls the handler.
//!
//! The limits of the listener apply within this service ([`guard`](crate::server)), not in layers around the router:
//! they depend on the route, and each of axum's layers is one more boxed future per request.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter},
};
use futures::future::Either;
use http::{Method, header};
use quota_semantics::Name;
use tower::Service;

use crate::{
    auth::{Access, Admitted, Authenticator, Principal, Scope},
    cluster::Cluster,
    peer::Peer,
    problem::{Problem, Reason},
    routes::{BodyLimit, ResponseFuture, Route, path_parameters},
    server::{Bounds, Guarded},
};

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
    #[must_use]
    pub(crate) fn with_authenticator(mut self, authenticator: Authenticator) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Restricts one path to authorized callers.
    #[must_use]
    pub(crate) fn with_authenticator_at(
        mut self,
        path: &'static str,
        authenticator: Authenticator,
    ) -> Self {
        self.guarded = Some(path);
        self.with_authenticator(authenticator)
    }

    /// In a cluster, if there is one: the leader answers writes.
    #[must_use]
    pub(crate) fn in_cluster(mut self, cluster: Option<Cluster>) -> Self {
        self.cluster = cluster;
        self
    }

    /// For the other nodes of the cluster, which have authorized the callers.
    #[must_use]
    pub(crate) fn for_nodes_of(mut self, cluster: Cluster) -> Self {
        self.is_for_nodes = true;
        self.in_cluster(Some(cluster))
    }

    /// With other responses to requests without a handler.
    #[must_use]
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

/// Axum's router for these routes.
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
