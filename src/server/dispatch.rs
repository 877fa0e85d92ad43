//! The path of a request to its response: host check, route, limits, handler.

use std::{
    future::{Future, ready},
    sync::Arc,
};

use axum::{extract::Request, response::Response};
use futures::future::Either;
use hyper::body::Incoming;

use super::guard::{self, Bounds, RouteBounds, StartedRequest};
use crate::{peer::Peer, router::Router};

/// Answers a request. Every request passes through here.
pub(super) fn answer(
    router: &Router,
    request: Request<Incoming>,
    peer: &Peer,
    bounds: &Arc<Bounds>,
) -> impl Future<Output = Response> + Send + use<> {
    let options = &bounds.options;
    let hosts = options.hosts.as_ref();
    let host = hosts.map_or(Ok(()), |hosts| hosts.check(&request, &bounds.host));
    let found = match &host {
        Ok(()) => router.find(request.method(), request.uri().path()),
        Err(_) => router.nothing(),
    };
    let route = RouteBounds::of(&found, options);
    let started = StartedRequest::now(&request, &route);
    guard::answer(bounds, route, started, request, |request| match host {
        Ok(()) => {
            let pending = found.answer(request, peer);
            let principal = pending.principal().cloned();
            (Either::Left(pending), principal)
        }
        Err(host) => (Either::Right(ready(guard::misdirected(&host))), None),
    })
}
