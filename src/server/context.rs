//! The data that all requests of a connection share, in either version of HTTP.

use std::{convert::Infallible, net::IpAddr, sync::Arc};

use axum::{Router, routing::future::RouteFuture};
use hyper::{Request, body::Incoming};
use quota_service::hosts::LocalHost;
use tower::Service as _;

use super::{
    Options,
    guard::{Bounds, TurnedAway},
    timed::Clock,
};
use crate::peer::Peer;

/// Largest head of a request, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The peer that sends the requests, and the router that answers them.
#[derive(Clone)]
pub(super) struct RequestContext {
    pub(super) peer: Peer,
    /// The local address of the connection; none if it does not come from the network.
    pub(super) local: Option<IpAddr>,
    pub(super) router: Router,
    pub(super) options: Arc<Options>,
}

impl RequestContext {
    /// The limits for sequential requests.
    pub(super) fn bounds(&self, turned_away: Option<TurnedAway>) -> Arc<Bounds> {
        Arc::new(Bounds {
            options: self.options.clone(),
            clock: Clock::new(self.options.request_timeout),
            host: LocalHost::new(self.local),
            peer: self.peer.clone(),
            turned_away,
        })
    }

    /// Answers one request.
    pub(super) fn answer(
        &self,
        mut request: Request<Incoming>,
        bounds: Arc<Bounds>,
    ) -> RouteFuture<Infallible> {
        request.extensions_mut().insert(bounds);
        self.router.clone().call(request)
    }
}
