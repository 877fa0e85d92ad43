//! The data that all requests of a connection share, in either version of HTTP.

use std::{net::IpAddr, sync::Arc};

use hyper::{Request, body::Incoming};
use quota_service::hosts::LocalHost;

use super::{
    Options,
    guard::{self, Bounds, Guarded, RouteBounds},
    timed::Clock,
};
use crate::{peer::Peer, router::Router};

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
    pub(super) fn bounds(&self) -> Arc<Bounds> {
        Arc::new(Bounds {
            options: self.options.clone(),
            clock: Clock::new(self.options.request_timeout),
            host: LocalHost::new(self.local),
        })
    }

    /// Whether a 503 to this request may bear `Retry-After`.
    pub(super) fn retry_after(&self, request: &Request<Incoming>) -> bool {
        let found = self.router.find(request.method(), request.uri().path());
        RouteBounds::of(&found, &self.options).retry_after
    }

    /// Answers one request.
    pub(super) fn answer(&self, request: Request<Incoming>, bounds: &Arc<Bounds>) -> Guarded {
        guard::answer(&self.router, &self.peer, bounds, request)
    }
}
