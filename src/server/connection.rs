//! One connection: the handshake, then its requests, in either version of HTTP.

use std::{
    future::{Future, pending},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::Router;
use tokio::{
    io::Interest,
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    Options,
    context::RequestContext,
    ends::Ends,
    http1, http2,
    tls::{HTTP2, Tls},
};
use crate::{
    metrics::{self, Limit},
    peer::Peer,
};

/// The beginning of every HTTP/2 connection, which no HTTP/1 request has (RFC 9113, section 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first wait for the rest of the preface.
const PAUSE: Duration = Duration::from_millis(1);

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
        let began = Instant::now();
        // Without a handshake only the first bytes tell the version.
        let is_http2 = tokio::select! {
            is_http2 = timeout(options.header_timeout, speaks_http2(&stream)) => is_http2,
            () = stop.cancelled() => return,
        };
        let requests = requests(Arc::new([]));
        let ends = Ends {
            stop,
            invalid: pending(),
        };
        match is_http2 {
            Ok(Ok(true)) => http2::serve(stream, requests, slots, ends).await,
            Ok(Ok(false)) => http1::serve(stream, is_gone, began, requests, ends).await,
            Ok(Err(error)) => tracing::debug!(%address, %error, "connection lost"),
            Err(_) => {
                metrics::limit_reached(Limit::HeaderTimeout);
                tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "connection lost");
            }
        }
        return;
    };
    match timeout(options.header_timeout, tls.accept(stream)).await {
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
            http1::serve(stream, is_gone, Instant::now(), requests, ends).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "handshake failed"),
    }
}

/// Whether a connection begins with HTTP/2. The bytes stay in the stream, for those who serve it.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut pause = PAUSE;
    loop {
        let mut first = [0; PREFACE.len()];
        let count = stream.peek(&mut first).await?;
        let may_follow = (1..PREFACE.len()).contains(&count) && first[..count] == PREFACE[..count];
        if !may_follow || is_gone(stream) {
            return Ok(first == PREFACE);
        }
        // A stream with unread bytes is always ready, so nothing signals that more have arrived. The waits get
        // longer, so that a peer that sends no more causes few of them.
        sleep(pause).await;
        pause *= 2;
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
