//! The daemon as a supervisor sees it: arguments, signals, exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn quotad(directory: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
    command
        .current_dir(directory)
        .env_clear()
        .stderr(Stdio::piped());
    command.args(["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0"]);
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
    admin: String,
}

impl Daemon {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Self {
            child,
            log,
            admin: String::new(),
        };
        let ready = daemon.line("ready");
        daemon.admin = ready["admin"].as_str().unwrap().to_owned();
        daemon
    }

    /// The next log line with this message.
    fn line(&mut self, message: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.log.read_line(&mut line).unwrap(),
                0,
                "no line says {message:?}"
            );
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["message"] == message {
                return line;
            }
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_starts_tells_how_it_is_and_stops() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = TempDir::new().unwrap();
        let mut daemon = Daemon::start(&mut quotad(&directory));
        assert!(daemon.get("/livez").starts_with("HTTP/1.1 200 "));
        assert!(daemon.get("/readyz").ends_with("\r\n\r\nok"));
        assert!(
            daemon
                .get("/metrics")
                .contains("\nquota_ledger_poisoned 0\n")
        );
        daemon.signal(Signal::HUP);
        daemon.line("reading certificates and tokens again");
        daemon.signal(signal);
        assert_eq!(daemon.exit_code(), Some(0));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let directory = TempDir::new().unwrap();
        let patient = ["--limits.header-timeout=1h", "--shutdown.grace=1h"];
        let mut daemon = Daemon::start(quotad(&directory).args(patient));
        // Half a request keeps it from stopping, once it was accepted, which the next answer shows.
        let mut half = TcpStream::connect(&daemon.admin).unwrap();
        half.write_all(b"GET /livez HTT").unwrap();
        daemon.get("/livez");
        daemon.signal(signal);
        daemon.line("stopping");
        daemon.signal(signal);
        assert_eq!(daemon.exit_code(), Some(code));
    }
}

#[test]
fn the_configuration_is_checked() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "[nats]\nstream = \"FILE\"\n").unwrap();
    let (code, stdout, stderr) = output(
        quotad(&directory)
            .arg("check-config")
            .env("QUOTAD_DATA_DIR", "env"),
    );
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for line in [
        "listen = \"127.0.0.1:0\" # flag --listen",
        "data_dir = \"env\" # environment QUOTAD_DATA_DIR",
        "stream = \"FILE\" # config.toml line 2",
        "subject = \"quota.objects.>\"",
    ] {
        assert!(
            stdout.lines().any(|printed| printed == line),
            "{line} is not in {stdout}"
        );
    }

    std::fs::write(&file, "[nats]\nsteam = \"FILE\"\n").unwrap();
    for arguments in [&["check-config"][..], &[]] {
        let (code, stdout, stderr) = output(quotad(&directory).args(arguments));
        assert_eq!((code, stdout.as_str()), (Some(3), ""));
        let expected = "nats.steam: unknown key; did you mean nats.stream? (config.toml line 2)\n";
        assert_eq!(stderr, expected);
    }
}

#[test]
fn wrong_usage_and_a_taken_address_have_their_codes() {
    let directory = TempDir::new().unwrap();
    assert_eq!(output(quotad(&directory).arg("--lisen=x")).0, Some(2));
    assert_eq!(output(quotad(&directory).arg("--version")).0, Some(0));

    let daemon = Daemon::start(&mut quotad(&directory));
    let other = TempDir::new().unwrap();
    let mut second = Command::new(env!("CARGO_BIN_EXE_quotad"));
    second
        .current_dir(&other)
        .env_clear()
        .arg("--listen=127.0.0.1:0");
    let (code, _, stderr) = output(second.arg(format!("--admin.listen={}", daemon.admin)));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot listen on admin.listen"), "{stderr}");
}
