//! One connection: the handshake, then its requests, in either version of HTTP.

use std::{
    future::{Future, pending},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::{io::Interest, net::TcpStream, sync::Semaphore};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    Options,
    context::RequestContext,
    ends::Ends,
    http1, http2,
    preface::Begun,
    timed::Timed,
    tls::{HTTP2, Tls},
};
use crate::{peer::Peer, router::Router};

/// Serves one connection to its end. `slots` counts the connections.
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

/// Serves the requests of a stream without TLS, in the HTTP version of its first bytes.
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

/// Whether the peer has closed the connection, although unread bytes remain.
fn is_gone(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE));
    match ready.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(ready)) => ready.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}
