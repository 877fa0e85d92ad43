//! How requests are served: limits of the listeners, certificates, tokens, logging.

use std::{
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use quota_service::config::{Period, Size, blank};

/// `http.*`: the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Names and addresses, without port, that requests may be for, besides loopback and the local address of the
    /// connection; `*`: all.
    pub allowed_hosts: Vec<String>,
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Address of the health and metrics endpoints; plain HTTP.
    pub listen: SocketAddr,
}

/// The largest value of `limits.reservation_resources`: of a request with more, the rest is not even parsed.
pub const RESERVATION_RESOURCES_MAX: usize = 256;

/// `limits.*`: limits on requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest request body.
    pub request_body_bytes: Size,
    /// Largest body of `POST /v1/events`, `/v1/drift` and `/v1/corrections`.
    pub events_body_bytes: Size,
    /// Bytes of bodies, of requests and of answers, that a listener holds at once.
    pub bodies_bytes: Size,
    /// Open connections per listener.
    pub connections: NonZeroUsize,
    /// How long a request's head may take to arrive.
    pub header_timeout: Period,
    /// How long a request may take to be answered, and its caller to read the answer.
    pub request_timeout: Period,
    /// How long a request's body may pause while it arrives.
    pub body_timeout: Period,
    /// How long a connection may idle between two requests.
    pub keep_alive: Period,
    /// Commands that wait for the writer.
    pub queue: NonZeroUsize,
    /// Items of a page of a list.
    pub page: NonZeroUsize,
    /// Open watches.
    pub watch_streams: NonZeroUsize,
    /// Open watches of one principal.
    pub watch_streams_per_principal: NonZeroUsize,
    /// Resources of one reservation.
    pub reservation_resources: NonZeroUsize,
    /// Bytes of the names of these resources, of classes, and of the values of labels.
    pub reservation_name_bytes: Size,
    /// Different resources that the objects and reservations of one namespace can name.
    pub resources_per_namespace: NonZeroUsize,
    /// Reservations of one namespace that are committed, and not observed.
    pub committed_per_namespace: NonZeroUsize,
    /// Reservations of one principal that are committed, and not observed.
    pub committed_per_principal: NonZeroUsize,
    /// Bytes of reservations that ended and are remembered for repeated requests.
    pub ended_reservations_bytes: Size,
    /// Limits of one quota.
    pub limits_per_quota: NonZeroUsize,
    /// Quotas of one namespace.
    pub quotas_per_namespace: NonZeroUsize,
    /// Bytes of deleted quotas, which are kept for watches.
    pub quota_changes_bytes: Size,
    /// Queries of past states that are processed or wait for their turn.
    pub past_questions: NonZeroUsize,
    /// Entries that one query of a past state may replay.
    pub replay_entries: NonZeroU64,
    /// Series of quotas in the metrics.
    pub metrics_series: NonZeroUsize,
}

/// `tls.*`: certificates of the webhook's listener, and of the API's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain (PEM).
    #[serde(with = "blank")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(with = "blank")]
    pub key: Option<PathBuf>,
    /// CA certificates (PEM) that clients must be signed by; none: clients need no certificate.
    #[serde(with = "blank")]
    pub client_ca: Option<PathBuf>,
    /// Names, one of which a client's certificate must bear as a DNS SAN; what has a colon, as a URI SAN.
    pub allowed_names: Vec<String>,
    /// Serve the HTTP API by TLS as well.
    pub api: bool,
}

/// `auth.*`: who may call the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// File with the tokens' hashes, roles and namespaces; none: no token is needed.
    #[serde(with = "blank")]
    pub tokens_file: Option<PathBuf>,
    /// Serve other addresses than loopback without tokens.
    pub allow_anonymous_non_loopback: bool,
}

/// `shutdown.*`: how the daemon stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests are still accepted after a stop was requested, while `/readyz` answers 503.
    pub drain: Period,
    /// How long requests in progress may take before they are cut off.
    pub grace: Period,
}
