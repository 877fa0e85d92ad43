//! For how long nothing is granted.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::{
    Outages,
    testing::{
        cluster::NODES,
        nodes::{Cut, LOG, Nodes, Part, Setup},
        quotad::agent,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KillLeader,
    StopLeader,
    CutLeader,
    HandOver,
    KillStreamLeader,
    StopStreamLeader,
    CutStreamLeader,
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::KillLeader,
        Self::StopLeader,
        Self::CutLeader,
        Self::HandOver,
        Self::KillStreamLeader,
        Self::StopStreamLeader,
        Self::CutStreamLeader,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::KillLeader => "the leader is killed",
            Self::StopLeader => "the leader is stopped (SIGSTOP)",
            Self::CutLeader => "the leader is cut off",
            Self::HandOver => "the leader hands over",
            Self::KillStreamLeader => "the stream's leader is killed",
            Self::StopStreamLeader => "the stream's leader is stopped (SIGSTOP)",
            Self::CutStreamLeader => "the stream's leader is cut off",
        }
    }

    pub const fn is_of_server(self) -> bool {
        matches!(self, Self::KillStreamLeader | Self::StopStreamLeader | Self::CutStreamLeader)
    }
}

/// Elections of the servers take seconds: less of them.
const FEWER: usize = 4;

const CLIENTS: usize = 6;

/// How long a client waits for a node before it asks another.
const TIMEOUT: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_millis(2);

/// So short that a namespace may have all that are pending at a time.
const TTL: &str = "5s";
const PATIENCE: Duration = Duration::from_secs(120);

/// So many grants show that all is as before.
const STEADY: usize = 60;

/// When something was granted.
type Grants = Mutex<Vec<Instant>>;

pub fn measure(directory: &Path, times: usize) -> Outages {
    let mut cluster = Nodes::start(directory, Setup::default());
    let apis = cluster.apis();
    let (grants, is_over) = (Grants::default(), AtomicBool::new(false));
    let mut outages = Outages::new();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (apis, grants, is_over) = (&apis, &grants, &is_over);
            scope.spawn(move || reserve(client, apis, grants, is_over));
        }
        for number in 0..times {
            for fault in Fault::ALL {
                if fault.is_of_server() && number % FEWER != 0 {
                    continue;
                }
                let outage = outage(&mut cluster, fault, &grants);
                eprintln!("{}: {:.2} s", fault.name(), outage.as_secs_f64());
                outages.entry(fault).or_default().push(outage);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    outages
}

/// Reserves at any node, without end, where nothing is limited.
fn reserve(client: usize, apis: &[String], grants: &Grants, is_over: &AtomicBool) {
    let agent = agent(TIMEOUT);
    let (mut at, mut number) = (client, 0);
    while !is_over.load(Ordering::Relaxed) {
        let uid = format!("u-{client}-{number}");
        let path = format!("{}/v1/namespaces/outages/reservations", apis[at % NODES]);
        let body = json!({
            "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
            "reserved": {"pods": "1"}, "ttl": TTL
        });
        match agent.post(path).send_json(body) {
            Ok(answer) if answer.status().is_success() => {
                grants.lock().expect("no client panics").push(Instant::now());
                number += 1;
                thread::sleep(REST);
            }
            Ok(answer) => {
                assert_ne!(answer.status(), 403, "a limit is no outage");
                at += 1;
            }
            Err(_) => at += 1,
        }
    }
}

/// The longest time between two grants, from the fault until all is as before.
fn outage(cluster: &mut Nodes, fault: Fault, grants: &Grants) -> Duration {
    wait_for(grants, STEADY);
    let leader = cluster.leader();
    let stream_leader = cluster.servers.leader_of(LOG).expect("there is one");
    let part = match fault.is_of_server() {
        true => Part::Server(stream_leader),
        false => Part::Node(leader),
    };
    {
        // From the last grant before the fault on.
        let mut grants = grants.lock().expect("no client panics");
        let before = grants.len() - 1;
        grants.drain(..before);
    }
    match fault {
        Fault::KillLeader | Fault::KillStreamLeader => cluster.kill(part),
        Fault::StopLeader | Fault::StopStreamLeader => cluster.signal(part, Signal::STOP),
        // No data gets through, and no side gets an error.
        Fault::CutLeader | Fault::CutStreamLeader => cluster.cut(part, Cut::Silent, true),
        Fault::HandOver => {
            let url = format!("{}/v1/cluster/transfer", cluster.daemon(leader).api);
            let to = format!("n{}", (leader + 1) % NODES);
            let answer = agent(PATIENCE).post(url).send_json(json!({"to": to}));
            assert_eq!(answer.expect("it answers").status(), 200);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    let is_replaced = || match fault.is_of_server() {
        true => cluster.servers.leader_of(LOG).is_some_and(|now| now != stream_leader),
        false => cluster.leads().is_some_and(|now| now != leader),
    };
    while !is_replaced() {
        assert!(Instant::now() < deadline, "{}: another leads", fault.name());
        thread::sleep(Duration::from_millis(5));
    }
    wait_for(grants, STEADY);
    let times = grants.lock().expect("no client panics").clone();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.max().unwrap_or_default();
    if matches!(fault, Fault::StopLeader | Fault::StopStreamLeader) {
        cluster.signal(part, Signal::CONT);
    }
    cluster.heal();
    cluster.start_again();
    cluster.wait_until_same();
    longest
}

fn wait_for(grants: &Grants, more: usize) {
    let count = || grants.lock().expect("no client panics").len();
    let enough = count() + more;
    let deadline = Instant::now() + PATIENCE;
    while count() < enough {
        assert!(Instant::now() < deadline, "grants go on");
        thread::sleep(Duration::from_millis(2));
    }
}
