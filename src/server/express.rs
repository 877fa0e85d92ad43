//! A way past the router, for the busiest requests.

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::Response};
use futures::future::Either;
use http::Method;
use hyper::body::Incoming;
use tower::ServiceExt as _;

use super::{
    Peer,
    guard::{self, Bounds},
    timed::Clock,
};

/// Answers some requests that the router would answer in the same way, at a fraction of its cost.
///
/// Looking for a route, keeping what was found and a box around each layer cost more than deciding on a
/// reservation. What every request passes, these requests pass as well.
pub trait Express: Send + Sync {
    /// The route of a request, if it can be taken this way.
    fn route(&self, method: &Method, path: &str) -> Option<&'static str>;

    /// Answers a request that has such a route.
    fn answer(
        self: Arc<Self>,
        request: Request,
        peer: Peer,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>>;
}

/// Where requests are answered: what the router serves, and ways past it.
#[derive(Clone)]
pub struct Routes {
    /// It bears its own guard, which has to know what matched.
    router: Router,
    express: Option<Arc<dyn Express>>,
}

impl From<Router> for Routes {
    fn from(router: Router) -> Self {
        Self {
            router,
            express: None,
        }
    }
}

impl Routes {
    /// The same, with a way past the router.
    #[must_use]
    pub fn with_express(self, express: Arc<dyn Express>) -> Self {
        Self {
            express: Some(express),
            ..self
        }
    }

    pub(super) fn map_router(self, map: impl FnOnce(Router) -> Router) -> Self {
        Self {
            router: map(self.router),
            ..self
        }
    }

    pub(super) fn answer(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
        bounds: &Arc<Bounds>,
    ) -> impl Future<Output = Response> + Send + use<> {
        let bounds = bounds.clone();
        if let Some(hosts) = &bounds.options.hosts
            && let Err(host) = hosts.check(&request, bounds.local)
        {
            return Either::Right(Either::Right(guard::misdirected(bounds, request, &host)));
        }
        let way = self.way(request.method(), request.uri().path());
        let peer = peer.clone();
        match way {
            Way::Express(express, route) => {
                let answer = |request| express.answer(request, peer);
                Either::Left(guard::pass(bounds, route, request, answer))
            }
            // In a box, since it is large, and would be moved about with every request.
            Way::Router(router) => {
                let clock = bounds.clock.clone();
                Either::Right(Either::Left(Box::pin(routed(router, request, peer, clock))))
            }
        }
    }

    fn way(&self, method: &Method, path: &str) -> Way {
        let express = self.express.as_ref();
        let taken = express.and_then(|express| Some((express, express.route(method, path)?)));
        match taken {
            Some((express, route)) => Way::Express(express.clone(), route),
            None => Way::Router(self.router.clone()),
        }
    }
}

async fn routed(router: Router, request: Request<Incoming>, peer: Peer, clock: Clock) -> Response {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(clock);
    let answered: Result<Response, Infallible> = router.oneshot(request).await;
    answered.unwrap_or_else(|never| match never {})
}

/// How a request is answered.
enum Way {
    Express(Arc<dyn Express>, &'static str),
    Router(Router),
}
