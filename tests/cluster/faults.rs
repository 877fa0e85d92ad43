//! What is done to nodes, servers and the network between them.

use std::{
    fmt,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::support::{
    PATIENCE,
    cluster::NODES,
    linear::clients::Yard,
    nodes::{Cut, LOG, Nodes, Part},
    quotad::agent,
    random::Random,
};

/// Whom it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Leader,
    Follower,
    /// The server that leads the stream of the log.
    StreamLeader,
    /// Another server.
    Server,
    TwoNodes,
    TwoServers,
    LeaderAndStreamLeader,
    AllNodes,
    AllServers,
    All,
}

/// What happens to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Kill,
    Stop,
    /// Connections end, and none are made.
    Cut,
    /// Connections stand, and nothing gets through in one direction or both; in the end all of it does.
    Silence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Strike(Blow, Target),
    /// Everything is late.
    Slow,
    /// The leader gives the lead to another node.
    HandOver,
    /// The leader gets SIGTERM.
    End,
    /// The server that leads the stream gives that up.
    StepDown,
}

const TARGETS: [Target; 10] = [
    Target::Leader,
    Target::Follower,
    Target::StreamLeader,
    Target::Server,
    Target::TwoNodes,
    Target::TwoServers,
    Target::LeaderAndStreamLeader,
    Target::AllNodes,
    Target::AllServers,
    Target::All,
];
const BLOWS: [Blow; 4] = [Blow::Kill, Blow::Stop, Blow::Cut, Blow::Silence];

/// How long a fault lasts at most during which nothing can be granted, in milliseconds.
const DARK_MAX: u64 = 2_000;

/// After a fault so much is granted before the next one.
const GRANTS: u64 = 30;

impl fmt::Debug for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strike(blow, target) => write!(to, "{blow:?} {target:?}"),
            Self::Slow => to.write_str("Slow"),
            Self::HandOver => to.write_str("HandOver"),
            Self::End => to.write_str("End"),
            Self::StepDown => to.write_str("StepDown"),
        }
    }
}

impl Fault {
    pub(crate) fn all() -> Vec<Self> {
        let strikes =
            TARGETS.into_iter().flat_map(|target| BLOWS.map(|blow| Self::Strike(blow, target)));
        let others = [Self::Slow, Self::HandOver, Self::End, Self::StepDown];
        strikes.chain(others).collect()
    }

    /// Whether it is tried in every run: one process is killed or stopped, or the leader hands over.
    pub(crate) const fn is_basic(&self) -> bool {
        matches!(
            self,
            Self::HandOver
                | Self::Strike(
                    Blow::Kill | Blow::Stop,
                    Target::Leader | Target::Follower | Target::StreamLeader | Target::Server
                )
        )
    }

    /// Whether a majority of the servers and a node are left, so that grants go on.
    const fn goes_on(self) -> bool {
        !matches!(
            self,
            Self::Strike(
                _,
                Target::TwoServers | Target::AllNodes | Target::AllServers | Target::All
            )
        )
    }
}

/// For how long nothing was granted.
pub(crate) struct Outage {
    /// While the fault lasted, if grants could go on; else from its end.
    pub(crate) until_granted: Duration,
    /// Until grants came in as before.
    pub(crate) until_over: Duration,
}

/// Does it, and ends it.
pub(crate) fn strike(
    cluster: &mut Nodes,
    fault: Fault,
    random: &mut Random,
    yard: &Yard,
) -> Outage {
    let leader = cluster.leader();
    let began = Instant::now();
    let stopped = match fault {
        Fault::Strike(blow, target) => meet(cluster, blow, target, leader, random),
        Fault::Slow => {
            let nodes = (0..NODES).map(Part::Node);
            nodes.for_each(|node| cluster.cut(node, Cut::Slow, true));
            Vec::new()
        }
        Fault::HandOver => {
            hand_over(cluster, leader, other(leader, random));
            Vec::new()
        }
        Fault::End => {
            assert_eq!(cluster.take(leader).stop().code(), Some(0));
            Vec::new()
        }
        Fault::StepDown => {
            cluster.servers.steps_down(LOG);
            Vec::new()
        }
    };
    let until_granted = match fault.goes_on() {
        true => {
            wait_for_grants(yard, 2);
            began.elapsed()
        }
        false => {
            std::thread::sleep(Duration::from_millis(random.below(DARK_MAX)));
            Duration::ZERO
        }
    };
    let healed = Instant::now();
    for part in stopped {
        cluster.signal(part, Signal::CONT);
    }
    cluster.all_run();
    cluster.heal();
    cluster.start_again();
    wait_for_grants(yard, GRANTS);
    cluster.all_run();
    Outage { until_granted, until_over: healed.elapsed() }
}

/// Returns the processes that must be continued afterwards.
fn meet(
    cluster: &mut Nodes,
    blow: Blow,
    target: Target,
    leader: usize,
    random: &mut Random,
) -> Vec<Part> {
    let parts = parts(cluster, target, leader, random);
    let ways = [Cut::Silent, Cut::SilentOut, Cut::SilentIn];
    let (silent, and_clients) = (ways[random.index(ways.len())], random.once_in(2));
    for part in &parts {
        match blow {
            Blow::Kill => cluster.kill(*part),
            Blow::Stop => cluster.signal(*part, Signal::STOP),
            Blow::Cut => cluster.cut(*part, Cut::Ended, and_clients),
            Blow::Silence => cluster.cut(*part, silent, and_clients),
        }
    }
    match blow {
        Blow::Stop => parts,
        Blow::Kill | Blow::Cut | Blow::Silence => Vec::new(),
    }
}

fn parts(cluster: &Nodes, target: Target, leader: usize, random: &mut Random) -> Vec<Part> {
    let stream_leader = || cluster.servers.leader_of(LOG).unwrap_or(0);
    let nodes = || (0..NODES).map(Part::Node);
    let servers = || (0..NODES).map(Part::Server);
    match target {
        Target::Leader => vec![Part::Node(leader)],
        Target::Follower => vec![Part::Node(other(leader, random))],
        Target::StreamLeader => vec![Part::Server(stream_leader())],
        Target::Server => vec![Part::Server(other(stream_leader(), random))],
        Target::LeaderAndStreamLeader => vec![Part::Node(leader), Part::Server(stream_leader())],
        Target::TwoNodes => without_one(nodes(), random),
        Target::TwoServers => without_one(servers(), random),
        Target::AllNodes => nodes().collect(),
        Target::AllServers => servers().collect(),
        Target::All => nodes().chain(servers()).collect(),
    }
}

fn other(than: usize, random: &mut Random) -> usize {
    (than + 1 + random.index(NODES - 1)) % NODES
}

fn without_one(parts: impl Iterator<Item = Part>, random: &mut Random) -> Vec<Part> {
    let mut parts: Vec<_> = parts.collect();
    parts.swap_remove(random.index(parts.len()));
    parts
}

/// Requests a handover until it has taken place: after a fault the stream may have no leader for some seconds, and then
/// nobody takes over in time.
pub(crate) fn hand_over(cluster: &Nodes, from: usize, to: usize) {
    let url = format!("{}/v1/cluster/transfer", cluster.daemon(from).api);
    let body = serde_json::json!({"to": format!("n{to}")});
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut answer = agent(PATIENCE).post(&url).send_json(&body).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        if answer.status() == 200 {
            return;
        }
        // After a fault the target may not have caught up yet.
        let is_unknown = answer.status() == 503 && text.contains("OutcomeUnknown");
        let is_late = answer.status() == 409 && text.contains("cannot take the lead");
        assert!((is_unknown || is_late) && Instant::now() < deadline, "{text}");
    }
}

/// Waits until so much more is granted.
pub(crate) fn wait_for_grants(yard: &Yard, more: u64) {
    let enough = yard.grants() + more;
    let deadline = Instant::now() + PATIENCE;
    while yard.grants() < enough {
        assert!(Instant::now() < deadline, "grants go on");
        std::thread::sleep(Duration::from_millis(2));
    }
}
