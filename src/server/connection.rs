//! One connection: handshake, requests, end.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use hyper::{
    Request,
    body::Incoming,
    rt::{Sleep, Timer},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{rt::TokioIo, server::graceful::Watcher};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::{
    Options, Routes,
    body::Answer,
    guard::Bounds,
    timed::{Clock, Patience, Phase, Timed},
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
    routes: Routes,
    options: &Arc<Options>,
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
        return requests(stream, is_gone, peer, routes, options, watcher).await;
    };
    match tokio::time::timeout(options.header_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, names))) => {
            let peer = Peer { address, names };
            let is_gone = |stream: &TlsStream<TcpStream>| is_gone(stream.get_ref().0);
            requests(stream, is_gone, peer, routes, options, watcher).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "handshake failed"),
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

/// Serves the requests of a stream, once it is known who sends them; `is_gone` tells whether the peer has ended it,
/// though not all that it sent is read.
pub(super) async fn requests<S>(
    stream: S,
    is_gone: fn(&S) -> bool,
    peer: Peer,
    routes: Routes,
    options: &Arc<Options>,
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
    let stream = Timed::new(stream, is_gone, phase.clone(), patience);
    let (keep_alive, head) = (options.keep_alive, options.header_timeout);
    let bounds = Arc::new(Bounds {
        options: options.clone(),
        clock: Clock::new(options.request_timeout),
    });
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let answered = routes.answer(request, &peer, &bounds);
        let phase = phase.clone();
        async move {
            let response = answered.await;
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, phase, patience.shorter())))
        }
    });
    let connection = http1::Builder::new()
        // Makes hyper look at the stream again between two requests, where the timers are.
        .timer(Endless)
        .header_read_timeout(keep_alive + head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%address, %error, "connection lost");
    }
}

/// A timer that never ends: hyper's own would be set and taken back for every request.
#[derive(Clone, Copy, Debug)]
struct Endless;

impl Timer for Endless {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    /// Any time will do.
    fn now(&self) -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START
    }
}

impl Sleep for Endless {}

impl Future for Endless {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
