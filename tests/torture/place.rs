//! The daemon and the server, as they are started and ended.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    PATIENCE,
    nats::Server,
    proxy::Proxy,
    quotad::{Quotad, command},
    shim,
};

/// The two, and the network between them and to the clients.
pub(crate) struct Place<'a> {
    directory: &'a Path,
    pub(crate) server: Server,
    pub(crate) daemon: Option<Quotad>,
    /// Between the daemon and the server.
    pub(crate) stream: Proxy,
    /// Between the clients and the daemon.
    pub(crate) clients: Proxy,
}

impl<'a> Place<'a> {
    pub(crate) fn prepare(directory: &'a Path) -> Self {
        let told = durable(directory);
        let server = Server::start_with(&told.iter().map(String::as_str).collect::<Vec<_>>());
        let stream = Proxy::start(server.address());
        let mut place = Self {
            directory,
            // Where it leads is known when there is a daemon.
            clients: Proxy::start(server.address()),
            stream,
            server,
            daemon: None,
        };
        place.set_clock(0);
        place.restart_daemon();
        place.wait_until_ready();
        place
    }

    pub(crate) fn wait_until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.daemon().is_ready() {
            assert!(Instant::now() < deadline, "the daemon gets ready");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn daemon(&self) -> &Quotad {
        self.daemon.as_ref().unwrap()
    }

    /// Small enough that epochs are sealed, snapshots are stored and compaction runs all the time.
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<_> = [
            "--nats.poll_interval=50ms",
            "--nats.max_backoff=500ms",
            "--journal.segment_bytes=1MiB",
            "--journal.epoch_bytes=1MiB",
            "--journal.max_batch_entries=256",
            "--snapshot.every_entries=500",
            "--retention.max_bytes=64KiB",
            "--retention.archive_dir=archive",
            "--limits.page=5000",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--nats.url=nats://{}", self.stream.address()));
        arguments
    }

    pub(crate) fn archived(&self) -> usize {
        std::fs::read_dir(self.directory.join("archive")).map_or(0, Iterator::count)
    }

    fn clock(&self) -> PathBuf {
        self.directory.join("clock")
    }

    /// Puts the daemon's wall clock ahead by so many seconds.
    pub(crate) fn set_clock(&self, seconds: i64) {
        // In one step, since the daemon reads it all the time.
        let new = self.directory.join("clock.new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(new, self.clock()).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = command(self.directory);
        command.args(self.arguments());
        shim::shift_clock(&mut command, &self.clock());
        command
    }

    pub(crate) fn kill_daemon(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    pub(crate) fn restart_daemon(&mut self) {
        let daemon = Quotad::try_start(self.directory, &mut self.command()).unwrap();
        let address = daemon.api.strip_prefix("http://").unwrap();
        self.clients.lead_to(address.parse().unwrap());
        self.daemon = Some(daemon);
    }

    /// Kills it, and kills the next one after it has logged so many lines.
    pub(crate) fn kill_while_it_recovers(&mut self, lines: u64) {
        self.kill_daemon();
        let mut child: Child = self.command().spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..lines {
            log.next();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Makes the server sync what it acknowledges, if it is new enough to be told; else the system keeps it.
fn durable(directory: &Path) -> Vec<String> {
    let file = directory.join("nats.conf").display().to_string();
    std::fs::write(&file, "jetstream { sync_interval: always }\n").unwrap();
    let known = Command::new("nats-server")
        .args(["-t", "-c", &file])
        .stderr(Stdio::null())
        .status();
    match known.unwrap().success() {
        true => vec!["-c".to_owned(), file],
        false => Vec::new(),
    }
}
