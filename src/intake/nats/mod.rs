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
mod identity;
mod position;
mod publishers;
mod session;
mod status;
mod stream;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_nats::Client;
use quota_core::event::Actor;
use quota_semantics::Name;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use connect::SetupError;
pub(crate) use connect::{plain, to_log};
pub use gather::events;
pub use status::{Status, StreamStatus};

use self::publishers::Publishers;
use super::payload::Reader;
use crate::{
    config::{self, Config},
    writer::{Ledger, Unavailable},
};

/// Wait before the first retry of a failed session; doubled up to `nats.max_backoff`.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// After this many consecutive failures another server of the list is tried: the current one may be cut off from the
/// servers that hold the stream.
const FAILURES_OF_A_CONNECTION: u32 = 2;

/// The running consumption of a stream.
pub struct Running {
    /// Its status.
    pub status: Status,
    /// Ends on `stop`, or when the ledger takes no more entries. All consumed events are durable then.
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
    let (client, connected) = connect::connect(settings, config.cluster.is_on(), &status).await?;
    let relists = publishers.clone();
    tokio::spawn(relists.run(client.clone(), connected.clone(), stop.clone()));
    let intake = Intake {
        source: Name::from(settings.stream.as_str()),
        actor: Actor::named(&principal(settings)),
        settings: settings.clone(),
        max_batch_entries: config.journal.max_batch_entries.get(),
        reader,
        ledger,
        status: status.clone(),
        publishers,
        client,
        connected,
        has_told: AtomicBool::new(false),
        stop,
    };
    let task = tokio::spawn(intake.run());
    Ok(Running { status, task })
}

/// The principal of the stream's events: the source of its relists and watermarks.
#[must_use]
pub fn principal(settings: &config::Nats) -> String {
    format!("nats:{}", settings.stream)
}

/// The context that sessions share.
struct Intake {
    source: Name,
    actor: Arc<Actor>,
    settings: config::Nats,
    max_batch_entries: usize,
    reader: Arc<Reader>,
    ledger: Ledger,
    status: Status,
    publishers: Publishers,
    client: Client,
    connected: watch::Receiver<bool>,
    /// Whether the log says that the stream holds other subjects, too.
    has_told: AtomicBool,
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
        "the server that says how far the stream is does not hear from the others that hold it"
    )]
    Alone,
    #[error("the stream was recreated")]
    Renewed,
    #[error("the other subjects of the stream have changed")]
    Changed,
    #[error("the consumer did not deliver all messages")]
    Incomplete,
    #[error("a message does not say its place in the stream")]
    NoPlace,
    #[error("the consumer is silent while the stream has more messages")]
    Stalled,
    #[error("cannot {0}: {1}")]
    Failed(
        &'static str,
        #[source] Box<dyn std::error::Error + Send + Sync>,
    ),
}

impl Ended {
    fn failed<E: std::error::Error + Send + Sync + 'static>(
        what: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::Failed(what, Box::new(error))
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

impl Intake {
    async fn run(mut self) {
        let stop = self.stop.clone();
        let mut wait = FIRST_WAIT;
        let mut failures = 0;
        loop {
            // A term may have ended while no session was open.
            if !self.ledger.decides() {
                self.status.follow();
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ledger.wait_until_decides(true) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                // This fails only if the client is gone; then no further session is possible.
                connected = self.connected.wait_for(|connected| *connected) => if connected.is_err() { return },
            }
            let before = self.status.get().cursor;
            match Box::pin(session::run(&self)).await {
                Ended::Stopped => return,
                // A reconnect, or the begin of the next term, takes long enough: no further wait.
                Ended::Disconnected => continue,
                Ended::Following => {
                    self.status.follow();
                    continue;
                }
                ended @ (Ended::Renewed | Ended::Changed | Ended::Incomplete) => {
                    tracing::info!(stream = %self.source, "{ended}; starting over");
                }
                ended => {
                    tracing::warn!(stream = %self.source, "{ended}; trying again in {wait:?}");
                    failures += 1;
                }
            }
            if self.status.get().cursor != before {
                wait = FIRST_WAIT;
                failures = 0;
            }
            if failures >= FAILURES_OF_A_CONNECTION {
                failures = 0;
                self.connect_anew().await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
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
