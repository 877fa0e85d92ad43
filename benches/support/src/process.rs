//! Processes on loopback, each in a directory of its own; all end with what started them.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::programs;

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process that is killed when it is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nothing listens on.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

/// Where a server on this port is.
pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Starts a server, and waits until it accepts connections.
pub fn spawn(command: &mut Command, directory: &Path, address: SocketAddr) -> Process {
    let log = directory.join("log");
    let output = File::options().create(true).append(true).open(&log);
    let output = output.expect("the directory can be written to");
    let child = command
        .stdin(Stdio::null())
        .stderr(output.try_clone().expect("a file can be shared"))
        .stdout(output)
        .spawn()
        .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    let mut process = Process { child };
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if let Some(status) = process.child.try_wait().expect("it is our child") {
            let mut said = String::new();
            let _ = File::open(&log).and_then(|mut log| log.read_to_string(&mut said));
            panic!("{:?} ended, {status}: {said}", command.get_program());
        }
        assert!(Instant::now() < deadline, "{:?} does not answer", command.get_program());
        thread::sleep(Duration::from_millis(2));
    }
    process
}

/// The most memory that a process has had, in bytes; none: it has ended.
pub fn peak_memory(id: u32) -> Option<u64> {
    Some(figure(id, "status", "VmHWM:")? * 1024)
}

fn figure(id: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A daemon.
pub struct Quotad {
    process: Process,
    /// The API, as `http://address`.
    pub api: String,
    /// Health and metrics, as `http://address`.
    pub admin: String,
    /// The webhook by TLS, if it is served so.
    pub webhook: Option<SocketAddr>,
    /// From the start of the process until it served.
    pub started_in: Duration,
}

impl Quotad {
    /// Starts it with these further arguments and its ledger in `data`, and waits until it serves.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        let begin = Instant::now();
        let child = Command::new(programs::quotad())
            .current_dir(directory)
            .env_clear()
            .env("QUOTAD_SHUTDOWN__DRAIN", "0s")
            .args(["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0"])
            .args(["--data-dir=data", "--log.format=json"])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("quotad is built");
        let mut process = Process { child };
        let errors = process.child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let ready = lines.by_ref().find_map(|line| {
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            said.push(line);
            (value["message"] == "ready").then_some(value)
        });
        let ready = ready.unwrap_or_else(|| panic!("quotad did not start: {}", said.join("\n")));
        let started_in = begin.elapsed();
        // Somebody has to read what it goes on to say.
        thread::spawn(move || lines.for_each(drop));
        let address = |key: &str| format!("http://{}", ready[key].as_str().unwrap_or_default());
        Self {
            process,
            api: address("api"),
            admin: address("admin"),
            webhook: ready["admission"].as_str().and_then(|text| text.parse().ok()),
            started_in,
        }
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> u64 {
        self.figure("status", "VmRSS:") * 1024
    }

    /// Bytes that it has handed to the disk.
    pub fn written(&self) -> u64 {
        self.figure("io", "write_bytes:")
    }

    fn figure(&self, file: &str, name: &str) -> u64 {
        let number = figure(self.process.id(), file, name);
        number.unwrap_or_else(|| panic!("{file} of a running process has no {name}"))
    }

    /// All metrics as text. Tens of thousands of quotas are more than the client reads by default.
    fn metrics(&self) -> String {
        let url = format!("{}/metrics", self.admin);
        let mut response = ureq::get(&url).call().expect("the daemon answers");
        let body = response.body_mut().with_config().limit(1 << 30);
        body.read_to_string().expect("text")
    }

    /// The sum of all series of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics();
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with([' ', '{']).then(|| rest.rsplit_once(' ')?.1.parse::<f64>().ok())?
        };
        text.lines().filter_map(value).sum()
    }

    /// How many samples a histogram has, over all its series, and how many of them are above this bound of a bucket. Both of
    /// one scrape.
    pub fn samples(&self, name: &str, at_most: &str) -> [f64; 2] {
        let text = self.metrics();
        let sum = |begin: &str, holds: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(begin));
            let meant = lines.filter(|line| line.contains(holds));
            let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok();
            meant.filter_map(value).sum()
        };
        let all = sum(&format!("{name}_count"), "");
        let short = sum(&format!("{name}_bucket{{"), &format!("le=\"{at_most}\""));
        [all, all - short]
    }

    /// Asks it to stop, and waits for the end.
    pub fn stop(self) {
        self.process.stop();
    }
}

/// What has this program serve the floor instead of measuring.
pub const SERVE_FLOOR: &str = "serve-floor";

/// A floor, as a process like the daemon, and where it is: the durable one, if it has a directory for its log; by TLS, if
/// it has one with certificates.
pub fn floor(log: Option<&Path>, certificates: Option<&Path>) -> (Process, SocketAddr) {
    let named = [("log", log), ("tls", certificates)];
    let named = named.into_iter().filter_map(|(name, path)| Some((name, path?)));
    let mut child = Command::new(std::env::current_exe().expect("it is running"))
        .arg(SERVE_FLOOR)
        .args(named.flat_map(|(name, path)| [name.as_ref(), path.as_os_str()]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is this program");
    let mut line = String::new();
    let output = child.stdout.take().expect("it is piped");
    let read = BufReader::new(output).read_line(&mut line);
    let address = read.ok().and_then(|_| line.trim().parse().ok());
    (Process { child }, address.expect("the floor started"))
}
