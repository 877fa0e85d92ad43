//! What the requests of a connection have in common, in whichever version of HTTP they come.

use std::{future::Future, net::IpAddr, sync::Arc};

use axum::response::Response;
use hyper::{Request, body::Incoming};

use super::{Options, dispatch, guard::Bounds, timed::Clock};
use crate::{peer::Peer, router::Router};

/// Bytes of the head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Who sends the requests, and what answers them.
#[derive(Clone)]
pub(super) struct RequestContext {
    pub(super) peer: Peer,
    /// The address that the connection came in at; none: it came from no network.
    pub(super) local: Option<IpAddr>,
    pub(super) router: Router,
    pub(super) options: Arc<Options>,
}

impl RequestContext {
    /// The bounds of requests that come one after the other.
    pub(super) fn bounds(&self) -> Arc<Bounds> {
        Arc::new(Bounds {
            options: self.options.clone(),
            clock: Clock::new(self.options.request_timeout),
            local: self.local,
        })
    }

    /// Answers one of them.
    pub(super) fn answer(
        &self,
        request: Request<Incoming>,
        bounds: &Arc<Bounds>,
    ) -> impl Future<Output = Response> + Send + use<> {
        dispatch::answer(&self.router, request, &self.peer, bounds)
    }
}
