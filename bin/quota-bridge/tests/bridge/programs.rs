//! Programs as processes: the bridge, the daemon, its command line.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

const TICK: Duration = Duration::from_millis(10);

/// A program of the workspace. Cargo builds only those of the crate that is tested, so that this builds the others.
pub(crate) fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| quota_test_support::programs::build(&["quotad", "quotactl"]));
    PathBuf::from(env!("CARGO_BIN_EXE_quota-bridge")).with_file_name(name)
}

/// A program that runs; killed when dropped.
pub(crate) struct Program {
    child: Child,
    /// What it said when it was ready.
    pub(crate) ready: Value,
    said: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Starts it, and waits until it says that it is ready.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (into, heard) = (said.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value: Value = serde_json::from_str(&line).unwrap_or_default();
                into.lock().unwrap().push(line);
                if value["message"] == "ready" {
                    let _ = heard.0.send(value);
                }
            }
        });
        let ready = heard.1.recv_timeout(PATIENCE);
        let ready = ready.unwrap_or_else(|_| panic!("never ready: {:#?}", said.lock().unwrap()));
        Self { child, ready, said }
    }

    pub(crate) fn url(&self, key: &str) -> String {
        format!("http://{}", self.ready[key].as_str().unwrap())
    }

    /// Log lines that hold this text.
    pub(crate) fn said(&self, text: &str) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter()
            .filter(|line| line.contains(text))
            .cloned()
            .collect()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "does not end: {:#?}",
                self.said.lock().unwrap()
            );
            std::thread::sleep(TICK);
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Everything that it logged.
    pub(crate) fn log(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `quotactl` to its end: code, output, messages.
pub(crate) fn quotactl(server: &str, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(program("quotactl"))
        .args(arguments)
        .args(["--server", server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Asks again until the answer is there.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(TICK);
    }
}
