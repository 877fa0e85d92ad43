//! The connection to the NATS server.

use std::time::Duration;

use async_nats::{Client, Event, ServerAddr};
use quota_service::nats::{self, Connection};
use tokio::sync::watch;

pub use quota_service::nats::SetupError;

use super::Status;
use crate::config::{self, Period};

/// Connects in the background, and reconnects after each loss. The receiver reports whether there is a connection. With
/// `is_in_cluster`, unresponsive servers are given up sooner: a node that begins to lead grants only once it has caught
/// up with its sources.
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
        options =
            options.ping_interval(CONNECT_TIMEOUT.get()).request_timeout(Some(REQUEST_TIMEOUT));
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

/// A connection for other purposes than the intake; it connects and reconnects in the background.
pub(crate) async fn plain(settings: &config::Nats, name: &str) -> Result<Client, SetupError> {
    let options = settings.connection.options(name).await?;
    Ok(options.connect(servers_of(settings)?).await?)
}

/// A connection to the servers that hold the log of a cluster, with the credentials of the event stream. Retries at
/// short intervals, since nothing is granted without a connection.
pub(crate) async fn to_log(settings: &config::Nats, servers: &str) -> Result<Client, SetupError> {
    let options = promptly(settings).options("quotad cluster").await?;
    // A leader needs no notification of its own appends.
    let options = options.ping_interval(CONNECT_TIMEOUT.get()).no_echo();
    Ok(options.connect(nats::addresses(servers)?).await?)
}

/// The connect timeout, and the interval of pings, of connections without which nothing is granted. A connection
/// without an answer for three intervals is given up.
const CONNECT_TIMEOUT: Period = Period::from_secs(1);

/// The timeout of a request about a stream: while servers elect the stream's leader, none of them answers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait between two attempts to connect while nothing is granted.
const BACKOFF: Period = Period::from_millis(100);

/// A connection with retries at short intervals.
fn promptly(settings: &config::Nats) -> Connection {
    let connection = &settings.connection;
    Connection {
        connect_timeout: connection.connect_timeout.min(CONNECT_TIMEOUT),
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
        // This event occurs only when the client is dropped.
        Event::Closed => status.set_connected(false),
        Event::LameDuckMode | Event::Draining => tracing::info!("NATS: {event}"),
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            tracing::warn!("NATS: {event}");
        }
    }
}
