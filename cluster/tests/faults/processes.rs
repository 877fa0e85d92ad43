//! Servers and nodes, and the faults that are inflicted on them.

use std::{
    collections::HashMap,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use quota_cluster::{Names, servers, stream};
use quota_journal::Durable;
use quota_replication::{Identity, LedgerId};
use quota_test_support::{cluster::durable_program, nats::free_port};
use rustix::process::{Pid, Signal, kill_process};

use super::{clients::ask, node::connect};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    KillLeader,
    StopLeader,
    KillNode,
    StopNode,
    KillServer,
    StopServer,
    KillStreamLeader,
    HandOver,
}

impl Fault {
    pub(crate) const ALL: [Self; 8] = [
        Self::KillLeader,
        Self::KillServer,
        Self::StopLeader,
        Self::KillStreamLeader,
        Self::HandOver,
        Self::StopServer,
        Self::KillNode,
        Self::StopNode,
    ];
}

pub(crate) struct Cluster {
    runtime: tokio::runtime::Runtime,
    client: async_nats::Client,
    names: Names,
    program: String,
    directory: tempfile::TempDir,
    /// The ports of each server: clients, routes, monitoring.
    ports: [[u16; 3]; 3],
    node_ports: [u16; 3],
    servers: [Option<Child>; 3],
    nodes: [Option<Child>; 3],
    stopped: Vec<Pid>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let program = durable_program();
        let all: [u16; 12] = std::array::from_fn(|_| free_port());
        let ports = [0, 3, 6].map(|at| [all[at], all[at + 1], all[at + 2]]);
        let directory = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let urls = ports
            .map(|[client, ..]| format!("nats://127.0.0.1:{client}"))
            .join(",");
        let client = runtime.block_on(connect(&urls));
        let mut cluster = Self {
            runtime,
            client,
            names: Names::new(&"test".parse().unwrap(), 0),
            program,
            directory,
            ports,
            node_ports: [all[9], all[10], all[11]],
            servers: [None, None, None],
            nodes: [None, None, None],
            stopped: Vec::new(),
        };
        (0..3).for_each(|server| cluster.start_server(server));
        cluster.initialise();
        (0..3).for_each(|node| cluster.start_node(node));
        cluster
    }

    pub(crate) const fn node_ports(&self) -> [u16; 3] {
        self.node_ports
    }

    fn start_server(&mut self, server: usize) {
        let [client, route, monitoring] = self.ports[server];
        let routes = self
            .ports
            .map(|[_, route, _]| format!("nats://127.0.0.1:{route}"))
            .join(", ");
        let home = self.directory.path().join(format!("server-{server}"));
        std::fs::create_dir_all(&home).unwrap();
        let text = format!(
            "server_name: s{server}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitoring}\nmax_payload: 8MB\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always }}\n\
             cluster {{ name: test, listen: 127.0.0.1:{route}, routes: [{routes}] }}\n",
            home.display()
        );
        let file = home.join("nats.conf");
        std::fs::write(&file, text).unwrap();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(home.join("log"))
            .unwrap();
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.servers[server] = Some(child.unwrap());
    }

    fn start_node(&mut self, node: usize) {
        let home = self.directory.path().join(format!("node-{node}"));
        std::fs::create_dir_all(&home).unwrap();
        // Each node lists a server of its own first.
        let urls: Vec<String> = (0..3)
            .map(|at| format!("nats://127.0.0.1:{}", self.ports[(node + at) % 3][0]))
            .collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["node", &format!("n{node}")])
            .arg(Path::new(&home))
            .args([urls.join(","), self.node_ports[node].to_string()])
            .spawn();
        self.nodes[node] = Some(child.unwrap());
    }

    /// Initialises the stream, as soon as the servers are ready.
    fn initialise(&self) {
        let identity = Identity {
            node: "init".parse().unwrap(),
            instance: 1,
            partition: 0,
        };
        let genesis = (&identity, LedgerId::from_bytes([7; 16]), Durable::NOTHING);
        let began = Instant::now();
        while let Err(error) =
            self.runtime
                .block_on(stream::initialise(&self.client, &self.names, 3, genesis))
        {
            assert!(began.elapsed() < Duration::from_secs(60), "{error}");
            std::thread::sleep(Duration::from_millis(200));
        }
        let other = (&identity, LedgerId::from_bytes([8; 16]), Durable::NOTHING);
        self.runtime
            .block_on(stream::check(&self.client, &self.names, 3))
            .unwrap();
        let again = self
            .runtime
            .block_on(stream::initialise(&self.client, &self.names, 3, other));
        assert!(matches!(again, Err(stream::Error::Exists(_))), "{again:?}");
        for [.., monitoring] in self.ports {
            let facts = servers::query(&format!("http://127.0.0.1:{monitoring}")).unwrap();
            assert_eq!(servers::problems(&facts), [""; 0]);
        }
    }

    fn leader(&self) -> Option<usize> {
        (0..3)
            .find(|node| ask(&mut None, self.node_ports[*node], "leads").as_deref() == Some("true"))
    }

    fn info(&self) -> Option<serde_json::Value> {
        let subject = format!("$JS.API.STREAM.INFO.{}", self.names.stream);
        let answer = self
            .runtime
            .block_on(self.client.request(subject, "".into()))
            .ok()?;
        serde_json::from_slice(&answer.payload).ok()
    }

    /// Inflicts a fault, and returns its description.
    pub(crate) fn strike(&mut self, fault: Fault, any: usize) -> String {
        let leader = self.leader().unwrap_or(any);
        let other = (leader + 1 + any % 2) % 3;
        match fault {
            Fault::KillLeader => self.kill_node(leader),
            Fault::KillNode => self.kill_node(other),
            Fault::StopLeader => self.halt(self.nodes[leader].as_ref().map(pid)),
            Fault::StopNode => self.halt(self.nodes[other].as_ref().map(pid)),
            Fault::KillServer => self.kill_server(any),
            Fault::StopServer => self.halt(self.servers[any].as_ref().map(pid)),
            Fault::KillStreamLeader => {
                let name = self
                    .info()
                    .and_then(|info| info["cluster"]["leader"].as_str().map(str::to_owned));
                let server = name.and_then(|name| name.strip_prefix('s')?.parse().ok());
                self.kill_server(server.unwrap_or(any));
            }
            Fault::HandOver => {
                let _ = ask(
                    &mut None,
                    self.node_ports[leader],
                    &format!("handover n{other}"),
                );
            }
        }
        format!("{fault:?} (n{leader} led)")
    }

    fn kill_node(&mut self, node: usize) {
        if let Some(child) = &mut self.nodes[node] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn kill_server(&mut self, server: usize) {
        if let Some(child) = &mut self.servers[server] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn halt(&mut self, process: Option<Pid>) {
        if let Some(process) = process {
            kill_process(process, Signal::STOP).unwrap();
            self.stopped.push(process);
        }
    }

    /// Continues stopped processes, and restarts ended ones. A node may only have been deposed.
    pub(crate) fn mend(&mut self) {
        for process in std::mem::take(&mut self.stopped) {
            kill_process(process, Signal::CONT).unwrap();
        }
        for server in 0..3 {
            if self.servers[server]
                .as_mut()
                .is_none_or(|child| child.try_wait().unwrap().is_some())
            {
                self.start_server(server);
            }
        }
        self.revive();
    }

    fn revive(&mut self) {
        for node in 0..3 {
            let Some(status) = self.nodes[node]
                .as_mut()
                .and_then(|child| child.try_wait().unwrap())
            else {
                continue;
            };
            // None: killed.
            assert!(
                matches!(status.code(), None | Some(6)),
                "n{node} ended: {status}"
            );
            self.start_node(node);
        }
    }

    /// The digests of all states, once they are the same.
    pub(crate) fn digests(&mut self) -> Vec<String> {
        let began = Instant::now();
        loop {
            self.revive();
            let digests: Vec<Option<String>> = self
                .node_ports
                .iter()
                .map(|port| ask(&mut None, *port, "digest"))
                .collect();
            let distinct: HashMap<_, _> = digests.iter().map(|digest| (digest, ())).collect();
            if distinct.len() == 1 && digests[0].is_some() {
                return digests.into_iter().flatten().collect();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{digests:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// All messages of the stream, once its servers have chosen a leader after the last fault.
    pub(crate) fn read_log(&self) -> Vec<Vec<u8>> {
        let began = Instant::now();
        loop {
            match self.runtime.block_on(self.try_read_log()) {
                Ok(log) => return log,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    async fn try_read_log(&self) -> Result<Vec<Vec<u8>>, async_nats::Error> {
        let context = async_nats::jetstream::new(self.client.clone());
        let stream = context.get_stream(&self.names.stream).await?;
        let last = stream.cached_info().state.last_sequence;
        let mut log = Vec::new();
        for sequence in 1..=last {
            log.push(stream.get_raw_message(sequence).await?.payload.to_vec());
        }
        Ok(log)
    }

    fn end_all(&mut self) {
        for child in self.nodes.iter_mut().chain(&mut self.servers).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
