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

mod message;
mod publishers;
mod session;
mod status;

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_nats::{
    Client, Event, ServerAddr,
    jetstream::{
        self, ErrorCode,
        context::{CreateStreamErrorKind, GetStreamErrorKind},
        stream::{
            ClusterInfo, Config as StreamConfig, PeerInfo, RetentionPolicy, StorageType, Stream,
        },
    },
};
use futures::future::{Either, select};
use quota_core::{
    event::{Actor, Cursor},
    source::{self, Identity},
};
use quota_semantics::{Name, Timestamp};
pub use quota_service::nats::SetupError;
use quota_service::nats::{self, Connection};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use message::MessageReader;
use publishers::Publishers;
use session::Reading;
pub use session::events;
pub use status::{Status, StreamStatus};

use super::payload::Reader;
use crate::{
    config::{self, Config, Period},
    fatal,
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
    let (client, connected) = connect(settings, is_in_cluster, &status).await?;
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
    let task = fatal::spawn("the intake", stop, intake.run());
    Ok(Running { status, task })
}

/// The principal of the stream's events: the source of its relists and watermarks.
pub fn principal(settings: &config::Nats) -> String {
    format!("{PRINCIPAL}{}", settings.stream)
}

/// The stream of a principal.
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
            let connecting = connect(&self.settings, is_in_cluster, &self.status);
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

// The connection to the NATS server.

/// Connects in the background, and reconnects after each loss. The receiver reports whether there is a connection. With
/// `is_in_cluster`, unresponsive servers are given up sooner: a node that begins to lead grants only once it has caught
/// up with its sources.
async fn connect(
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

// The stream on the server, and whether it is still the one that the cursor refers to.

/// A follower that was in contact with its leader this recently follows no other one: nats-server waits for at least
/// 4 seconds before an election (`minElectionTimeout` in its `raft.go`), and the two exchange messages
/// every second.
const LEASE: Duration = Duration::from_secs(3);

/// With fewer replicas, the loss of one server stops the events, and with them all grants.
const REPLICAS: usize = 3;

/// Finds the stream, or creates it if the configuration says so. The leader of the stream's replicas answers.
///
/// # Errors
/// The stream cannot be found or created, or does not keep messages that were consumed.
async fn find(intake: &Intake) -> Result<Stream, Ended> {
    let context = jetstream::new(intake.client.clone());
    let name = &intake.settings.stream;
    match context.get_stream(name).await {
        Err(error) if is_missing(&error.kind()) => {}
        found => {
            let stream = found.map_err(Ended::failed("find the stream"))?;
            let info = stream.cached_info();
            if let Some(retention) = unfit(&info.config) {
                return Err(Ended::Retention(name.clone(), retention));
            }
            return match is_led(info.cluster.as_ref()) {
                true => Ok(stream),
                false => Err(Ended::Alone),
            };
        }
    }
    if !intake.settings.create_stream {
        return Err(Ended::Missing(name.clone()));
    }
    create(intake, &context).await
}

/// Creates the stream. For a node of a cluster it has three replicas, or one if the server is none of a cluster.
async fn create(intake: &Intake, context: &jetstream::Context) -> Result<Stream, Ended> {
    let name = &intake.settings.stream;
    let config = |num_replicas| StreamConfig {
        name: name.clone(),
        subjects: vec![intake.settings.subject.clone()],
        storage: StorageType::File,
        num_replicas,
        ..StreamConfig::default()
    };
    // A test cluster has fewer.
    let replicas = intake.cluster_replicas.unwrap_or(1).min(REPLICAS);
    let created = match context.create_stream(config(replicas)).await {
        Err(error) if is_alone(&error.kind()) => context.create_stream(config(1)).await,
        created => created,
    };
    let created = created.map_err(Ended::failed("create the stream"))?;
    let replicas = created.cached_info().config.num_replicas;
    tracing::info!(stream = name, replicas, "created the stream");
    Ok(created)
}

/// Returns true if the server is not in a cluster, so that its streams cannot have replicas. If servers of its cluster
/// are only missing now, the stream is created later.
fn is_alone(kind: &CreateStreamErrorKind) -> bool {
    matches!(kind, CreateStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED)
}

/// Logs that the loss of one server stops all grants, if this daemon is a node of a cluster.
fn report_few_replicas(intake: &Intake, stream: &Stream) {
    let replicas = stream.cached_info().config.num_replicas;
    if intake.cluster_replicas.is_some() && replicas < REPLICAS {
        tracing::warn!(
            stream = %intake.source,
            replicas,
            "the stream has fewer than {REPLICAS} replicas: without one of its servers nothing is granted"
        );
    }
}

/// The retention of the stream, if it does not keep messages that were consumed.
fn unfit(config: &StreamConfig) -> Option<&'static str> {
    match config.retention {
        RetentionPolicy::Limits => None,
        RetentionPolicy::Interest => Some("interest"),
        RetentionPolicy::WorkQueue => Some("workqueue"),
    }
}

/// Whether the server that sent this information led the stream's replicas at that time: it has just heard from enough of them
/// of the replicas that the remaining ones are too few to elect another leader. A leader that is cut off goes on
/// answering for ten seconds, or for minutes, as if its end of the stream were the current one.
fn is_led(cluster: Option<&ClusterInfo>) -> bool {
    let replicas = cluster.map_or(&[][..], |cluster| &cluster.replicas);
    // For a replica that it has never heard from the server reports zero.
    let is_heard =
        |peer: &&PeerInfo| !peer.offline && peer.active > Duration::ZERO && peer.active < LEASE;
    let heard = 1 + replicas.iter().filter(is_heard).count();
    heard > replicas.len().div_ceil(2)
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether the stream only accepts subjects that this ledger consumes, so that a missing position is a lost message.
fn is_all_ours(config: &StreamConfig, subject: &str) -> bool {
    let has_sources = config.sources.as_ref().is_some_and(|sources| !sources.is_empty());
    config.subjects == [subject] && config.mirror.is_none() && !has_sources
}

/// A time given by the server.
fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// The identity of one incarnation of a stream: its creation time.
fn incarnation(stream: &Stream) -> Name {
    Name::from(timestamp(stream.cached_info().created.unix_timestamp_nanos()).to_string())
}

/// Compares a stream with the recorded cursor; fetches the last consumed message if necessary.
async fn identify(
    stream: &Stream,
    messages: &MessageReader,
    cursor: Option<&Cursor>,
) -> Result<Identity, Ended> {
    let last = stream.cached_info().state.last_sequence;
    let identity = source::identify(cursor, &incarnation(stream), last);
    let (Identity::Held, Some(cursor)) = (identity, cursor) else {
        return Ok(identity);
    };
    let message = messages.at(cursor.position).await?;
    let held = message.as_ref().map(|message| (message.position.time, &*message.payload));
    Ok(source::identify_by_message(cursor, held))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader's information on the other replicas: the time since it last heard from each, and whether it is offline.
    fn cluster(replicas: &[(f64, bool)]) -> ClusterInfo {
        let replica = |&(seconds, offline): &(f64, bool)| PeerInfo {
            active: Duration::from_secs_f64(seconds),
            offline,
            ..PeerInfo::default()
        };
        ClusterInfo { replicas: replicas.iter().map(replica).collect(), ..ClusterInfo::default() }
    }

    #[test]
    fn a_leader_has_just_heard_from_most_of_those_who_have_copies() {
        let (now, just, long_ago, gone, never) =
            ((1e-9, false), (2.9, false), (4.0, false), (0.1, true), (0.0, false));
        for replicas in [
            &[][..],
            &[now],
            &[now, just],
            &[just, long_ago],
            &[gone, now],
            &[never, now],
            &[now, just, long_ago, gone],
        ] {
            assert!(is_led(Some(&cluster(replicas))), "{replicas:?}");
        }
        for replicas in [
            &[long_ago][..],
            &[never],
            &[long_ago, long_ago],
            &[gone, gone],
            &[never, gone],
            &[now, gone, long_ago, never],
            // With an even number of replicas, half of them is not a majority.
            &[now, long_ago, long_ago],
        ] {
            assert!(!is_led(Some(&cluster(replicas))), "{replicas:?}");
        }
        assert!(is_led(None), "a server that is not in a cluster");
    }
}
