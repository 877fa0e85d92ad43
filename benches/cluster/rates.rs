//! How many grants and reads there are in a second.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc, thread, time::Duration};

use quota_bench::load::{Answer, Kind, Plan, Talk, http};
use tokio_util::sync::CancellationToken;

use super::{
    append,
    batches::{Batches, Log},
    etcd,
    support::{
        measured::{Measured, load_daemon},
        process::Quotad,
    },
    testing::{
        cluster::NODES,
        nodes::{Nodes, Setup},
        quotad::agent,
    },
};

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    Single,
    /// The node that leads.
    Leader,
    /// A node that passes writes on.
    Follower,
    /// The servers without a node, one message at a time: what no node can beat, since each grant waits for one append at
    /// least. Its rates are of messages.
    Append,
    /// The member that leads.
    Etcd,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// Reserving and releasing, on so many connections. The servers alone: a message that holds as many.
    Grants(usize),
    /// Reads of a quota from one node.
    Reads,
    /// Reads from all nodes at once.
    ReadsOfAll,
}

pub const CONNECTIONS: [usize; 3] = [1, 64, 256];
const NAMESPACES: usize = 1000;
const READERS: usize = 16;
const WARMUP: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);
const READ: &str = "/v1/namespaces/read/quotas/all";

impl System {
    pub fn all() -> Vec<Self> {
        let all = [Self::Single, Self::Leader, Self::Follower, Self::Append, Self::Etcd];
        let is_there = |system: &Self| *system != Self::Etcd || etcd::is_installed();
        all.into_iter().filter(is_there).collect()
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "one node",
            Self::Leader => "three, at the leader",
            Self::Follower => "three, at a follower",
            Self::Append => "an append alone",
            Self::Etcd => "three etcds, at the leader",
        }
    }
}

impl Case {
    pub fn all() -> Vec<Self> {
        let grants = CONNECTIONS.map(Self::Grants);
        let reads = [Self::Reads, Self::ReadsOfAll];
        grants.into_iter().chain(reads).collect()
    }

    pub fn name(self) -> String {
        match self {
            Self::Grants(1) => "grants, 1 connection".to_owned(),
            Self::Grants(connections) => format!("grants, {connections} connections"),
            Self::Reads => format!("reads, {READERS} connections"),
            Self::ReadsOfAll => format!("reads of all nodes at once, {READERS} connections each"),
        }
    }
}

/// What the leader has sent, by the number of connections.
pub type Sent = BTreeMap<usize, Batches>;

/// Starts a system, and measures all cases of it. The servers alone store what the leader has sent.
pub fn measure(
    system: System,
    directory: &Path,
    seconds: f64,
    sent: &mut Sent,
) -> Vec<(Case, Measured)> {
    match system {
        System::Single => {
            let server = Quotad::start(directory, &[]);
            of_node(&server.api, seconds, grants)
        }
        System::Leader | System::Follower => {
            let setup = Setup { is_direct: true, ..Setup::default() };
            let cluster = Nodes::start(directory, setup);
            let leader = cluster.leader();
            let node = match system {
                System::Leader => leader,
                _ => (leader + 1) % NODES,
            };
            let log = Log::of(&cluster.servers);
            let mut measured = of_node(&cluster.daemon(node).api, seconds, |api, of, seconds| {
                let from = log.last();
                let measured = grants(api, of, seconds);
                if system == System::Leader {
                    sent.insert(of, log.batches(from, log.last(), of));
                }
                measured
            });
            if system == System::Leader {
                let apis = (0..NODES).map(|node| cluster.daemon(node).api.as_str());
                let apis: Vec<_> = apis.collect();
                measured.push((Case::ReadsOfAll, reads(&apis, seconds)));
            }
            measured
        }
        System::Append => {
            let messages = sent.values().map(|batches| batches.fullest.clone());
            let measured = append::measure(directory, messages, (WARMUP, seconds));
            let cases = sent.keys().copied().map(Case::Grants);
            cases.zip(measured).collect()
        }
        System::Etcd => {
            let cluster = etcd::start(directory);
            let of = |connections| {
                let plan = plan(cluster.leader, connections, seconds);
                let tally =
                    quota_bench::load::run(&plan, &CancellationToken::new(), etcd::PutTalk::new);
                Measured::of(&tally.expect("it accepts connections"), seconds)
            };
            CONNECTIONS.map(|connections| (Case::Grants(connections), of(connections))).to_vec()
        }
    }
}

fn of_node(
    api: &str,
    seconds: f64,
    mut grants: impl FnMut(&str, usize, f64) -> Measured,
) -> Vec<(Case, Measured)> {
    let grants = CONNECTIONS
        .map(|connections| (Case::Grants(connections), grants(api, connections, seconds)));
    let manifest = serde_json::json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "read"},
        "spec": {"hard": {"pods": "10"}}
    });
    let set = agent(PATIENCE).put(format!("{api}{READ}")).send_json(manifest);
    let set = set.expect("the node answers");
    assert_eq!(set.status(), 201, "the quota that is read is set");
    let reads = (Case::Reads, reads(&[api], seconds));
    grants.into_iter().chain([reads]).collect()
}

fn grants(api: &str, connections: usize, seconds: f64) -> Measured {
    let milliseconds = |seconds: f64| format!("{:.0}ms", seconds * 1000.0);
    let arguments = [
        ("--connections", connections.to_string()),
        ("--namespaces", NAMESPACES.to_string()),
        ("--duration", milliseconds(seconds)),
        ("--warmup", milliseconds(WARMUP.as_secs_f64())),
        ("--threads", "1".to_owned()),
    ];
    load_daemon(api, &arguments.map(|(flag, value)| format!("{flag}={value}")))
}

/// Reads of all these nodes at once, together.
fn reads(apis: &[&str], seconds: f64) -> Measured {
    let measured: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = apis
            .iter()
            .map(|api| {
                scope.spawn(|| {
                    let address = api.trim_start_matches("http://");
                    let plan = plan(address.parse().expect("an address"), READERS, seconds);
                    let request: Arc<[u8]> =
                        format!("GET {READ} HTTP/1.1\r\nhost: {address}\r\n\r\n")
                            .into_bytes()
                            .into();
                    let talk = |_| ReadTalk(request.clone());
                    let tally = quota_bench::load::run(&plan, &CancellationToken::new(), talk);
                    Measured::of(&tally.expect("it accepts connections"), seconds)
                })
            })
            .collect();
        let measured = running.into_iter().map(thread::ScopedJoinHandle::join);
        measured.map(|one| one.expect("it is measured")).collect()
    });
    Measured { rate: measured.iter().map(|one| one.rate).sum(), ..Measured::median(&measured) }
}

fn plan(address: SocketAddr, connections: usize, seconds: f64) -> Plan {
    Plan {
        server: address,
        connections,
        threads: 1,
        warmup: WARMUP,
        duration: Duration::from_secs_f64(seconds),
        rate: None,
        patience: PATIENCE,
    }
}

/// Reads the same again and again.
struct ReadTalk(Arc<[u8]>);

impl Talk for ReadTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        out.extend_from_slice(&self.0);
        Kind::Reserve
    }

    fn hear(&mut self, bytes: &[u8]) -> std::io::Result<Option<Answer>> {
        http::completed(bytes)
    }

    fn tidy(&mut self, _: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}
