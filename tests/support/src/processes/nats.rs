//! A real nats-server with JetStream, on loopback, in a directory of its own.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::jetstream;
use rustix::process::Pid;
use tempfile::TempDir;

/// A server; killed when dropped.
pub struct Server {
    program: String,
    child: Child,
    directory: TempDir,
    port: u16,
    arguments: Vec<String>,
}

impl Server {
    /// Starts a server on a free port, and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// As [`Server::start`], with further arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_at(free_port(), arguments)
    }

    /// As [`Server::start`], with this program.
    pub fn start_program(program: &str) -> Self {
        Self::start_as(program, free_port(), &[])
    }

    /// As [`Server::start`], on a port that was free before.
    pub fn start_at(port: u16, arguments: &[&str]) -> Self {
        Self::start_as(PROGRAM, port, arguments)
    }

    fn start_as(program: &str, port: u16, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let child = spawn(program, &directory, port, &arguments);
        let mut server = Self { program: program.to_owned(), child, directory, port, arguments };
        server.wait();
        server
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Ends it without a chance to tidy up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again with what it had stored.
    pub fn restart(&mut self) {
        self.child = spawn(&self.program, &self.directory, self.port, &self.arguments);
        self.wait();
    }

    /// Copies what a killed server has stored.
    pub fn copy(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        copy_directory(self.directory.path(), copy.path());
        copy
    }

    /// Replaces what a killed server has stored.
    pub fn restore(&mut self, copy: TempDir) {
        self.directory = copy;
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + super::PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("nats-server ended with {status}");
            }
            assert!(Instant::now() < deadline, "nats-server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A client's view of JetStream on it.
    pub async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(self.url()).await.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy_directory(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_directory(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The system assigns ports from 32768 on, so a port there that is free now may be taken before it is used.
const PORTS: Range<u16> = 16_000..32_000;

/// In which lane of `tests/all` this process runs, from 0 on: processes of different lanes run at the same time, so each
/// lane has ports of its own.
const LANE: &str = "QUOTAD_TEST_LANE";

/// The lanes of `tests/all`.
const LANES: u16 = 3;

/// A port without a listener. Each port is returned once per process.
pub fn free_port() -> u16 {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU64::new(RandomState::new().hash_one(0) >> 1));
    let share = u16::try_from(PORTS.len()).unwrap() / LANES;
    let ports = match std::env::var(LANE) {
        Ok(lane) => {
            let lane = lane.parse::<u16>().unwrap();
            assert!(lane < LANES, "tests/all has more lanes than there are ports for");
            PORTS.start + share * lane..PORTS.start + share * (lane + 1)
        }
        Err(_) => PORTS,
    };
    loop {
        let place = next.fetch_add(1, Ordering::Relaxed) % ports.len() as u64;
        let port = ports.start + u16::try_from(place).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// The URL of a server on this port.
pub fn url(port: u16) -> String {
    format!("nats://127.0.0.1:{port}")
}

/// The server in the path, which may be an older one.
pub const PROGRAM: &str = "nats-server";

fn spawn(program: &str, directory: &TempDir, port: u16, arguments: &[String]) -> Child {
    let mut command = Command::new(program);
    command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(directory.path());
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("nats-server is installed")
}
