//! The connection to NATS: addresses, credentials, certificates, and retries.

use std::{
    hash::{BuildHasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_nats::{ConnectOptions, ReconnectToServer, ServerAddr};
use serde::{Deserialize, Serialize};

use crate::{
    config::{Finding, Period, blank, redact_addresses},
    rules,
};

/// How long a request to the server may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// First pause between two attempts to connect; doubled up to [`Connection::max_backoff`].
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Said of keys that need the feature.
const WITHOUT_NKEYS: &str = "this program was built without the feature nkeys";

/// The settings of a connection: those keys below `nats` that all programs have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// User name, together with `password_file`.
    #[serde(with = "blank")]
    pub user: Option<String>,
    /// File that holds the user's password.
    #[serde(with = "blank")]
    pub password_file: Option<PathBuf>,
    /// File that holds a token.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// File that holds an nkey seed.
    #[serde(with = "blank")]
    pub nkey_seed_file: Option<PathBuf>,
    /// A `.creds` file: JWT and nkey seed.
    #[serde(with = "blank")]
    pub credentials_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust instead of the system's.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// Client certificate (PEM).
    #[serde(with = "blank")]
    pub tls_cert: Option<PathBuf>,
    /// The client certificate's key (PEM).
    #[serde(with = "blank")]
    pub tls_key: Option<PathBuf>,
    /// How long one attempt to connect may take.
    pub connect_timeout: Period,
    /// Longest pause between two attempts to connect.
    pub max_backoff: Period,
}

/// Why a connection cannot even be attempted.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An address is invalid.
    #[error("nats.url: {0:?} is no address of a NATS server")]
    Address(String),
    /// A file with a secret cannot be read.
    #[error("{key}: cannot read {path}: {source}")]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The client rejects the options, such as a certificate.
    #[error("nats: {0}")]
    Options(#[from] async_nats::ConnectError),
}

impl Connection {
    /// Checks which keys need or exclude each other.
    pub fn validate(&self) -> Vec<Finding> {
        let ways = [
            ("nats.user", self.user.is_some()),
            ("nats.token_file", self.token_file.is_some()),
            ("nats.nkey_seed_file", self.nkey_seed_file.is_some()),
            ("nats.credentials_file", self.credentials_file.is_some()),
        ];
        let chosen: Vec<_> = ways.iter().filter(|(_, set)| *set).map(|(key, _)| *key).collect();
        let mut findings = Vec::new();
        if let [first, .., last] = chosen[..] {
            findings.push((last, format!("cannot be used together with {first}")));
        }
        rules! { findings;
            "nats.nkey_seed_file": cfg!(feature = "nkeys") || self.nkey_seed_file.is_none() => WITHOUT_NKEYS;
            "nats.credentials_file": cfg!(feature = "nkeys") || self.credentials_file.is_none() => WITHOUT_NKEYS;
            "nats.password_file": self.user.is_some() == self.password_file.is_some() => "goes together with nats.user";
            "nats.tls_key": self.tls_cert.is_some() == self.tls_key.is_some() => "goes together with nats.tls_cert";
        }
        findings
    }

    /// The options of a client with this name. The client retries until it is connected, at the start and after each
    /// loss.
    ///
    /// # Errors
    /// A file with a secret cannot be read.
    pub async fn options(&self, name: &str) -> Result<ConnectOptions, SetupError> {
        let longest = self.max_backoff.get();
        let options = ConnectOptions::new()
            .name(name)
            .retry_on_initial_connect()
            .connection_timeout(self.connect_timeout.get())
            .request_timeout(Some(REQUEST_TIMEOUT))
            .reconnect_delay_callback(move |attempts| delay(attempts, longest));
        let options = self.authenticate(in_turn(options)).await?;
        Ok(self.secure(options))
    }

    async fn authenticate(&self, options: ConnectOptions) -> Result<ConnectOptions, SetupError> {
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let password = secret("nats.password_file", file).await?;
            return Ok(options.user_and_password(user.clone(), password));
        }
        if let Some(file) = &self.token_file {
            return Ok(options.token(secret("nats.token_file", file).await?));
        }
        #[cfg(feature = "nkeys")]
        if let Some(file) = &self.nkey_seed_file {
            return Ok(options.nkey(secret("nats.nkey_seed_file", file).await?));
        }
        #[cfg(feature = "nkeys")]
        if let Some(file) = &self.credentials_file {
            let read = options.credentials_file(file).await;
            return read.map_err(|source| unreadable("nats.credentials_file", file, source));
        }
        Ok(options)
    }

    fn secure(&self, mut options: ConnectOptions) -> ConnectOptions {
        if let Some(authority) = &self.tls_ca {
            options = options.add_root_certificates(authority.to_owned()).require_tls(true);
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => options
                .add_client_certificate(certificate.to_owned(), key.to_owned())
                .require_tls(true),
            _ => options,
        }
    }
}

/// Parses a comma-separated list of servers. User names, passwords and queries are left out: the client does not use
/// them, but would log them at level `debug`.
///
/// # Errors
/// One of them is not an address.
pub fn addresses(urls: &str) -> Result<Vec<ServerAddr>, SetupError> {
    let urls = urls.split(',').map(str::trim);
    urls.map(|url| {
        let plain = without_secrets(url);
        if plain != url {
            let url = redact_addresses(url);
            tracing::warn!(
                url,
                "nats.url: credentials in an address are not used; set nats.user or another key for credentials"
            );
        }
        let address = plain.parse();
        address.map_err(|_| SetupError::Address(redact_addresses(url)))
    })
    .collect()
}

/// The address without user name, password and query.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{host}")
}

/// Has the servers tried one after the other, beginning with a random one. By default the client prefers those with the
/// fewest failures, and would always return to a server that accepts connections but is cut off from the others.
fn in_turn(options: ConnectOptions) -> ConnectOptions {
    let [first, ..] = RandomState::new().hash_one(()).to_le_bytes();
    let turns = AtomicUsize::new(first.into());
    options.reconnect_to_server_callback(move |servers, _| {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        let server = servers.iter().cycle().nth(turn % servers.len().max(1));
        std::future::ready(
            server.map(|server| ReconnectToServer { addr: server.addr.clone(), delay: None }),
        )
    })
}

/// The only line of a file.
async fn secret(key: &'static str, file: &Path) -> Result<String, SetupError> {
    let text =
        tokio::fs::read_to_string(file).await.map_err(|source| unreadable(key, file, source))?;
    Ok(text.trim().to_owned())
}

fn unreadable(key: &'static str, file: &Path, source: io::Error) -> SetupError {
    SetupError::File { key, path: file.display().to_string(), source }
}

fn delay(attempts: usize, longest: Duration) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(longest)
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
        let several = addresses("nats://a:4222, b:4223");
        assert_eq!(several.unwrap().len(), 2);
        let error = addresses("nats://a:4222,http://me:pw@[").unwrap_err();
        assert_eq!(
            error.to_string(),
            "nats.url: \"http://me:***@[\" is no address of a NATS server"
        );
    }

    /// The client logs addresses as they are.
    #[test]
    fn addresses_hold_no_secrets() {
        for url in ["nats://me:s3cret@a:4222", "s3cret@a", "tls://me:s3@cret@a/?token=s3cret"] {
            let address = format!("{:?}", addresses(url).unwrap());
            assert!(!address.contains("cret"), "{address}");
            assert!(address.contains("\"a\""), "{address}");
        }
    }
}
