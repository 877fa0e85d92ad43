//! One connection: handshake, then what serves its requests, in whichever version of HTTP; and its end.

use std::{
    future::{Future, pending},
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::response::Response;
use hyper::{Request, body::Incoming};
use tokio::{io::Interest, net::TcpStream, sync::Semaphore};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    Options, dispatch,
    guard::Bounds,
    http1, http2,
    preface::Begun,
    timed::{Clock, Timed},
    tls::{HTTP2, Tls},
};
use crate::{peer::Peer, routes::Router};

/// Bytes of the head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Serves one connection to its end. `slots`: what connections are counted by.
pub(super) async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    options: Arc<Options>,
    tls: Option<&Tls>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection lost");
        return;
    }
    let local = stream.local_addr().ok().map(|local| local.ip());
    let requests = |names| RequestContext {
        peer: Peer { address, names },
        local,
        router,
        options: options.clone(),
    };
    let Some(tls) = tls else {
        let ends = Ends {
            stop,
            invalid: pending(),
        };
        return plain(stream, requests(Arc::new([])), slots, ends).await;
    };
    match tokio::time::timeout(options.header_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, shown))) => {
            let requests = requests(shown.names.clone());
            let ends = Ends {
                stop,
                invalid: shown.until_invalid(),
            };
            if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
                return http2::serve(stream, requests, slots, ends).await;
            }
            let is_gone = |stream: &TlsStream<TcpStream>| is_gone(stream.get_ref().0);
            http1::serve(stream, is_gone, requests, ends).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "handshake failed"),
    }
}

/// Serves the requests of a stream without TLS, in the version of HTTP that it begins with.
async fn plain<F: Future<Output = ()>>(
    stream: TcpStream,
    requests: RequestContext,
    slots: Arc<Semaphore>,
    ends: Ends<F>,
) {
    let address = requests.peer.address;
    let (stream, phase) = http1::timed(stream, is_gone, &requests.options);
    let begun = tokio::select! {
        begun = Begun::read(stream) => begun,
        () = ends.stop.cancelled() => return,
    };
    match begun {
        Ok(stream) if stream.is_http2() => {
            let stream = stream.map(Timed::into_inner);
            http2::serve(stream, requests, slots, ends).await;
        }
        Ok(stream) => http1::serve_timed(stream, phase, requests, ends).await,
        Err(error) => tracing::debug!(%address, %error, "connection lost"),
    }
}

/// Whether the peer has ended the connection, though not all that it sent is read.
fn is_gone(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE));
    match ready.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(ready)) => ready.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

/// What the requests of a connection have in common: who sends them, and what answers them.
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

/// What ends a connection, besides its two sides.
pub(super) struct Ends<F> {
    /// The listener stops.
    pub(super) stop: CancellationToken,
    /// The caller's certificate is no longer valid.
    pub(super) invalid: F,
}

/// A connection that can take no further requests and end.
pub(super) trait Drain: Future<Output = hyper::Result<()>> {
    fn drain(self: Pin<&mut Self>);
}

impl<F: Future<Output = ()>> Ends<F> {
    /// Serves a connection to its end.
    ///
    /// When the listener stops, requests in progress end as long as the listener waits; when the certificate is no longer
    /// valid, within `patience`; and when `given_up` says why the peer is given up, in the time that it says.
    pub(super) async fn serve(
        self,
        connection: impl Drain,
        address: SocketAddr,
        patience: Duration,
        given_up: impl Future<Output = (&'static str, Duration)>,
    ) {
        let mut connection = pin!(connection);
        let rest = tokio::select! {
            ended = connection.as_mut() => return log_lost(address, ended),
            () = self.stop.cancelled() => None,
            () = self.invalid => {
                tracing::debug!(%address, "the caller's certificate is no longer valid");
                Some(patience)
            }
            (why, rest) = given_up => {
                tracing::debug!(%address, why, "connection given up");
                Some(rest)
            }
        };
        connection.as_mut().drain();
        let ended = match rest {
            None => connection.await,
            Some(rest) => tokio::time::timeout(rest, connection)
                .await
                .unwrap_or(Ok(())),
        };
        log_lost(address, ended);
    }
}

fn log_lost(address: SocketAddr, ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "connection lost");
    }
}
