//! Three nats-servers that keep one JetStream together, on loopback. Each reaches each other one through a network
//! that can be cut.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    PATIENCE,
    nats::{free_port, url},
    proxy::{Mode, Proxy},
    quotad::agent,
};

/// How many servers.
pub(crate) const NODES: usize = 3;

/// How long a server may take to say how it is; one that is stopped does not say it.
const QUESTION: Duration = Duration::from_secs(2);

/// Elections take the servers 4 to 9 seconds each, and the first one is not always the last.
const ELECTIONS: Duration = PATIENCE.saturating_mul(3);

/// What servers tell each other of where they are, so that no route goes around the network between them.
const NOWHERE: &str = "127.0.0.1:1";

/// How often a server is asked.
const TICK: Duration = Duration::from_millis(20);

/// The servers, by number; killed when dropped.
pub(crate) struct Cluster {
    directory: PathBuf,
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
    pub(crate) fn start(directory: PathBuf) -> Self {
        std::fs::create_dir(&directory).unwrap();
        let node = || Node {
            child: None,
            port: free_port(),
            routes: free_port(),
            monitor: free_port(),
        };
        let nodes: Vec<_> = (0..NODES).map(|_| node()).collect();
        let pairs = (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to)));
        let links = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| Link {
                from,
                to,
                proxy: Proxy::start(([127, 0, 0, 1], nodes[to].routes).into()),
            });
        let links = links.collect();
        let mut cluster = Self {
            directory,
            nodes,
            links,
        };
        for node in 0..NODES {
            cluster.start_node(node);
        }
        cluster.wait("a leader of all", || {
            (0..NODES).all(|node| cluster.meta_leader(node).is_some())
        });
        cluster
    }

    /// Where all of them listen, separated by commas.
    pub(crate) fn urls(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(|node| url(node.port)).collect();
        urls.join(",")
    }

    /// Where all but one of them listen.
    pub(crate) fn urls_but(&self, node: usize) -> String {
        let others = self.others(node).map(|other| url(self.nodes[other].port));
        others.collect::<Vec<_>>().join(",")
    }

    /// All but one of them.
    pub(crate) fn others(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |&other| other != node)
    }

    /// Starts a server with what it had stored.
    pub(crate) fn start_node(&mut self, node: usize) {
        let file = self.directory.join(format!("n{node}.conf"));
        std::fs::write(&file, self.config(node)).unwrap();
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(file).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let child = command.spawn().expect("nats-server is installed");
        self.nodes[node].child = Some(child);
    }

    fn config(&self, node: usize) -> String {
        let links = self.links.iter().filter(|link| link.from == node);
        let routes: Vec<_> = links
            .map(|link| format!("\"nats://{}\"", link.proxy.address()))
            .collect();
        let Node {
            port,
            routes: own,
            monitor,
            ..
        } = &self.nodes[node];
        format!(
            "server_name: n{node}\nlisten: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\nlog_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\", max_mem: 64MB, max_file: 4GB }}\n\
             cluster {{ name: all, listen: 127.0.0.1:{own}, routes: [{}], no_advertise: true, advertise: \"{NOWHERE}\" }}\n",
            self.directory.join(format!("n{node}.log")).display(),
            self.store(node).display(),
            routes.join(", "),
        )
    }

    fn store(&self, node: usize) -> PathBuf {
        self.directory.join(format!("s{node}"))
    }

    /// Ends a server without a chance to tidy up.
    pub(crate) fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Removes what a killed server has stored.
    pub(crate) fn wipe(&self, node: usize) {
        std::fs::remove_dir_all(self.store(node)).unwrap();
    }

    /// Tells the process of a server something.
    pub(crate) fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// What the network between this server and the others does.
    pub(crate) fn set_links(&self, node: usize, mode: Mode) {
        for link in &self.links {
            if link.from == node || link.to == node {
                link.proxy.set(mode);
            }
        }
    }

    /// Ends all connections between this server and the others, and answers how many there were.
    pub(crate) fn cut_links(&self, node: usize) -> usize {
        let links = self.links.iter();
        let of_node = links.filter(|link| link.from == node || link.to == node);
        of_node.map(|link| link.proxy.cut()).sum()
    }

    fn ask(&self, node: usize, path: &str) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.nodes[node].monitor);
        let mut answer = agent(QUESTION).get(url).call().ok()?;
        serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()
    }

    fn meta_leader(&self, node: usize) -> Option<usize> {
        let told = self.ask(node, "/jsz")?;
        numbered(&told["meta_cluster"]["leader"])
    }

    /// What a server knows of the servers of the only stream: its leader, and how far the others are.
    fn stream(&self, node: usize) -> Option<Value> {
        let told = self.ask(node, "/jsz?accounts=true&streams=true")?;
        let stream = &told["account_details"][0]["stream_detail"][0];
        Some(stream["cluster"].clone())
    }

    /// Who leads the stream, as a server knows it.
    pub(crate) fn leader_seen_by(&self, node: usize) -> Option<usize> {
        numbered(&self.stream(node)?["leader"])
    }

    /// Waits until a server knows a leader of the stream for which this is true, and answers it.
    pub(crate) fn wait_for_leader(&self, seen_by: usize, right: impl Fn(usize) -> bool) -> usize {
        let leader = || self.leader_seen_by(seen_by).filter(|&leader| right(leader));
        self.wait("a leader of the stream", || leader().is_some());
        leader().unwrap_or_else(|| self.wait_for_leader(seen_by, right))
    }

    /// Waits until all servers are there and hold all that there is.
    pub(crate) fn wait_until_current(&self) {
        self.wait("all are current", || {
            let healthy = (0..NODES).all(|node| {
                self.ask(node, "/healthz")
                    .is_some_and(|told| told["status"] == "ok")
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
    pub(crate) fn server_of(&self, client: &str) -> Option<usize> {
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
                let told: Vec<_> = (0..NODES)
                    .map(|node| (self.stream(node), self.ask(node, "/healthz")))
                    .collect();
                panic!("never: {what}: {told:?}");
            }
            std::thread::sleep(TICK);
        }
    }
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
