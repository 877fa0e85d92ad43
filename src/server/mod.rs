//! HTTP listeners: accept, bound, drain.
//!
//! `axum::serve` sets no timers and no bounds (a half-sent head or body holds a connection for
//! ever), so the accept loop is our own.

mod body;
mod body_budget;
mod connection;
mod context;
pub mod descriptors;
mod dispatch;
mod ends;
mod guard;
mod gzip;
mod hosts;
mod http1;
mod http2;
mod preface;
mod problem;
mod timed;
pub mod tls;
mod warnings;
mod whole;

#[cfg(test)]
mod tests;

use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use body_budget::BodyBudget;
use context::RequestContext;
use ends::Ends;
pub use hosts::Hosts;
use problem::turned_away;
use tls::Tls;
pub use warnings::warn;
pub(crate) use whole::whole;

use crate::{
    config::Config,
    metrics::{self, Limit, Listener},
    peer::Peer,
    router::Router,
};

/// The bounds of a listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the metrics call it.
    pub listener: Listener,
    /// Open connections.
    pub connections: usize,
    /// For a handshake, and for the head of a request.
    pub header_timeout: Duration,
    /// For a pause in the body of a request.
    pub body_timeout: Duration,
    /// From the end of the head of a request to the begin of its answer; and for the peer to take all of it, unless it
    /// lasts.
    pub request_timeout: Duration,
    /// Between two requests.
    pub keep_alive: Duration,
    /// For requests that are being answered when the daemon stops.
    pub grace: Duration,
    /// Cancelled when the daemon is about to stop: answers end their connections, so that callers move elsewhere.
    pub draining: CancellationToken,
    /// Bytes of a request's body.
    pub body_bytes: u64,
    /// Bytes of the body of a request that brings events.
    pub events_body_bytes: u64,
    /// The hosts that requests may be for; none: that is not looked at.
    pub hosts: Option<Hosts>,
    /// For the bodies of all requests and answers at once.
    pub budget: BodyBudget,
    /// Whether 503 may bear `Retry-After`. The API server repeats a webhook call that bears it up to
    /// ten times, which multiplies an overload.
    pub retry_after: bool,
}

impl Options {
    /// The configured bounds.
    #[must_use]
    pub fn new(listener: Listener, config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            listener,
            connections: limits.connections.get(),
            header_timeout: limits.header_timeout.get(),
            body_timeout: limits.body_timeout.get(),
            request_timeout: limits.request_timeout.get(),
            keep_alive: limits.keep_alive.get(),
            grace: config.shutdown.grace.get(),
            draining: CancellationToken::new(),
            body_bytes: limits.request_body_bytes.bytes(),
            events_body_bytes: limits.events_body_bytes.bytes(),
            hosts: None,
            budget: BodyBudget::new(limits.bodies_bytes.bytes()),
            retry_after: !matches!(listener, Listener::Admission),
        }
    }

    /// Whose answers end their connections once this is cancelled.
    #[must_use]
    pub fn draining_on(self, draining: CancellationToken) -> Self {
        Self { draining, ..self }
    }

    /// For requests to these hosts only.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = Some(hosts);
        self
    }
}

/// An address that is listened on, but not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1024;

/// How long to wait when no connection can be accepted, mostly since file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Bound {
    /// Listens on an address; port 0 takes a free port.
    ///
    /// # Errors
    /// The address is taken, or not of this host.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets requests that are being answered end, for as long as the grace
    /// lasts. Endless answers (watches) should end by themselves on `stop`.
    pub async fn serve(
        self,
        router: Router,
        options: Options,
        tls: Option<Tls>,
        stop: CancellationToken,
    ) {
        let options = Arc::new(options);
        let slots = Arc::new(Semaphore::new(options.connections));
        let full = turned_away(options.retry_after);
        let mut connections = JoinSet::new();
        while let Some((stream, peer)) = next(&self.listener, &stop).await {
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                metrics::limit_reached(Limit::Connections);
                if tls.is_none() {
                    // A fresh socket takes these few bytes at once; if not, the connection just ends.
                    let _ = stream.try_write(full.as_bytes());
                }
                continue;
            };
            let counted = metrics::http_connection(options.listener);
            let (router, options, tls) = (router.clone(), options.clone(), tls.clone());
            let (slots, stop) = (slots.clone(), stop.clone());
            connections.spawn(async move {
                let _held = (slot, counted);
                connection::serve(stream, peer, router, options, tls.as_ref(), slots, stop).await;
            });
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        drain(options.grace, connections).await;
    }
}

/// Serves one connection that no listener accepted, to its end: a stream in memory, say.
pub async fn serve_stream<S>(stream: S, peer: Peer, router: Router, options: Options)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = RequestContext {
        peer,
        local: None,
        router,
        options: Arc::new(options),
    };
    let ends = Ends {
        stop: CancellationToken::new(),
        invalid: pending(),
    };
    http1::serve(stream, |_| false, requests, ends).await;
}

/// The next connection; none when it is time to stop.
async fn next(listener: &TcpListener, stop: &CancellationToken) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => return Some(connection),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Linux reports errors of the connection that would have been accepted by accept itself.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Waits until all connections have ended; they know that it is time.
async fn drain(grace: Duration, mut connections: JoinSet<()>) {
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!("requests were cut off, since they took longer than shutdown.grace");
        connections.shutdown().await;
    }
}
