//! The daemon, as it is started and ended.

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use crate::{
    support::{
        proxy::Proxy,
        quotad::{Quotad, command},
        shim,
    },
    wait_until,
};

/// The daemon, and the network between it and its clients.
pub(crate) struct Place {
    directory: PathBuf,
    /// Where it reads from.
    urls: String,
    pub(crate) daemon: Option<Quotad>,
    /// Between the clients and the daemon.
    pub(crate) clients: Proxy,
}

impl Place {
    /// Starts the daemon in this directory, to read from these servers.
    pub(crate) fn prepare(directory: &Path, urls: String) -> Self {
        let mut place = Self {
            directory: directory.to_owned(),
            urls,
            // The target is set when there is a daemon.
            clients: Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))),
            daemon: None,
        };
        place.set_clock(0);
        place.restart_daemon();
        place.wait_until_ready();
        place
    }

    pub(crate) fn wait_until_ready(&self) {
        wait_until("the daemon is ready", || self.daemon().is_ready());
    }

    /// How far it has consumed the stream.
    pub(crate) fn consumed(&self) -> u64 {
        let status = self.daemon().get("/v1/status");
        let sources = status["sources"].as_array().unwrap();
        let stream = sources.iter().find(|source| source["name"] == "OBJECTS");
        stream.map_or(0, |stream| stream["position"].as_u64().unwrap())
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
            "--limits.page=1000",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--nats.url={}", self.urls));
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
        let mut command = command(&self.directory);
        command.args(self.arguments());
        shim::shift_clock(&mut command, &self.clock());
        command
    }

    pub(crate) fn kill_daemon(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    pub(crate) fn restart_daemon(&mut self) {
        let daemon = Quotad::try_start(&self.directory, &mut self.command()).unwrap();
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
