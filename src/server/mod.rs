//! HTTP listeners: accept connections, enforce limits, drain.
//!
//! `axum::serve` has no timeouts and no limits (a half-sent head or body holds a connection forever), so this module
//! has its own accept loop around hyper-util's server.

pub(crate) mod body;
mod connection;
pub(crate) mod guard;
mod timed;
pub mod tls;

#[cfg(test)]
mod tests;

use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
pub use quota_service::hosts::Hosts;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use body::BodyBudget;
use connection::{Connection, Ends, RequestContext};
use guard::turned_away;
pub use guard::warn;
pub(crate) use guard::{Bounds, Guarded, bounded};
use tls::Tls;

use crate::{
    config::Config,
    metrics::{self, Limit, Listener},
};

/// The limits of a listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// The listener's label in metrics.
    pub listener: Listener,
    /// Most open connections.
    pub connections: usize,
    /// Timeout of a handshake, and of the head of a request.
    pub header_timeout: Duration,
    /// Longest pause in the body of a request.
    pub body_timeout: Duration,
    /// Time from the end of a request's head to the beginning of its response; and time for the peer to take all of the
    /// response, unless it is long-lived.
    pub request_timeout: Duration,
    /// Longest idle time between two requests.
    pub keep_alive: Duration,
    /// Time for requests in progress when the daemon stops.
    pub grace: Duration,
    /// Cancelled when the daemon is about to stop: responses then close their connections, so that callers move
    /// elsewhere.
    pub draining: CancellationToken,
    /// Largest request body.
    pub body_bytes: u64,
    /// Largest body of a request with events.
    pub events_body_bytes: u64,
    /// The allowed hosts of requests; none if any is allowed.
    pub hosts: Option<Hosts>,
    /// The memory budget for the bodies of all requests and responses.
    pub budget: BodyBudget,
    /// Whether a 503 may bear `Retry-After`. The API server repeats a webhook call with this header up to ten times,
    /// which multiplies an overload.
    pub retry_after: bool,
}

impl Options {
    /// The configured limits.
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

    /// With this token: once it is cancelled, responses close their connections.
    pub fn draining_on(self, draining: CancellationToken) -> Self {
        Self { draining, ..self }
    }

    /// With these allowed hosts.
    pub fn with_hosts(mut self, hosts: Hosts) -> Self {
        self.hosts = Some(hosts);
        self
    }
}

/// A bound address that is not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 1024;

/// The wait after a failed accept, usually because file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Bound {
    /// Binds an address; port 0 selects a free port.
    ///
    /// # Errors
    /// The address is in use, or not an address of this host.
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

    /// The address, with the selected port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets requests in progress end within the grace period. Endless responses (watches)
    /// should end by themselves on `stop`.
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
                    // A fresh socket takes these few bytes at once; otherwise the connection just ends.
                    let _ = stream.try_write(full.as_bytes());
                }
                continue;
            };
            let counted = metrics::http_connection(options.listener);
            let (router, options, tls) = (router.clone(), options.clone(), tls.clone());
            let (slots, stop) = (slots.clone(), stop.clone());
            connections.spawn(async move {
                let _held = (slot, counted);
                connection::accept(stream, peer, router, options, tls.as_ref(), slots, stop).await;
            });
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        drain(options.grace, connections).await;
    }
}

/// Serves one connection that was not accepted by a listener, such as a stream in memory.
pub async fn serve_stream<S>(stream: S, peer: Peer, router: Router, options: Options)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = RequestContext {
        peer,
        local: None,
        router,
        slots: Arc::new(Semaphore::new(options.connections)),
        options: Arc::new(options),
    };
    let connection =
        Connection { stream, is_gone: |_| false, is_http2: false, began: Instant::now() };
    let ends = Ends { stop: CancellationToken::new(), invalid: pending() };
    connection::serve(connection, requests, ends).await;
}

/// The next connection; none when the listener stops.
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

/// On Linux, `accept` also reports errors of the new connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until all connections have ended; they have been notified already.
async fn drain(grace: Duration, mut connections: JoinSet<()>) {
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!("requests were cut off, since they took longer than shutdown.grace");
        connections.shutdown().await;
    }
}

/// File descriptors reserved for the ledger's files, NATS and timers: if connections used them up, the ledger could not
/// open its next file, and the daemon would have to stop.
const RESERVE: u64 = 512;

/// Raises the process' limit so that `listeners` can have `connections` each, as far as permitted. Returns how many
/// each can have.
pub fn connections(listeners: usize, connections: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (listeners as u64).saturating_mul(connections as u64).saturating_add(RESERVE);
    let raised = raised(&limit, wanted);
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
            limit
        }
    };
    let fit = fit(&limit, listeners, connections);
    if fit < connections {
        tracing::warn!(
            descriptors = limit.current,
            connections = fit,
            "fewer connections are accepted than limits.connections, since file descriptors are limited (ulimit -n)"
        );
    }
    fit
}

fn raised(limit: &Rlimit, wanted: u64) -> Rlimit {
    let most = limit.maximum.unwrap_or(u64::MAX);
    Rlimit {
        current: limit.current.map(|current| current.max(wanted.min(most))),
        maximum: limit.maximum,
    }
}

/// If there are hardly any descriptors, half of them are for connections.
fn fit(limit: &Rlimit, listeners: usize, connections: usize) -> usize {
    let Some(all) = limit.current else {
        return connections;
    };
    let free = all.saturating_sub(RESERVE).max(all / 2);
    let each = free / (listeners.max(1) as u64);
    usize::try_from(each).map_or(connections, |each| each.clamp(1, connections.max(1)))
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The names of its verified certificate; empty without one.
    pub names: Arc<[String]>,
}
