//! Events from a JetStream stream.
//!
//! The ledger keeps the cursor itself, in the batch of the events that it covers, so nothing is acknowledged: a
//! message counts once however often it is delivered. The consumer on the server is disposable. It is created
//! behind the cursor, and created again whenever anything looks wrong with it: a message missing in its order,
//! silence while the stream has more, a lost connection.
//!
//! What is trusted of the stream is checked: that it is still the same one (its creation time, and the last
//! message consumed), and that no message was removed before it was consumed. A stream that began anew is read
//! from its beginning, and a gap is recorded; both are safe, since events are identified by uid and version.

mod connect;
mod gather;
mod identity;
mod position;
mod publishers;
mod session;
mod status;
mod stream;

use std::{sync::Arc, time::Duration};

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

/// First wait before a failed session is begun anew; doubled up to `nats.max_backoff`.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// After so many failures in a row another connection is tried: of the servers in the list, this one may be cut off
/// from those that hold the stream.
const FAILURES_OF_A_CONNECTION: u32 = 2;

/// The stream's consumption, as it runs.
pub struct Running {
    /// Its status.
    pub status: Status,
    /// Ends on `stop`, or when the ledger takes no more entries. What was consumed is durable then.
    pub task: JoinHandle<()>,
}

/// Consumes the configured stream until `stop`. Whether the server can be reached yet does not matter.
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
        stop,
    };
    let task = tokio::spawn(intake.run());
    Ok(Running { status, task })
}

/// The principal whose events the stream holds: the source of its relists and watermarks.
#[must_use]
pub fn principal(settings: &config::Nats) -> String {
    format!("nats:{}", settings.stream)
}

/// All that a session needs.
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
    #[error("the stream has begun anew")]
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
            Unavailable::NotLeader => Self::Following,
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
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ledger.wait_until_decides(true) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                // Only fails if the client is gone, and then there is no session to be had.
                connected = self.connected.wait_for(|connected| *connected) => if connected.is_err() { return },
            }
            let before = self.status.get().cursor;
            match Box::pin(session::run(&self)).await {
                Ended::Stopped => return,
                // Whoever connects again, or leads again, waits long enough.
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

    /// Leaves this server for whichever of the list answers.
    async fn connect_anew(&self) {
        tracing::info!(stream = %self.source, "trying another connection");
        if let Err(error) = self.client.force_reconnect().await {
            tracing::warn!(%error, "the client does not connect anew");
        }
    }
}
