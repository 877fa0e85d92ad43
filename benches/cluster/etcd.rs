//! Three etcds, and one put of a small value for each grant. A quota would need more: a transaction that compares what is
//! counted, and another try when it has changed meanwhile. So this is the most that etcd could do.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use quota_bench::load::{Answer, Kind, Talk, http};
use serde_json::Value;

use super::{
    support::{
        machine,
        process::{self, Process},
    },
    testing::{cluster::NODES, nats::free_port, quotad::agent},
};

const PATIENCE: Duration = Duration::from_secs(60);

pub fn is_installed() -> bool {
    version().is_some()
}

pub fn version() -> Option<String> {
    machine::said("etcd", &["--version"])
}

/// Members that have a leader.
pub struct Etcds {
    pub leader: SocketAddr,
    _members: Vec<Process>,
}

/// Starts them with their defaults: each put is on the disks of two members when it is answered.
pub fn start(directory: &Path) -> Etcds {
    let ports: Vec<_> = (0..NODES).map(|_| (free_port(), free_port())).collect();
    let all: Vec<_> = ports
        .iter()
        .enumerate()
        .map(|(at, (_, peers))| format!("e{at}=http://127.0.0.1:{peers}"))
        .collect();
    let all = all.join(",");
    // None serves before there are enough.
    let members = thread::scope(|scope| {
        let starting: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(at, ports)| {
                let all = all.as_str();
                scope.spawn(move || member(directory, at, *ports, all))
            })
            .collect();
        let started = starting.into_iter().map(thread::ScopedJoinHandle::join);
        started.map(|member| member.expect("it starts")).collect()
    });
    let deadline = Instant::now() + PATIENCE;
    let leader = loop {
        let addresses = ports.iter().map(|(clients, _)| process::loopback(*clients));
        if let Some(leader) = addresses.into_iter().find(|address| leads(*address)) {
            break leader;
        }
        assert!(Instant::now() < deadline, "a member leads");
        thread::sleep(Duration::from_millis(20));
    };
    Etcds { leader, _members: members }
}

fn member(directory: &Path, at: usize, (clients, peers): (u16, u16), all: &str) -> Process {
    let home = directory.join(format!("e{at}"));
    std::fs::create_dir_all(&home).expect("there is room");
    let (client, peer) =
        (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
    let mut command = Command::new("etcd");
    command.args(["--name", &format!("e{at}"), "--data-dir"]).arg(home.join("data"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args([
        "--initial-cluster",
        all,
        "--initial-cluster-state",
        "new",
        "--log-level",
        "error",
    ]);
    process::spawn(&mut command, &home, process::loopback(clients))
}

fn leads(address: SocketAddr) -> bool {
    let url = format!("http://{address}/v3/maintenance/status");
    let Ok(mut answer) = agent(PATIENCE).post(url).send("{}") else {
        return false;
    };
    let text = answer.body_mut().read_to_string().unwrap_or_default();
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    let leader = status["leader"].as_str();
    leader.is_some_and(|leader| {
        leader != "0" && Some(leader) == status["header"]["member_id"].as_str()
    })
}

/// Puts one key after the other, through the JSON that etcd serves beside gRPC.
pub struct PutTalk {
    connection: usize,
    number: usize,
}

impl PutTalk {
    pub fn new(connection: usize) -> Self {
        Self { connection, number: 0 }
    }
}

impl Talk for PutTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        self.number += 1;
        let key = BASE64.encode(format!("reservations/c{}-{}", self.connection, self.number));
        let value =
            BASE64.encode(r#"{"pods":"1","requests.cpu":"100m","requests.memory":"128Mi"}"#);
        let body = format!(r#"{{"key":"{key}","value":"{value}"}}"#);
        let head = format!(
            "POST /v3/kv/put HTTP/1.1\r\nhost: etcd\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(body.as_bytes());
        Kind::Reserve
    }

    fn hear(&mut self, bytes: &[u8]) -> std::io::Result<Option<Answer>> {
        http::completed(bytes)
    }

    fn tidy(&mut self, _: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}
