//! The route table: each route is declared once, with all its properties.
//!
//! Every area of the API (`/v1`, Kubernetes' paths, the webhook, the page, the admin listener) has a function
//! `routes()` that returns its part of the table. Axum's [router](crate::router::router), the access check, the limits of
//! bodies, the metrics' `route` label, the index page and the tables in the docs are derived from it.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use axum::{
    extract::{FromRequestParts, RawPathParams, Request},
    handler::Handler,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{Method, request::Parts};
use quota_semantics::Name;

use crate::{
    auth::Access,
    problem::{Problem, Reason},
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
    #[must_use]
    pub fn about(mut self, about: &'static str) -> Self {
        self.spec.about = about;
        self
    }

    /// Sets the operation id, and the responses.
    #[must_use]
    pub fn operation(mut self, id: &'static str, answers: &'static [(u16, &'static str)]) -> Self {
        self.spec.operation.id = id;
        self.spec.operation.answers = answers;
        self
    }

    /// Sets the query parameters.
    #[must_use]
    pub fn query(mut self, names: &'static [&'static str]) -> Self {
        self.spec.operation.query = names;
        self
    }

    /// Sets the schema of a JSON body.
    #[must_use]
    pub fn sends(self, schema: &'static str) -> Self {
        self.sends_as(&["application/json"], schema)
    }

    /// Sets the schema of a body in any of these media types.
    #[must_use]
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
    #[must_use]
    pub(crate) fn body_may_be_left_out(mut self) -> Self {
        self.spec.operation.needs_body = false;
        self
    }

    /// Sets another limit of the request's body.
    #[must_use]
    pub fn body(mut self, limit: BodyLimit) -> Self {
        self.spec.body = limit;
        self
    }

    /// The route's 503 never bears `Retry-After`.
    #[must_use]
    pub(crate) fn without_retry_after(mut self) -> Self {
        self.spec.retry_after = false;
        self
    }

    /// A repeated request has no further effect.
    #[must_use]
    pub(crate) fn idempotent(mut self) -> Self {
        self.spec.is_idempotent = true;
        self
    }

    /// The request concerns the node that receives it, regardless of the leader.
    #[must_use]
    pub fn of_node(mut self) -> Self {
        self.spec.is_of_node = true;
        self
    }

    /// The same route, which refuses requests that do not pass this check before its handler sees them.
    #[must_use]
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
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// The route with the state that its handler needs.
    #[must_use]
    pub fn with_state(self, state: S) -> Route {
        let Self { spec, handle } = self;
        Route { spec, handle: Arc::new(move |request, ()| handle(request, state.clone())) }
    }
}

/// The routes with the state that their handlers need.
#[must_use]
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

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        auth::Access::Public,
        router::{Rules, router},
        routes::get,
    };

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
