//! One connection: handshake, requests, end.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use axum::{Router, body::Body, response::Response};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tower::ServiceExt as _;

use super::{
    Options,
    body::Answer,
    timed::{Patience, Phase, Timed},
    tls::Tls,
};

/// Who is at the other end of a connection. An extension of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The names in its verified certificate, the common name included; none without one.
    pub names: Arc<[String]>,
}

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header fields of a request.
const HEADERS_MAX: usize = 100;

/// Serves one connection to its end.
pub(super) async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    options: &Options,
    tls: Option<&Tls>,
    watcher: Watcher,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection lost");
        return;
    }
    let Some(tls) = tls else {
        let peer = Peer {
            address,
            names: Arc::new([]),
        };
        return requests(stream, peer, router, options, watcher).await;
    };
    match tokio::time::timeout(options.header_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, names))) => {
            requests(stream, Peer { address, names }, router, options, watcher).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "handshake failed"),
    }
}

/// Serves the requests of a stream, once it is known who sends them.
pub(super) async fn requests<S>(
    stream: S,
    peer: Peer,
    router: Router,
    options: &Options,
    watcher: Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = peer.address;
    let phase = Phase::new();
    let patience = Patience {
        head: options.header_timeout,
        idle: options.keep_alive,
    };
    let stream = Timed::new(stream, phase.clone(), patience);
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        let answered = router.clone().oneshot(request);
        let phase = phase.clone();
        async move {
            let response: Result<Response, Infallible> = answered.await;
            response.map(|response| response.map(|body| Answer::new(body, phase)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Makes hyper look at the stream again between two requests; the stream has the finer timers.
        .header_read_timeout(options.keep_alive + options.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%address, %error, "connection lost");
    }
}
