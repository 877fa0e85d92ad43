//! Where objects and quotas come from.

use std::{num::NonZeroUsize, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{Period, Size, text::blank};

/// `nats.*`: the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// Servers, separated by commas; none: events come by HTTP only.
    #[serde(with = "blank")]
    pub url: Option<String>,
    /// The JetStream stream to consume.
    pub stream: String,
    /// The subjects to consume from it.
    pub subject: String,
    /// Create the stream if it is missing.
    pub create_stream: bool,
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
    /// Messages asked for at once.
    pub fetch_messages: NonZeroUsize,
    /// Largest message that is decoded; a larger one is recorded as rejected.
    pub max_message_bytes: Size,
    /// How long one attempt to connect may take.
    pub connect_timeout: Period,
    /// Longest wait between two attempts to connect.
    pub max_backoff: Period,
    /// How often an idle consumer asks how far the stream has got.
    pub poll_interval: Period,
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            url: None,
            stream: "OBJECTS".to_owned(),
            subject: "quota.objects.>".to_owned(),
            create_stream: true,
            user: None,
            password_file: None,
            token_file: None,
            nkey_seed_file: None,
            credentials_file: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            fetch_messages: NonZeroUsize::new(2048).expect("2048 is not zero"),
            max_message_bytes: Size::from_mib(8),
            connect_timeout: Period::from_secs(5),
            max_backoff: Period::from_secs(10),
            poll_interval: Period::from_secs(1),
        }
    }
}

/// `quotas.*`: where quotas come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Events of kind `ResourceQuota` set quotas.
    pub adopt: bool,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { adopt: true }
    }
}
