//! Events from a JetStream stream.
//!
//! The ledger stores the cursor itself, in the same batch as the events that the cursor covers, so no message is
//! acknowledged: a message counts once however often it is delivered. The consumer on the server is disposable. It is
//! created after the cursor, and created again after any irregularity: a gap in the delivery order, silence while the
//! stream has more messages, a lost connection.
//!
//! The stream is verified: it must still be the same one (by its creation time and the last consumed message), and no
//! message may have been removed before it was consumed. A recreated stream is read from its beginning, and a gap is
//! recorded; both are safe, since events are identified by uid and version.

mod connect;
mod gather;
mod message;
mod one_by_one;
mod publishers;
mod session;
mod status;
mod stream;

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_nats::Client;
use futures::future::{Either, select};
use quota_core::event::Actor;
use quota_semantics::Name;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use connect::SetupError;
pub(crate) use connect::{plain, to_log};
pub use gather::events;
pub use status::{Status, StreamStatus};

use self::{publishers::Publishers, session::Reading};
use super::payload::Reader;
use crate::{
    config::{self, Config},
    supervisor,
    writer::{Ledger, Unavailable},
};

/// Wait before the first retry of a failed session; doubled up to `nats.max_backoff`.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// After this many deliveries in a row that ended without any progress, messages are read one by one: the client library
/// may be unable to read one of them.
const BREAKS: u32 = 2;

/// After this many consecutive failures another server of the list is tried: the current one may be cut off from the
/// servers that hold the stream.
const FAILURES_OF_A_CONNECTION: u32 = 2;

/// The running consumption of a stream.
pub struct Running {
    /// Its status.
    pub status: Status,
    /// Ends on `stop`. All consumed events are durable then.
    pub task: JoinHandle<()>,
}

/// Consumes the configured stream until `stop`. The server need not be reachable yet.
///
/// # Errors
/// If the address or a file of secrets or certificates cannot be read.
pub async fn start(
    config: &Config,
    reader: Arc<Reader>,
    ledger: Ledger,
    stop: CancellationToken,
) -> Result<Running, SetupError> {
    let settings = &config.nats;
    let publishers = Publishers::new(settings);
    let status = Status::new(settings, ledger.clone(), publishers.clone());
    let cluster_replicas = config.cluster.is_on().then_some(config.cluster.replicas);
    let is_in_cluster = cluster_replicas.is_some();
    let (client, connected) = connect::connect(settings, is_in_cluster, &status).await?;
    let intake = Intake {
        source: Name::from(settings.stream.as_str()),
        actor: Actor::named(&principal(settings)),
        settings: settings.clone(),
        cluster_replicas,
        max_batch_entries: config.journal.max_batch_entries.get(),
        reader,
        ledger,
        status: status.clone(),
        publishers,
        client,
        connected,
        has_reported: AtomicBool::new(false),
        breaks: 0,
        stop: stop.clone(),
    };
    let task = supervisor::spawn("the intake", stop, intake.run());
    Ok(Running { status, task })
}

/// The principal of the stream's events: the source of its relists and watermarks.
#[must_use]
pub fn principal(settings: &config::Nats) -> String {
    format!("{PRINCIPAL}{}", settings.stream)
}

/// The stream of a principal.
#[must_use]
pub fn stream_of(principal: &str) -> Option<&str> {
    principal.strip_prefix(PRINCIPAL)
}

/// How the principals of streams begin.
const PRINCIPAL: &str = "nats:";

/// The context that sessions share.
struct Intake {
    source: Name,
    actor: Arc<Actor>,
    settings: config::Nats,
    /// The replicas of the log, if this daemon is a node of a cluster.
    cluster_replicas: Option<usize>,
    max_batch_entries: usize,
    reader: Arc<Reader>,
    ledger: Ledger,
    status: Status,
    publishers: Publishers,
    client: Client,
    connected: watch::Receiver<bool>,
    /// Whether the log says that the stream holds other subjects, or has few replicas.
    has_reported: AtomicBool,
    /// How many deliveries in a row have ended without any progress.
    breaks: u32,
    stop: CancellationToken,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("stopped")]
    Stopped,
    #[error("the connection is lost")]
    Disconnected,
    #[error("another node leads, and consumes the stream")]
    Following,
    #[error("the stream {0} does not exist, and nats.create_stream is false")]
    Missing(String),
    #[error(
        "the retention of the stream {0} is {1}; it must be limits, so that consuming a message does not remove it"
    )]
    Retention(String, &'static str),
    #[error(
        "the server that says how far the stream is does not hear from the others that hold it"
    )]
    Alone,
    #[error("the stream was recreated")]
    Renewed,
    #[error("the other subjects of the stream have changed")]
    Changed,
    #[error("a consumer can deliver the next messages")]
    Passed,
    #[error("the consumer did not deliver all messages")]
    Incomplete,
    #[error("a message does not say its place in the stream")]
    NoPlace,
    #[error("the consumer is silent while the stream has more messages")]
    Stalled,
    #[error("cannot receive messages: {0}")]
    Undelivered(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot {0}: {1}")]
    Failed(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Ended {
    fn failed<E: std::error::Error + Send + Sync + 'static>(
        what: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::Failed(what, Box::new(error))
    }

    /// Returns true if a message that the client library cannot read may be the cause.
    const fn is_break(&self) -> bool {
        matches!(self, Self::Disconnected | Self::Incomplete | Self::Stalled | Self::Undelivered(_))
    }
}

impl From<Unavailable> for Ended {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::NotLeader | Unavailable::OutcomeUnknown => Self::Following,
            _ => Self::Stopped,
        }
    }
}

/// Why no further session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The daemon stops, or the ledger takes no more entries.
    Stopped,
    /// The client has ended: its task panicked over a message.
    ClientGone,
}

impl Intake {
    async fn run(mut self) {
        loop {
            let over = {
                let requests = self.publishers.clone();
                let requests = pin!(requests.run(self.client.clone(), self.connected.clone()));
                // It ends by itself, and must not be dropped: what it has consumed becomes durable first.
                match select(pin!(self.consume()), requests).await {
                    Either::Left((over, _)) => over,
                    Either::Right(((), consuming)) => consuming.await,
                }
            };
            if over == Over::Stopped {
                // A ledger that takes no more entries ends the process with a reason of its own.
                self.stop.cancelled().await;
                return;
            }
            if !self.replace_client().await {
                return;
            }
        }
    }

    /// Creates the client anew. Returns false if the daemon stops.
    async fn replace_client(&mut self) -> bool {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(FIRST_WAIT) => {}
            }
            let is_in_cluster = self.cluster_replicas.is_some();
            let connecting = connect::connect(&self.settings, is_in_cluster, &self.status);
            match connecting.await {
                Ok((client, connected)) => {
                    (self.client, self.connected) = (client, connected);
                    return true;
                }
                Err(error) => tracing::warn!(%error, "cannot create a client for NATS anew"),
            }
        }
    }

    async fn consume(&mut self) -> Over {
        let stop = self.stop.clone();
        let mut wait = FIRST_WAIT;
        let mut failures = 0;
        loop {
            // A term may have ended while no session was open.
            if !self.ledger.decides() {
                self.status.follow();
            }
            tokio::select! {
                () = stop.cancelled() => return Over::Stopped,
                () = self.ledger.wait_until_decides(true) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return Over::Stopped,
                connected = self.connected.wait_for(|connected| *connected) => if connected.is_err() {
                    return Over::ClientGone;
                },
            }
            let before = self.status.get().cursor;
            let reading = match self.breaks < BREAKS {
                true => Reading::Consumer,
                false => Reading::OneByOne,
            };
            let ended = Box::pin(session::run(self, reading)).await;
            let has_progressed = self.status.get().cursor != before;
            self.breaks = match ended.is_break() {
                true if !has_progressed => self.breaks.saturating_add(1),
                _ if has_progressed || matches!(ended, Ended::Passed) => 0,
                _ => self.breaks,
            };
            match &ended {
                Ended::Stopped => return Over::Stopped,
                // The reason is known only when there is a connection again.
                Ended::Following | Ended::Disconnected => {}
                _ => self.status.set_obstacle(&ended.to_string()),
            }
            match ended {
                // Neither waits again: a reconnect, or the begin of the next term, takes long enough.
                Ended::Disconnected if self.connected.has_changed().is_err() => {
                    tracing::error!(stream = %self.source, "the client for NATS has ended; creating it anew");
                    return Over::ClientGone;
                }
                Ended::Disconnected => continue,
                Ended::Following => {
                    self.status.follow();
                    continue;
                }
                Ended::Passed => {
                    tracing::info!(stream = %self.source, "{ended}");
                    continue;
                }
                Ended::Renewed | Ended::Changed | Ended::Incomplete => {
                    tracing::info!(stream = %self.source, "{ended}; starting over");
                }
                // Another server would say the same.
                Ended::Retention(..) => {
                    tracing::warn!(stream = %self.source, "{ended}; trying again in {wait:?}");
                }
                ended => {
                    tracing::warn!(stream = %self.source, "{ended}; trying again in {wait:?}");
                    failures += 1;
                }
            }
            if has_progressed {
                wait = FIRST_WAIT;
                failures = 0;
            }
            if failures >= FAILURES_OF_A_CONNECTION {
                failures = 0;
                self.connect_anew().await;
            }
            tokio::select! {
                () = stop.cancelled() => return Over::Stopped,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(self.settings.connection.max_backoff.get());
        }
    }

    /// Disconnects from this server, and connects to any server of the list that answers.
    async fn connect_anew(&self) {
        tracing::info!(stream = %self.source, "reconnecting to another server");
        if let Err(error) = self.client.force_reconnect().await {
            tracing::warn!(%error, "the client cannot reconnect");
        }
    }
}
