//! Three nats-servers that keep one JetStream together, on loopback. Each reaches each other one through a network
//! that can be cut.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use async_nats::jetstream::stream::{Config, StorageType};
use quota_replication::jetstream::servers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    PATIENCE,
    nats::{free_port, url},
    proxy::{Mode, Proxy},
    publisher,
    quotad::agent,
};

/// How many servers.
pub const NODES: usize = 3;

/// The stream that the daemon takes events from.
pub const EVENTS: &str = "OBJECTS";

/// How long a server may take to say how it is; one that is stopped does not say it.
const QUESTION: Duration = Duration::from_secs(2);

/// Elections take the servers 4 to 9 seconds each, and the first one is not always the last.
const ELECTIONS: Duration = PATIENCE.saturating_mul(3);

/// What servers tell each other of where they are, so that no route goes around the network between them.
const NOWHERE: &str = "127.0.0.1:1";

/// How often a server is polled.
const TICK: Duration = Duration::from_millis(20);

/// Which server it is, and how it is set up.
#[derive(Clone, Debug)]
struct Setup {
    program: String,
    /// Of the configuration, beside what all have.
    jetstream: &'static str,
    more: String,
    /// Whether servers reach each other without a network that can be cut.
    is_direct: bool,
}

/// The servers, by number; killed when dropped.
pub struct Cluster {
    directory: PathBuf,
    setup: Setup,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

struct Node {
    child: Option<Child>,
    port: u16,
    routes: u16,
    monitor: u16,
}

/// What leads from one server to another.
struct Link {
    from: usize,
    to: usize,
    proxy: Proxy,
}

impl Cluster {
    /// Starts it in this directory, which is made, and waits until it has a leader.
    pub fn start(directory: PathBuf) -> Self {
        let setup = Setup {
            program: "nats-server".to_owned(),
            jetstream: "",
            more: String::new(),
            is_direct: false,
        };
        Self::start_as(directory, setup)
    }

    /// As [`Cluster::start`], with servers that a replicated log can be entrusted to, and these further lines of their
    /// configuration. What is direct cannot be cut, and costs nothing on its way.
    pub fn start_durable(directory: PathBuf, more: &str, is_direct: bool) -> Self {
        let setup = Setup {
            program: durable_program(),
            jetstream: ", sync_interval: always",
            more: format!("max_payload: 8MB\n{more}"),
            is_direct,
        };
        Self::start_as(directory, setup)
    }

    fn start_as(directory: PathBuf, setup: Setup) -> Self {
        std::fs::create_dir(&directory).unwrap();
        let node =
            || Node { child: None, port: free_port(), routes: free_port(), monitor: free_port() };
        let nodes: Vec<_> = (0..NODES).map(|_| node()).collect();
        let pairs = (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| Link {
            from,
            to,
            proxy: Proxy::start(([127, 0, 0, 1], nodes[to].routes).into()),
        });
        let links = links.collect();
        let mut cluster = Self { directory, setup, nodes, links };
        for node in 0..NODES {
            cluster.start_node(node);
        }
        cluster
            .wait("a leader of all", || (0..NODES).all(|node| cluster.meta_leader(node).is_some()));
        cluster
    }

    /// Where all of them listen, separated by commas.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(|node| url(node.port)).collect();
        urls.join(",")
    }

    /// Where one listens.
    pub fn address(&self, node: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.nodes[node].port).into()
    }

    /// Where one says how it is, as `http://address`.
    pub fn monitoring(&self, node: usize) -> String {
        format!("http://127.0.0.1:{}", self.nodes[node].monitor)
    }

    /// Where all but one of them listen.
    pub fn urls_but(&self, node: usize) -> String {
        let others = self.others(node).map(|other| url(self.nodes[other].port));
        others.collect::<Vec<_>>().join(",")
    }

    /// All but one of them.
    pub fn others(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |&other| other != node)
    }

    /// Starts a server with what it had stored.
    pub fn start_node(&mut self, node: usize) {
        let file = self.directory.join(format!("n{node}.conf"));
        std::fs::write(&file, self.config(node)).unwrap();
        let mut command = Command::new(&self.setup.program);
        command.arg("-c").arg(file).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let child = command.spawn().expect("nats-server is installed");
        self.nodes[node].child = Some(child);
    }

    fn config(&self, node: usize) -> String {
        let links = self.links.iter().filter(|link| link.from == node);
        let routes: Vec<_> = links
            .map(|link| match self.setup.is_direct {
                true => format!("\"{}\"", url(self.nodes[link.to].routes)),
                false => format!("\"nats://{}\"", link.proxy.address()),
            })
            .collect();
        let Node { port, routes: own, monitor, .. } = &self.nodes[node];
        format!(
            "server_name: n{node}\nlisten: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\nlog_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\", max_mem: 64MB, max_file: 4GB{} }}\n{}\
             cluster {{ name: all, listen: 127.0.0.1:{own}, routes: [{}], no_advertise: true, advertise: \"{NOWHERE}\" }}\n",
            self.directory.join(format!("n{node}.log")).display(),
            self.store(node).display(),
            self.setup.jetstream,
            self.setup.more,
            routes.join(", "),
        )
    }

    fn store(&self, node: usize) -> PathBuf {
        self.directory.join(format!("s{node}"))
    }

    /// Ends a server without a chance to tidy up.
    pub fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Removes what a killed server has stored.
    pub fn wipe(&self, node: usize) {
        std::fs::remove_dir_all(self.store(node)).unwrap();
    }

    /// Tells the process of a server something.
    pub fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// The network between this server and the others, and whether this one is the caller.
    pub fn links(&self, node: usize) -> impl Iterator<Item = (&Proxy, bool)> {
        let links = self.links.iter();
        let of_node = links.filter(move |link| link.from == node || link.to == node);
        of_node.map(move |link| (&link.proxy, link.from == node))
    }

    /// What the network between this server and the others does.
    pub fn set_links(&self, node: usize, mode: Mode) {
        self.links(node).for_each(|(link, _)| link.set(mode));
    }

    /// Ends all connections between this server and the others, and answers how many there were.
    pub fn cut_links(&self, node: usize) -> usize {
        self.links(node).map(|(link, _)| link.cut()).sum()
    }

    fn ask(&self, node: usize, path: &str) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.nodes[node].monitor);
        let mut answer = agent(QUESTION).get(url).call().ok()?;
        serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
    }

    fn meta_leader(&self, node: usize) -> Option<usize> {
        let answer = self.ask(node, "/jsz")?;
        numbered(&answer["meta_cluster"]["leader"])
    }

    /// What a server knows of the servers of the only stream: its leader, and how far the others are.
    fn stream(&self, node: usize) -> Option<Value> {
        let answer = self.ask(node, "/jsz?accounts=true&streams=true")?;
        let stream = &answer["account_details"][0]["stream_detail"][0];
        Some(stream["cluster"].clone())
    }

    /// Makes the stream of events, with a copy on each server. The leader refuses while it has not heard of the others.
    #[tokio::main(flavor = "current_thread")]
    pub async fn create_stream(&self, name: &str) {
        let context = publisher::connect(&self.urls()).await;
        let config = Config {
            name: name.to_owned(),
            subjects: vec!["quota.objects.>".to_owned()],
            storage: StorageType::File,
            num_replicas: NODES,
            ..Config::default()
        };
        let deadline = Instant::now() + ELECTIONS;
        while let Err(error) = context.create_stream(&config).await {
            assert!(Instant::now() < deadline, "no stream is made: {error}");
            tokio::time::sleep(TICK).await;
        }
    }

    /// How many replicas a stream has; none if it does not exist.
    #[tokio::main(flavor = "current_thread")]
    pub async fn replicas(&self, stream: &str) -> Option<usize> {
        let context = publisher::connect(&self.urls()).await;
        let stream = context.get_stream(stream).await.ok()?;
        Some(stream.cached_info().config.num_replicas)
    }

    /// Has the leader of a stream hand over to another server, and answers whether it does.
    #[tokio::main(flavor = "current_thread")]
    pub async fn steps_down(&self, stream: &str) -> bool {
        let urls = self.urls();
        let servers: Vec<_> = urls.split(',').collect();
        let client = async_nats::connect(servers).await.unwrap();
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{stream}");
        // Servers before 2.10 take no other body than an empty one.
        let answer = client.request(subject, "".into()).await;
        let answer = answer.ok().and_then(|answer| serde_json::from_slice(&answer.payload).ok());
        answer.is_some_and(|answer: Value| answer["success"] == true)
    }

    /// Which server leads the stream of this name, as most of those that answer say.
    pub fn leader_of(&self, stream: &str) -> Option<usize> {
        let mut votes = [0; NODES];
        for node in 0..NODES {
            let answer = self.ask(node, "/jsz?accounts=true&streams=true");
            let answer = answer.unwrap_or_default();
            let streams = answer["account_details"][0]["stream_detail"].as_array();
            let named = streams.and_then(|all| all.iter().find(|one| one["name"] == stream));
            if let Some(leader) = named.and_then(|one| numbered(&one["cluster"]["leader"])) {
                votes[leader] += 1;
            }
        }
        let (leader, votes) = votes.into_iter().enumerate().max_by_key(|(_, votes)| *votes)?;
        (votes > 0).then_some(leader)
    }

    /// Whether a server's process has ended.
    pub fn has_ended(&mut self, node: usize) -> bool {
        let child = self.nodes[node].child.as_mut();
        child.is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Who leads the stream, as a server knows it.
    pub(crate) fn leader_seen_by(&self, node: usize) -> Option<usize> {
        numbered(&self.stream(node)?["leader"])
    }

    /// Waits until a server knows a leader of the stream for which this is true, and answers it.
    pub fn wait_for_leader(&self, seen_by: usize, right: impl Fn(usize) -> bool) -> usize {
        let leader = || self.leader_seen_by(seen_by).filter(|&leader| right(leader));
        self.wait("a leader of the stream", || leader().is_some());
        leader().unwrap_or_else(|| self.wait_for_leader(seen_by, right))
    }

    /// Waits until all servers are there and hold all that there is.
    pub fn wait_until_current(&self) {
        self.wait("all are current", || {
            let healthy = (0..NODES).all(|node| {
                self.ask(node, "/healthz").is_some_and(|answer| answer["status"] == "ok")
            });
            healthy && self.is_replicated()
        });
    }

    fn is_replicated(&self) -> bool {
        let Some(leader) = self.leader_seen_by(0) else {
            return false;
        };
        let replicas = self.stream(leader).unwrap_or_default();
        replicas["replicas"].as_array().is_some_and(|replicas| {
            let current = replicas.iter().filter(|one| one["current"] == true);
            current.count() == NODES - 1
        })
    }

    /// Which server a client of this name is connected to.
    pub fn server_of(&self, client: &str) -> Option<usize> {
        (0..NODES).find(|&node| {
            let connections = self.ask(node, "/connz").unwrap_or_default();
            let connections = connections["connections"].as_array().cloned();
            let mut connections = connections.unwrap_or_default().into_iter();
            connections.any(|connection| connection["name"] == client)
        })
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + ELECTIONS;
        while !is_so() {
            if Instant::now() > deadline {
                let answers: Vec<_> = (0..NODES)
                    .map(|node| (self.stream(node), self.ask(node, "/healthz")))
                    .collect();
                panic!("never: {what}: {answers:?}");
            }
            std::thread::sleep(TICK);
        }
    }
}

/// A server that the daemon entrusts a replicated log to: `QUOTAD_NATS_SERVER`, or the one in the path.
pub fn durable_program() -> String {
    let program = std::env::var("QUOTAD_NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
    let said = Command::new(&program).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let version = said.split_whitespace().find_map(servers::Version::parse);
    assert!(
        version.is_some_and(|version| version >= servers::LEAST),
        "{program} is {said}: name a newer one by QUOTAD_NATS_SERVER, as tests/run does"
    );
    program
}

/// The number of a server by its name.
fn numbered(name: &Value) -> Option<usize> {
    name.as_str()?.strip_prefix('n')?.parse().ok()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
