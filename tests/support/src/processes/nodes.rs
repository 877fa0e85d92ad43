//! Three daemons that keep one ledger, in the log of three nats-servers, on loopback. All that they and their clients say
//! to each other goes through a network that can be cut.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use ureq::Agent;

use super::{
    PATIENCE,
    cluster::{Cluster, EVENTS, NODES},
    nats::free_port,
    proxy::{Mode, Proxy},
    quotad::{self, Quotad, agent},
    shim, wait_for,
};

/// How long a node may take to say how it is; one that is stopped does not say it.
const QUESTION: Duration = Duration::from_secs(2);

/// How often is looked.
const TICK: Duration = Duration::from_millis(10);

/// The stream of the log.
pub const LOG: &str = "QL_main_0";

/// A process of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Node(usize),
    Server(usize),
}

/// What becomes of the network between a part and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Connections end, and none are made.
    Ended,
    /// Connections stand, and nothing gets through until it is healed; then all of it does.
    Silent,
    /// The same for what the part says.
    SilentOut,
    /// The same for what is said to it.
    SilentIn,
    /// Everything is late.
    Slow,
}

impl Cut {
    const fn mode(self, is_caller: bool) -> Mode {
        match (self, is_caller) {
            (Self::Ended, _) => Mode::Refuse,
            (Self::Silent, _) => Mode::Hold,
            (Self::SilentOut, true) | (Self::SilentIn, false) => Mode::HoldRequests,
            (Self::SilentOut, false) | (Self::SilentIn, true) => Mode::HoldAnswers,
            (Self::Slow, _) => Mode::Slow,
        }
    }
}

/// How all of them are set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Further lines of the servers' configuration.
    pub servers: String,
    /// Where the certificates are that all use, as `quotactl generate certs` makes them.
    pub certificates: Option<PathBuf>,
    /// Further sections of the daemons' configuration.
    pub nodes: String,
    /// Further lines of their limits.
    pub limits: String,
    /// What is shown to the daemons, if they want a token.
    pub token: String,
    /// Whether events come from a stream on the same servers.
    pub has_events: bool,
    /// Whether the clock of each node can be moved.
    pub moves_clocks: bool,
    /// Without a network that can be cut: nothing is between the parts.
    pub is_direct: bool,
}

/// The nodes, by number, and their servers; killed when dropped.
pub struct Nodes {
    directory: PathBuf,
    setup: Setup,
    pub servers: Cluster,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

struct Node {
    daemon: Option<Quotad>,
    api: u16,
    admin: u16,
    peers: u16,
}

/// What leads from a client or a node to a part.
struct Link {
    /// None: a client.
    from: Option<Part>,
    to: Part,
    target: SocketAddr,
    proxy: Proxy,
}

impl Nodes {
    /// Starts them in this directory, and waits until one of them leads.
    pub fn start(directory: &Path, setup: Setup) -> Self {
        let servers =
            Cluster::start_durable(directory.join("servers"), &setup.servers, setup.is_direct);
        let nodes: Vec<_> = (0..NODES)
            .map(|_| Node {
                daemon: None,
                api: free_port(),
                admin: free_port(),
                peers: free_port(),
            })
            .collect();
        let links = links(&nodes, &servers);
        let mut cluster = Self { directory: directory.to_owned(), setup, servers, nodes, links };
        std::fs::write(directory.join("token"), "0123456789abcdef".repeat(4)).unwrap();
        (0..NODES).for_each(|node| cluster.start_node(node));
        cluster.initialise();
        cluster.leader();
        if cluster.setup.has_events {
            // The leader creates the stream.
            let replicas = wait_for("there is a stream of events", PATIENCE, || {
                cluster.servers.replicas(EVENTS)
            });
            assert_eq!(replicas, NODES);
        }
        cluster
    }

    /// Starts a node with what it had stored.
    pub fn start_node(&mut self, node: usize) {
        let home = self.home(node);
        std::fs::create_dir_all(&home).unwrap();
        let file = home.join("quotad.toml");
        std::fs::write(&file, self.config(node)).unwrap();
        let mut command = quotad::with_config(&home);
        command.arg("--config").arg(file);
        if self.setup.moves_clocks {
            shim::shift_clock(&mut command, &self.clock(node));
        }
        let started = Quotad::try_start(&home, &mut command);
        self.nodes[node].daemon =
            Some(started.unwrap_or_else(|ended| panic!("n{node}: {ended:?}")));
    }

    fn config(&self, node: usize) -> String {
        let Node { api, admin, peers, .. } = &self.nodes[node];
        let scheme = match self.setup.certificates {
            Some(_) => "https",
            None => "http",
        };
        let monitoring: Vec<_> = (0..NODES).map(|at| self.servers.monitoring(at)).collect();
        let servers: Vec<_> = (0..NODES)
            .map(|at| format!("nats://{}", self.address(node, Part::Server(at))))
            .collect();
        let servers = servers.join(",");
        let all: Vec<_> = (0..NODES)
            .map(|at| {
                // A node does not call itself.
                let address = match at == node {
                    true => self.peer_address(node),
                    false => self.address(node, Part::Node(at)),
                };
                format!("n{at} = \"{scheme}://{address}\"")
            })
            .collect();
        let tls = |own: &str| match &self.setup.certificates {
            Some(directory) => {
                let directory = directory.display();
                format!(
                    "tls_cert = \"{directory}/{own}.crt\"\ntls_key = \"{directory}/{own}.key\"\n\
                     tls_ca = \"{directory}/ca.crt\"\n"
                )
            }
            None => String::new(),
        };
        let events = match self.setup.has_events {
            true => format!("url = \"{servers}\"\ncreate_stream = true\n"),
            false => String::new(),
        };
        format!(
            "listen = \"127.0.0.1:{api}\"\ndata_dir = \"data\"\n[limits]\npage = 1000\n{}\
             [admin]\nlisten = \"127.0.0.1:{admin}\"\n[nats]\n{events}{}\
             [cluster]\nservers = \"{servers}\"\nmonitoring = {monitoring:?}\nnode = \"n{node}\"\n\
             peers = {{ {} }}\nlisten = \"127.0.0.1:{peers}\"\ntoken_file = \"{}\"\n{}{}",
            self.setup.limits,
            tls("client"),
            all.join(", "),
            self.directory.join("token").display(),
            tls("tls"),
            self.setup.nodes,
        )
    }

    /// Where a node reaches a part.
    fn address(&self, from: usize, to: Part) -> SocketAddr {
        let wanted = (Some(Part::Node(from)), to);
        let mut links = self.links.iter();
        let link = links.find(|link| (link.from, link.to) == wanted).unwrap();
        match self.setup.is_direct {
            true => link.target,
            false => link.proxy.address(),
        }
    }

    /// Makes the stream, as soon as the servers can.
    fn initialise(&self) {
        self.wait("the cluster is initialised", || {
            let url = format!("{}/v1/cluster/init", self.daemon(0).api);
            let mut request = agent(PATIENCE).post(url);
            if let Some(authorization) = self.authorization() {
                request = request.header("authorization", authorization);
            }
            let answer = request.send_empty().ok()?;
            (answer.status() == 201).then_some(())
        });
    }

    fn authorization(&self) -> Option<String> {
        let token = &self.setup.token;
        (!token.is_empty()).then(|| format!("Bearer {token}"))
    }

    /// Where a node keeps what it has.
    pub fn home(&self, node: usize) -> PathBuf {
        self.directory.join(format!("n{node}"))
    }

    /// What a node's clock is ahead by stands here, in seconds.
    pub fn clock(&self, node: usize) -> PathBuf {
        self.directory.join(format!("clock-{node}"))
    }

    /// Where the other nodes reach a node.
    pub fn peer_address(&self, node: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.nodes[node].peers).into()
    }

    /// The process of a node.
    pub fn daemon(&self, node: usize) -> &Quotad {
        self.nodes[node].daemon.as_ref().unwrap()
    }

    /// The process of a node, which is the caller's from now on.
    pub fn take(&mut self, node: usize) -> Quotad {
        self.nodes[node].daemon.take().unwrap()
    }

    /// Where clients reach the nodes, as `http://address`.
    pub fn apis(&self) -> Vec<String> {
        let clients = self.links.iter().filter(|link| link.from.is_none());
        clients.map(|link| format!("http://{}", link.proxy.address())).collect()
    }

    /// The role of a node, and the term that it knows of, as it says itself.
    pub fn role(&self, node: usize) -> Option<(String, u64)> {
        let url = format!("{}/metrics", self.daemon(node).admin);
        let mut answer = asking().get(url).call().ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let role = text.lines().find_map(|line| {
            let rest = line.strip_prefix("quota_ledger_cluster_role{role=\"")?;
            Some(rest.strip_suffix("\"} 1")?.to_owned())
        });
        let term = text.lines().find_map(|line| {
            let value = line.strip_prefix("quota_ledger_cluster_term ")?;
            value.parse::<f64>().ok()
        });
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a term is a small number"
        )]
        Some((role?, term? as u64))
    }

    /// Which node leads, if one does; of several that say so, the one of the last term.
    pub fn leads(&self) -> Option<usize> {
        let roles = (0..NODES).filter(|node| self.nodes[*node].daemon.is_some());
        let roles = roles.filter_map(|node| Some((self.role(node)?, node)));
        let leaders = roles.filter(|((role, _), _)| role == "leader");
        leaders.max_by_key(|((_, term), _)| *term).map(|(_, node)| node)
    }

    /// Waits until a node leads.
    pub fn leader(&self) -> usize {
        self.wait("a node leads", || self.leads())
    }

    /// Where a node's replica ends: sequence and hash, as it says itself.
    pub fn end(&self, node: usize) -> Option<(u64, String)> {
        let url = format!("{}/v1/cluster", self.daemon(node).api);
        let mut request = asking().get(url);
        if let Some(authorization) = self.authorization() {
            request = request.header("authorization", authorization);
        }
        let mut answer = request.call().ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let cluster: Value = serde_json::from_str(&text).ok()?;
        let name = format!("n{node}");
        let own = cluster["nodes"].as_array()?.iter();
        let own = own.into_iter().find(|one| one["name"] == name.as_str())?;
        let end = &own["replica"];
        Some((end["sequence"].as_u64()?, end["hash"].as_str()?.to_owned()))
    }

    /// Waits until the replicas of all nodes end at the same place, and answers it.
    pub fn wait_until_same(&self) -> u64 {
        let same = || {
            let ends: Vec<_> = (0..NODES).filter_map(|node| self.end(node)).collect();
            let first = ends.first()?;
            let is_same = ends.len() == NODES && ends.iter().all(|end| end == first);
            is_same.then_some(first.0)
        };
        self.wait("the replicas are the same", same)
    }

    /// Ends a process without a chance to tidy up.
    pub fn kill(&mut self, part: Part) {
        match part {
            Part::Node(node) => self.take(node).kill(),
            Part::Server(server) => self.servers.kill(server),
        }
    }

    /// Tells a process something.
    pub fn signal(&self, part: Part, signal: Signal) {
        match part {
            Part::Node(node) => kill_process(self.daemon(node).pid(), signal).unwrap(),
            Part::Server(server) => self.servers.signal(server, signal),
        }
    }

    /// Starts what has been killed.
    pub fn start_again(&mut self) {
        let ended: Vec<_> = (0..NODES).filter(|&at| self.servers.has_ended(at)).collect();
        ended.iter().for_each(|&at| self.servers.start_node(at));
        for node in 0..NODES {
            if self.nodes[node].daemon.is_none() {
                self.start_node(node);
            }
        }
    }

    /// No node has ended by itself.
    pub fn all_run(&mut self) {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if let Some(daemon) = &mut node.daemon
                && let Some(status) = daemon.ended()
            {
                panic!("n{number} ended: {status}: {}", daemon.last_words());
            }
        }
    }

    /// Cuts a part off from all other parts, and from its clients if that is said.
    pub fn cut(&self, part: Part, cut: Cut, and_clients: bool) {
        for (proxy, is_caller) in self.links_of(part, and_clients) {
            proxy.set(cut.mode(is_caller));
            if cut == Cut::Ended {
                proxy.cut();
            }
        }
    }

    /// The network is whole again.
    pub fn heal(&self) {
        let parts = (0..NODES).flat_map(|at| [Part::Node(at), Part::Server(at)]);
        for (proxy, _) in parts.flat_map(|part| self.links_of(part, true)) {
            proxy.set(Mode::Pass);
        }
    }

    /// The network of a part, and whether the part is the caller.
    fn links_of(&self, part: Part, and_clients: bool) -> Vec<(&Proxy, bool)> {
        let links = self.links.iter();
        let own = links.filter(|link| link.from == Some(part) || link.to == part);
        // The clients of a server are the nodes.
        let wanted = own.filter(|link| match part {
            Part::Node(_) => and_clients || link.from.is_some(),
            Part::Server(_) => and_clients,
        });
        let mut found: Vec<_> = wanted.map(|link| (&link.proxy, link.from == Some(part))).collect();
        if let Part::Server(server) = part {
            found.extend(self.servers.links(server));
        }
        found
    }

    /// Runs a program on the ledger of each node, which has ended; what it said.
    pub fn of_each(&self, command: impl Fn(&Path) -> Command) -> Vec<String> {
        let said = (0..NODES).map(|node| {
            let done = command(&self.home(node).join("data")).output().unwrap();
            assert!(done.status.success(), "n{node}: {done:?}");
            String::from_utf8(done.stdout).unwrap()
        });
        said.collect()
    }

    fn wait<T>(&self, what: &str, found: impl Fn() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found() {
                return found;
            }
            if Instant::now() > deadline {
                let nodes = self.nodes.iter().filter_map(|node| node.daemon.as_ref());
                let said: Vec<_> = nodes.map(Quotad::last_words).collect();
                panic!("never: {what}: {}", said.join("\n---\n"));
            }
            std::thread::sleep(TICK);
        }
    }
}

/// From each client and each node to each part that it calls.
fn links(nodes: &[Node], servers: &Cluster) -> Vec<Link> {
    let here = |port: u16| ([127, 0, 0, 1], port).into();
    let link = |from, to, target| Link { from, to, target, proxy: Proxy::start(target) };
    let mut links = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        links.push(link(None, Part::Node(at), here(node.api)));
        for from in (0..NODES).map(Part::Node) {
            links.push(link(Some(from), Part::Server(at), servers.address(at)));
            if from != Part::Node(at) {
                links.push(link(Some(from), Part::Node(at), here(node.peers)));
            }
        }
    }
    links
}

fn asking() -> Agent {
    agent(QUESTION)
}
