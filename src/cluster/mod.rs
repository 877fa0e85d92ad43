//! This node as one of several that replicate one ledger.
//!
//! `quota-replication` decides which node does what, and `quota-cluster` carries it out. This module connects them with
//! the daemon: a follower applies the log and forwards writes to the leader; the leader decides.

mod checks;
mod forward;
mod heal;
mod join;
mod peers;
mod purge;
mod task;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use async_nats::Client;
use bytes::Bytes;
use futures::future::{FutureExt as _, join_all};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use quota_client::wire::{self, ClusterNode, ReplicaEnd};
use quota_journal::{Durable, FileJournal, FileReader};
use quota_replication::{
    jetstream::{Handle, Names, Offset, PositionFile, stream, wall},
    protocol::{Counts, Identity, LedgerId, NodeName, Role},
};
use quota_service::health::Health;
use tokio::sync::watch;
use uuid::Uuid;

use checks::{Digests, Servers};
pub(crate) use join::{BYTES, STREAM_POSITION, before_opening};
pub(crate) use peers::FromNode;
use peers::{Actor, Peers};
pub use task::Running;

use crate::{
    config::{self, Config},
    exit::{Exit, Failure, OrExit as _},
    intake::nats,
    metrics,
    writer::{Ledger, PendingDecisions, Replica, Unavailable},
};

/// How long pending decisions may take to become durable before a handover is cancelled, or a stop no longer waits for
/// them.
const DRAIN: Duration = Duration::from_secs(5);

/// A stream that has lacked this node's entries for this long, although the node has read all of it, has lost them.
const AHEAD: Duration = Duration::from_secs(10);

/// The version of this node: different versions may encode the same state as different bytes.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the target of a handover may take to begin to lead.
const TAKE_OVER: Duration = Duration::from_secs(5);

/// This node in its cluster. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Shared>);

struct Shared {
    settings: config::Cluster,
    node: NodeName,
    names: Names,
    client: Client,
    position_file: PositionFile,
    data_dir: PathBuf,
    ledger: Ledger,
    replica: Replica<FileJournal>,
    reader: FileReader,
    /// The running member; none before there is a stream, and while the state is rebuilt.
    member: watch::Sender<Option<Handle>>,
    /// The creation time of the stream that the last member reads.
    followed: Mutex<String>,
    /// Why there is no member.
    waits_for: Mutex<String>,
    /// The clock of the server that leads the stream; none before it was read.
    servers_clock: Mutex<Option<Offset>>,
    /// Why this node must not lead because of its clock.
    clock: Mutex<Option<String>>,
    digests: Digests,
    /// The name under which this process claims a stream that it makes anew.
    claimant: String,
    /// Whether this node leaves the lead to another one, since its disk is low.
    is_disk_barred: AtomicBool,
    /// Since when there has been no stream, or it has ended before the position that this node has read.
    short_since: Mutex<Option<Instant>>,
    /// The servers of the log.
    servers: Mutex<Servers>,
    peers: Peers,
    /// How long a write waits for a leader.
    forward_timeout: Duration,
    /// Allows one handover at a time.
    transfer: tokio::sync::Mutex<()>,
    /// When this node last began to lead.
    term_began: Mutex<Option<Instant>>,
}

/// Why a node is not ready, or cannot lead.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    #[error("{0}")]
    NotReady(String),
    #[error("this node cannot lead: {0}")]
    Clock(String),
    /// It leads only if no other node can.
    #[error("this node cannot lead: its disk is low, and it grants nothing")]
    DiskLow,
}

/// Why a change of the cluster was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another node leads, or none does.
    #[error("this node does not lead")]
    NotLeader,
    /// There is no other node of this name.
    #[error("{0} is no other node of cluster.peers")]
    UnknownNode(String),
    /// The target node cannot lead.
    #[error("{0} cannot take the lead: {1}")]
    CannotLead(NodeName, String),
    /// The target node did not take over in time: any node may lead now.
    #[error("{0} has not taken over within {TAKE_OVER:?}")]
    NotTaken(NodeName),
    /// Pending appends did not become durable in time; this node goes on leading.
    #[error("decisions are on their way since {DRAIN:?}: this node goes on leading")]
    Busy,
    /// The servers did not answer: the change may have been made. The request can be repeated.
    #[error("{0}; the command can be repeated")]
    Servers(String),
    /// The request is not needed or could lose entries, the servers or the stream are not fit for a ledger, or a request to
    /// the servers failed: the text says why.
    #[error("{0}")]
    Refused(String),
}

impl From<stream::Error> for Error {
    fn from(error: stream::Error) -> Self {
        match error {
            stream::Error::Unavailable(_) => Self::Servers(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}

impl Cluster {
    /// Connects to the servers, which need not be reachable yet.
    ///
    /// # Errors
    /// The configuration names files that cannot be read, or invalid addresses.
    pub async fn new(
        config: &Config,
        ledger: Ledger,
        replica: Replica<FileJournal>,
        reader: FileReader,
    ) -> Result<Self, Failure> {
        let settings = config.cluster.clone();
        let servers = settings.servers.as_deref().unwrap_or_default();
        let client = nats::to_log(&config.nats, servers)
            .await
            .context("cluster.servers")
            .or_exit(Exit::Configuration)?;
        let name = |text: &str| text.parse::<NodeName>().or_exit(Exit::Configuration);
        let node = name(settings.node.as_deref().unwrap_or_default())?;
        let peers = Peers::load(&settings).or_exit(Exit::Configuration)?;
        let names = Names::new(&name(&settings.ledger)?, PARTITION);
        let cluster = Self(Arc::new(Shared {
            position_file: PositionFile::new(&config.data_dir),
            data_dir: config.data_dir.clone(),
            settings,
            claimant: format!("{node} ({})", Uuid::new_v4()),
            node,
            names,
            client,
            ledger,
            replica,
            reader,
            member: watch::Sender::new(None),
            followed: Mutex::default(),
            waits_for: Mutex::new("starting".to_owned()),
            servers_clock: Mutex::default(),
            clock: Mutex::new(Some("its clock was not compared yet".to_owned())),
            digests: Digests::default(),
            is_disk_barred: AtomicBool::new(false),
            short_since: Mutex::default(),
            servers: Mutex::default(),
            peers,
            forward_timeout: forward::timeout(config.limits.request_timeout.get()),
            transfer: tokio::sync::Mutex::default(),
            term_began: Mutex::new(None),
        }));
        let most = cluster.0.settings.max_clock_skew.get().as_millis();
        let most = i64::try_from(most).unwrap_or(i64::MAX - 1);
        cluster.0.ledger.clock().limit(most);
        let leading = cluster.clone();
        let confirm = move || leading.clone().confirm_read().boxed();
        cluster.0.ledger.confirm_reads_by(confirm);
        Ok(cluster)
    }

    /// The name of this node.
    pub fn node(&self) -> &NodeName {
        &self.0.node
    }

    /// Confirms a read of a leader, which is answered only if no other node can have led before. A follower does not
    /// wait.
    async fn confirm_read(self) -> Result<(), Unavailable> {
        let ledger = &self.0.ledger;
        if !ledger.decides() {
            return Ok(());
        }
        let member = self.member().ok_or(Unavailable::NotLeader)?;
        match member.confirm().await {
            Ok(()) => Ok(()),
            // The data read is durable: after a handover this is a valid read of a follower.
            Err(_) if !ledger.decides() => Ok(()),
            Err(_) => Err(Unavailable::NotLeader),
        }
    }

    /// The id of the ledger: of the stream that this node follows, or of its replica.
    fn ledger_id(&self) -> Option<LedgerId> {
        let followed = self.view().ledger;
        followed.or_else(|| self.0.position_file.read().ok().flatten()?.ledger)
    }

    fn member(&self) -> Option<Handle> {
        self.0.member.borrow().clone()
    }

    /// The status of this node in the cluster.
    pub fn view(&self) -> View {
        View::of(self)
    }

    /// Whether this node is ready: a leader decides, a follower has read all messages of which it has learned.
    pub fn health(&self) -> Health {
        match self.obstacle() {
            None => Health::Passed,
            Some(Obstacle::NotReady(why)) => Health::Failed(why),
            Some(obstacle) => Health::Lagging(obstacle.to_string()),
        }
    }

    /// Why this node is not ready, or cannot lead; none if neither holds.
    fn obstacle(&self) -> Option<Obstacle> {
        let not_ready = |why| Some(Obstacle::NotReady(why));
        let view = self.view();
        if view.role.is_none() {
            return not_ready(self.0.waits_for.lock().clone());
        }
        if let Some(why) = self.0.digests.differs().or_else(|| view.stream_loss()) {
            return not_ready(why);
        }
        let bound = self.0.settings.max_read_age.get();
        // A leader outside its lease may have been replaced, or cut off.
        match view.age {
            Some(age) if age <= bound => {}
            Some(age) => return not_ready(format!("the replica may be {age:?} old")),
            None => return not_ready("the replica has not caught up yet".to_owned()),
        }
        if view.leader.is_none() {
            return not_ready("no node leads".to_owned());
        }
        let clock = self.0.clock.lock().clone().map(Obstacle::Clock);
        clock.or_else(|| self.0.ledger.is_disk_low().then_some(Obstacle::DiskLow))
    }

    /// Why nothing is granted, as far as this node can tell; none if requests are granted.
    pub(crate) fn no_grants(&self) -> Option<String> {
        match self.obstacle() {
            Some(Obstacle::NotReady(why)) => Some(why),
            _ => None,
        }
    }

    /// Sets the metrics to the status of this node; called at each scrape.
    pub(crate) fn set_metrics(&self) {
        let view = self.view();
        metrics::cluster(view.role, view.term, view.age, view.in_flight, view.counts);
    }

    /// Makes the stream, and begins the ledger in it after the entries of this node.
    ///
    /// # Errors
    /// [`Error`]. After a failed request for the stream, a repeated call resumes where the last one failed.
    pub async fn initialise(&self) -> Result<LedgerId, Error> {
        let shared = &self.0;
        if !matches!(shared.position_file.read(), Ok(None)) {
            let why = "this node already has a replica of a ledger. A new ledger would split it in two: if its stream is \
                       gone, run `quotactl cluster heal`; for another ledger, start with another data_dir";
            return Err(Error::Refused(why.to_owned()));
        }
        checks::servers(&shared.settings, true).await.map_err(Error::Refused)?;
        let id = LedgerId::from_bytes(*Uuid::new_v4().as_bytes());
        let begin = (&self.identity(), id, shared.ledger.durable());
        let replicas = shared.settings.replicas;
        stream::initialise(&shared.client, &shared.names, replicas, begin).await?;
        tracing::info!(ledger = %id, stream = shared.names.stream, "the cluster is initialised");
        Ok(id)
    }

    /// Hands the lead over to another node. All decisions are durable then, and only requests that another node can
    /// decide instead are refused.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn transfer(&self, to: &str) -> Result<(), Error> {
        let to = self.other(to)?;
        match self.query(&to).await.problem {
            Some(why) => Err(Error::CannotLead(to, why)),
            None => self.transfer_to(to).await,
        }
    }

    async fn transfer_to(&self, to: NodeName) -> Result<(), Error> {
        let _one = self.0.transfer.lock().await;
        let member = self.member().ok_or(Error::NotLeader)?;
        if member.status.borrow().role != Role::Leader {
            return Err(Error::NotLeader);
        }
        // If the caller gives up meanwhile, this node goes on.
        match tokio::time::timeout(DRAIN, self.0.replica.prepare_handover()).await {
            Ok((handover, PendingDecisions::Durable)) => {
                member.hand_over(to.clone());
                handover.complete();
            }
            Ok((_, PendingDecisions::Void)) => return Err(Error::NotLeader),
            Err(_) => return Err(Error::Busy),
        }
        let mut status = member.status.clone();
        let taken = status.wait_for(|status| {
            let leader = status.leader.as_ref();
            status.role != Role::Leader && leader.is_some_and(|leader| leader.node == to)
        });
        match tokio::time::timeout(TAKE_OVER, taken).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::NotTaken(to)),
        }
    }

    /// Another node by its name.
    fn other(&self, name: &str) -> Result<NodeName, Error> {
        let other = self.others().find(|node| node.as_str() == name);
        other.ok_or_else(|| Error::UnknownNode(name.to_owned()))
    }

    /// The persisted position of this replica in the stream, for a node that joins.
    pub(crate) fn position_text(&self) -> Option<String> {
        self.0.position_file.text().ok().flatten()
    }

    /// The other nodes.
    fn others(&self) -> impl Iterator<Item = NodeName> {
        let others = self.0.peers.names().filter(|node| **node != self.0.node);
        others.cloned()
    }

    /// Before this node stops: hands the lead over, if this node has it, to a node that can take it.
    pub async fn leave(&self) {
        // While this node could go on leading, a node with a low disk does not take the lead.
        self.hand_over(self.obstacle().is_some()).await;
    }

    /// Hands the lead over to a node that nothing keeps from leading, or else, if `also_low`, to one with a low disk.
    async fn hand_over(&self, also_low: bool) {
        if self.view().role != Some(Role::Leader) {
            return;
        }
        let others: Vec<_> = self.others().collect();
        let mut statuses = join_all(others.iter().map(|node| self.query(node))).await;
        statuses.retain(|node| checks::can_lead(node) || also_low && node.disk_low);
        statuses.sort_by_key(|node| node.disk_low);
        for other in &statuses {
            let other = &other.name;
            let transferred = match self.other(other) {
                Ok(other) => self.transfer_to(other).await,
                Err(error) => Err(error),
            };
            match transferred {
                Ok(()) => return tracing::info!(to = other, "leadership transferred"),
                Err(Error::NotLeader) => return,
                Err(error) => tracing::warn!(to = other, %error, "handover failed"),
            }
            // Any node may lead now: this one again, or another.
            let leads = self.0.ledger.wait_until_decides(true);
            if tokio::time::timeout(TAKE_OVER, leads).await.is_err() {
                return;
            }
        }
    }

    /// Gives up the lead, if this node has it: to a node that can take it, or else to no particular node.
    async fn step_down(&self) {
        self.leave().await;
        if let Some(member) = self.member()
            && member.status.borrow().role == Role::Leader
            && self.0.replica.shut().await == PendingDecisions::Durable
        {
            // This node is barred from leading.
            member.hand_over(self.0.node.clone());
        }
    }

    /// Bars this node from leading while there is a reason that the log does not contain. A fence that is in flight while
    /// the stream lacks messages could be stored behind others than those that it follows.
    fn set_bar(&self) {
        let is_barred = self.0.clock.lock().is_some()
            || self.0.digests.differs().is_some()
            || self.0.is_disk_barred.load(Ordering::Relaxed)
            || self.0.short_since.lock().is_some();
        if let Some(member) = self.member() {
            member.set_barred(is_barred);
        }
    }

    fn identity(&self) -> Identity {
        let (instance, _) = Uuid::new_v4().as_u64_pair();
        Identity { node: self.0.node.clone(), instance, partition: PARTITION }
    }
}

/// There is one partition so far.
const PARTITION: u32 = 0;

// The status of a node in its cluster.

/// The status of a node in its cluster.
#[derive(Clone, Debug)]
pub struct View {
    /// The node's role; none before it has one.
    pub role: Option<Role>,
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// The term of the leader; 0 if there has been none.
    pub term: u64,
    /// The leader, as far as this node has read; during a handover, the target node.
    pub leader: Option<NodeName>,
    /// The last message of the stream that the node has applied.
    pub stream: u64,
    /// The end of the node's replica.
    pub end: Durable,
    /// How long ago the replica held everything that the log held; zero for a leader within its lease, none if never.
    pub age: Option<Duration>,
    /// For how long an append has been pending.
    pub in_flight: Option<Duration>,
    /// The persisted position in the stream up to which the replica is durable.
    pub noted: u64,
    /// For how long the replica has had entries that the stream lacks, or the stream has ended before the position that
    /// the node has read.
    pub ahead: Option<Duration>,
    /// Event counts since the start.
    pub counts: Counts,
}

impl View {
    fn of(cluster: &Cluster) -> Self {
        let end = cluster.0.ledger.durable();
        let Some(member) = cluster.member() else {
            return Self {
                role: None,
                ledger: None,
                term: 0,
                leader: None,
                stream: 0,
                end,
                age: None,
                in_flight: None,
                noted: 0,
                ahead: None,
                counts: Counts::default(),
            };
        };
        let short_since = *cluster.0.short_since.lock();
        let short = short_since.map(|since| since.elapsed());
        let status = member.status.borrow();
        let now = member.clock.now();
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        let leads = status.role == Role::Leader && now < status.lease_until;
        Self {
            role: Some(status.role),
            ledger: status.ledger,
            term: status.leader.as_ref().map_or(0, |leader| leader.term),
            leader: status
                .leader
                .as_ref()
                .map(|leader| leader.handed_to.as_ref().unwrap_or(&leader.node).clone()),
            stream: status.stream,
            end,
            age: match leads {
                true => Some(Duration::ZERO),
                false => status.current.map(since),
            },
            in_flight: status.in_flight_since.map(since),
            noted: status.noted,
            ahead: status.ahead_since.map(since).max(short),
            counts: status.counts,
        }
    }

    /// Why the servers are taken to have lost what they acknowledged; none if the stream has what this node has.
    fn stream_loss(&self) -> Option<String> {
        let end = self.end.sequence;
        self.ahead.filter(|since| *since > AHEAD).map(|_| {
            format!(
                "the stream lacks the end of what this node has up to entry {end}: the servers have \
                 lost what they acknowledged (`quotactl cluster heal`)"
            )
        })
    }

    /// The role as one word.
    pub(crate) const fn role_name(&self) -> &'static str {
        match self.role {
            Some(Role::Leader) => "leader",
            Some(Role::Candidate) => "candidate",
            Some(Role::Follower) => "follower",
            Some(Role::Over) | None => "starting",
        }
    }
}

/// How long a node may take to report its status.
const WAIT: Duration = Duration::from_secs(2);

/// The path of the status.
const PATH: &str = "/v1/cluster";

impl Cluster {
    /// The status of this node.
    pub(crate) fn own_status(&self) -> wire::Cluster {
        let (view, obstacle) = (self.view(), self.obstacle());
        wire::Cluster {
            node: self.0.node.to_string(),
            ledger: self.ledger_id().map(|ledger| ledger.to_string()),
            servers: self.servers(),
            nodes: vec![ClusterNode {
                name: self.0.node.to_string(),
                role: view.role_name().to_owned(),
                term: view.term,
                leader: view.leader.map(|leader| leader.to_string()),
                stream_sequence: view.stream,
                replica: Some(ReplicaEnd {
                    sequence: view.end.sequence,
                    time: view.end.time,
                    hash: view.end.hash.to_string(),
                    age_seconds: view.age.map(|age| age.as_secs_f64()),
                }),
                durable_stream_sequence: view.noted,
                clock: Some(wall()),
                version: Some(VERSION.to_owned()),
                digests: self.0.digests.own(),
                problem: obstacle.as_ref().map(ToString::to_string),
                disk_low: matches!(obstacle, Some(Obstacle::DiskLow)),
            }],
        }
    }

    /// The status of all nodes, as reported by each node itself.
    pub async fn status(&self) -> wire::Cluster {
        let own = self.own_status();
        let nodes = self.0.peers.names().map(|node| async {
            match *node == self.0.node {
                true => own.nodes.clone(),
                false => vec![self.query(node).await],
            }
        });
        let nodes = join_all(nodes).await.into_iter().flatten().collect();
        wire::Cluster { nodes, ..own }
    }

    async fn query(&self, node: &NodeName) -> ClusterNode {
        self.0.peers.status(node).await
    }
}

impl Peers {
    /// The status that a node reports.
    async fn status(&self, node: &NodeName) -> ClusterNode {
        let headers = HeaderMap::new();
        let nobody = Actor::default();
        let target = (&Method::GET, PATH);
        let sent = self.send(node, target, &headers, &nobody, Bytes::new());
        let unreachable = |why: String| ClusterNode {
            name: node.to_string(),
            role: "unreachable".to_owned(),
            problem: Some(why),
            ..ClusterNode::default()
        };
        let Ok(Ok(answer)) = tokio::time::timeout(WAIT, sent).await else {
            return unreachable("it does not answer".to_owned());
        };
        match serde_json::from_slice::<wire::Cluster>(answer.body()) {
            Ok(status) => status
                .nodes
                .into_iter()
                .next()
                .unwrap_or_else(|| unreachable("it says nothing of itself".to_owned())),
            Err(_) => unreachable(format!("it answers with {}", answer.status())),
        }
    }
}
