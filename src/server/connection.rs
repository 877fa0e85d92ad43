//! One connection: handshake, requests, end.

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use hyper::{
    Request,
    body::{Body as _, Incoming},
    rt::{Sleep, Timer},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{
    Options,
    body::Answer,
    dispatch,
    guard::Bounds,
    http2,
    timed::{Clock, Phase, Timed, Timeouts},
    tls::{HTTP2, Tls},
};
use crate::{peer::Peer, routes::Router};

/// Bytes of the head of a request.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header fields of a request.
const HEADERS_MAX: usize = 100;

/// Serves one connection to its end. `slots`: what connections are counted by.
pub(super) async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    options: &Arc<Options>,
    tls: Option<&Tls>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection lost");
        return;
    }
    let local = stream.local_addr().ok().map(|local| local.ip());
    let Some(tls) = tls else {
        let peer = Peer {
            address,
            names: Arc::new([]),
        };
        let ends = Ends {
            stop,
            invalid: pending(),
        };
        return requests(stream, is_gone, (peer, local), router, options, ends).await;
    };
    match tokio::time::timeout(options.header_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, shown))) => {
            let names = shown.names.clone();
            let peer = Peer { address, names };
            let ends = Ends {
                stop,
                invalid: shown.until_invalid(),
            };
            if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
                return http2::serve(stream, peer, router, options, slots, ends).await;
            }
            let is_gone = |stream: &TlsStream<TcpStream>| is_gone(stream.get_ref().0);
            requests(stream, is_gone, (peer, local), router, options, ends).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => tracing::debug!(%address, error = %io::ErrorKind::TimedOut, "handshake failed"),
    }
}

/// What ends a connection, besides its two sides.
pub(super) struct Ends<F> {
    /// The listener stops.
    pub(super) stop: CancellationToken,
    /// What the caller showed does not count any more.
    pub(super) invalid: F,
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

/// Serves the requests of a stream, once it is known who sends them; `is_gone` says whether the peer has ended it,
/// though not all that it sent is read.
pub(super) async fn requests<S, F>(
    stream: S,
    is_gone: fn(&S) -> bool,
    (peer, local): (Peer, Option<IpAddr>),
    router: Router,
    options: &Arc<Options>,
    ends: Ends<F>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()>,
{
    let address = peer.address;
    let phase = Phase::new();
    let timeouts = Timeouts {
        head: options.header_timeout,
        idle: options.keep_alive,
        answer: options.request_timeout,
    };
    let stream = Timed::new(stream, is_gone, phase.clone(), timeouts);
    let (keep_alive, head) = (options.keep_alive, options.header_timeout);
    let bounds = Arc::new(Bounds {
        options: options.clone(),
        clock: Clock::new(options.request_timeout),
        local,
    });
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let answered = dispatch::answer(&router, request, &peer, &bounds);
        let phase = phase.clone();
        async move {
            let response = answered.await;
            phase.answer(response.body().size_hint().exact().is_none());
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, phase, timeouts.shorter())))
        }
    });
    let connection = http1::Builder::new()
        // Makes hyper look at the stream again between two requests, where the timers are.
        .timer(Endless)
        .header_read_timeout(keep_alive + head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ends.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = ends.invalid => {
            tracing::debug!(%address, "the caller's certificate does not count any more");
            connection.as_mut().graceful_shutdown();
            // What is being answered was asked for in time; a watch lasts for longer.
            let answered = tokio::time::timeout(options.request_timeout, connection);
            answered.await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
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
