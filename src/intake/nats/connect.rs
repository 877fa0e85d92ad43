//! The connection to the NATS server.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_nats::{Client, ConnectOptions, Event, ReconnectToServer, ServerAddr};
use tokio::sync::watch;

use super::Status;
use crate::config;

/// How long a request to the server may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// First wait between two attempts to connect; doubled up to `nats.max_backoff`.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Why a connection cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not an address.
    #[error("nats.url: {0:?} is no address of a NATS server")]
    Address(String),
    /// A file with a secret cannot be read.
    #[error("{key}: cannot read {path}: {source}")]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The client refuses the options, such as a certificate.
    #[error("nats: {0}")]
    Options(#[from] async_nats::ConnectError),
}

/// Begins to connect, and goes on until it succeeds, now and after each loss. The receiver tells whether there is
/// a connection.
pub(super) async fn connect(
    settings: &config::Nats,
    status: &Status,
) -> Result<(Client, watch::Receiver<bool>), SetupError> {
    let (connected, is_connected) = watch::channel(false);
    let status = status.clone();
    status.set_connected(false);
    let longest = settings.max_backoff.get();
    let options = ConnectOptions::new()
        .name("quotad")
        .retry_on_initial_connect()
        .connection_timeout(settings.connect_timeout.get())
        .request_timeout(Some(REQUEST_TIMEOUT))
        .subscription_capacity(settings.fetch_messages.get().saturating_mul(4))
        .reconnect_delay_callback(move |attempts| delay(attempts, longest))
        .event_callback(move |event| {
            tell(&event, &connected, &status);
            std::future::ready(())
        });
    let options = authenticate(in_turn(options), settings).await?;
    let options = secure(options, settings);
    let client = options.connect(addresses(settings)?).await?;
    Ok((client, is_connected))
}

/// A connection for something else than the intake; it connects, and goes on to, in the background.
pub(crate) async fn plain(settings: &config::Nats, name: &str) -> Result<Client, SetupError> {
    let longest = settings.max_backoff.get();
    let options = ConnectOptions::new()
        .name(name)
        .retry_on_initial_connect()
        .connection_timeout(settings.connect_timeout.get())
        .request_timeout(Some(REQUEST_TIMEOUT))
        .reconnect_delay_callback(move |attempts| delay(attempts, longest));
    let options = authenticate(in_turn(options), settings).await?;
    let options = secure(options, settings);
    Ok(options.connect(addresses(settings)?).await?)
}

/// Has the servers tried one after the other, beginning with any. By itself the client prefers those that failed least
/// often, and would for ever come back to one that takes connections and is cut off from the others.
fn in_turn(options: ConnectOptions) -> ConnectOptions {
    let [first, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let turns = AtomicUsize::new(first.into());
    options.reconnect_to_server_callback(move |servers, _| {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        let server = servers.iter().cycle().nth(turn % servers.len().max(1));
        std::future::ready(server.map(|server| ReconnectToServer {
            addr: server.addr.clone(),
            delay: None,
        }))
    })
}

fn addresses(settings: &config::Nats) -> Result<Vec<ServerAddr>, SetupError> {
    let urls = settings
        .url
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    urls.map(|url| url.parse().map_err(|_| SetupError::Address(url.to_owned())))
        .collect()
}

async fn authenticate(
    options: ConnectOptions,
    settings: &config::Nats,
) -> Result<ConnectOptions, SetupError> {
    if let (Some(user), Some(file)) = (&settings.user, &settings.password_file) {
        let password = secret("nats.password_file", file).await?;
        return Ok(options.user_and_password(user.clone(), password));
    }
    if let Some(file) = &settings.token_file {
        return Ok(options.token(secret("nats.token_file", file).await?));
    }
    if let Some(file) = &settings.nkey_seed_file {
        return Ok(options.nkey(secret("nats.nkey_seed_file", file).await?));
    }
    let Some(file) = &settings.credentials_file else {
        return Ok(options);
    };
    let read = options.credentials_file(file).await;
    read.map_err(|source| unreadable("nats.credentials_file", file, source))
}

fn secure(mut options: ConnectOptions, settings: &config::Nats) -> ConnectOptions {
    if let Some(authority) = &settings.tls_ca {
        options = options
            .add_root_certificates(authority.clone())
            .require_tls(true);
    }
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => options
            .add_client_certificate(certificate.clone(), key.clone())
            .require_tls(true),
        _ => options,
    }
}

/// A file's only line.
async fn secret(key: &'static str, file: &Path) -> Result<String, SetupError> {
    let text = tokio::fs::read_to_string(file)
        .await
        .map_err(|source| unreadable(key, file, source))?;
    Ok(text.trim().to_owned())
}

fn unreadable(key: &'static str, file: &Path, source: io::Error) -> SetupError {
    SetupError::File {
        key,
        path: file.display().to_string(),
        source,
    }
}

fn delay(attempts: usize, longest: Duration) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(longest)
}

fn tell(event: &Event, connected: &watch::Sender<bool>, status: &Status) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        let waits =
            [1, 2, 3, 7, 8, 9, 1_000_000].map(|n| delay(n, Duration::from_secs(5)).as_millis());
        assert_eq!(waits, [50, 100, 200, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn addresses_are_separated_by_commas() {
        let settings = |url: &str| config::Nats {
            url: Some(url.to_owned()),
            ..config::Nats::default()
        };
        assert_eq!(
            addresses(&settings("nats://a:4222, b:4223")).unwrap().len(),
            2
        );
        assert!(addresses(&settings("nats://a:4222,http://[")).is_err());
    }
}
