//! The connection to the NATS server.

use std::time::Duration;

use async_nats::{Client, Event, ServerAddr};
use quota_service::nats::{self, Connection};
use tokio::sync::watch;

pub use quota_service::nats::SetupError;

use super::Status;
use crate::config::{self, Period};

/// Begins to connect, and goes on until it succeeds, now and after each loss. The receiver says whether there is
/// a connection. Whoever `is_in_cluster` gives servers up sooner that do not answer: a node that begins to lead grants only
/// once it has caught up.
pub(super) async fn connect(
    settings: &config::Nats,
    is_in_cluster: bool,
    status: &Status,
) -> Result<(Client, watch::Receiver<bool>), SetupError> {
    let (connected, is_connected) = watch::channel(false);
    let status = status.clone();
    status.set_connected(false);
    let connection = match is_in_cluster {
        true => &promptly(settings),
        false => &settings.connection,
    };
    let mut options = connection.options("quotad").await?;
    if is_in_cluster {
        options = options
            .ping_interval(PATIENCE.get())
            .request_timeout(Some(REQUEST_PATIENCE));
    }
    let options = options
        .subscription_capacity(settings.fetch_messages.get().saturating_mul(4))
        .event_callback(move |event| {
            report(&event, &connected, &status);
            std::future::ready(())
        });
    let client = options.connect(servers_of(settings)?).await?;
    Ok((client, is_connected))
}

/// A connection for something else than the intake; it connects, and goes on to, in the background.
pub(crate) async fn plain(settings: &config::Nats, name: &str) -> Result<Client, SetupError> {
    let options = settings.connection.options(name).await?;
    Ok(options.connect(servers_of(settings)?).await?)
}

/// A connection to the servers that hold the log of a cluster, with the credentials of the stream's. It is tried again
/// at short intervals, since nothing is granted meanwhile.
pub(crate) async fn to_log(settings: &config::Nats, servers: &str) -> Result<Client, SetupError> {
    let options = promptly(settings).options("quotad cluster").await?;
    // A leader needs no hint of its own appends.
    let options = options.ping_interval(PATIENCE.get()).no_echo();
    Ok(options.connect(nats::addresses(servers)?).await?)
}

/// How long a server may take to connect while nothing is granted, and how often it is asked whether it is there: after
/// three times as long without an answer the connection is given up.
const PATIENCE: Period = Period::from_secs(1);

/// How long a server may take to answer a question about a stream: while servers elect its leader, nobody does.
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);

/// Longest wait between two attempts to connect while nothing is granted.
const BACKOFF: Period = Period::from_millis(100);

/// A connection that is tried again at short intervals.
fn promptly(settings: &config::Nats) -> Connection {
    let connection = &settings.connection;
    Connection {
        connect_timeout: connection.connect_timeout.min(PATIENCE),
        max_backoff: connection.max_backoff.min(BACKOFF),
        ..connection.clone()
    }
}

fn servers_of(settings: &config::Nats) -> Result<Vec<ServerAddr>, SetupError> {
    nats::addresses(settings.url.as_deref().unwrap_or_default())
}

fn report(event: &Event, connected: &watch::Sender<bool>, status: &Status) {
    match event {
        Event::Connected => {
            tracing::info!("NATS is connected");
            status.set_connected(true);
            connected.send_replace(true);
        }
        Event::Disconnected => {
            tracing::warn!("NATS is disconnected");
            status.set_connected(false);
            connected.send_replace(false);
        }
        // Only when the client is dropped.
        Event::Closed => status.set_connected(false),
        Event::LameDuckMode | Event::Draining => tracing::info!("NATS: {event}"),
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            tracing::warn!("NATS: {event}");
        }
    }
}
