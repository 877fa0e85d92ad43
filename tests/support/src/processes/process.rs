//! A program that logs JSON, as a process of its own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

const TICK: Duration = Duration::from_millis(10);

/// A program that runs; killed when dropped.
pub struct Program {
    child: Child,
    /// What it said when it was ready.
    ready: Value,
    said: Arc<Mutex<Vec<String>>>,
    /// Collects what it says; none once it has ended.
    listening: Option<JoinHandle<()>>,
}

impl Program {
    /// Starts it, and waits until it says that it is ready.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (into, heard) = (said.clone(), std::sync::mpsc::channel());
        let listening = std::thread::spawn(move || {
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
        Self { child, ready, said, listening: Some(listening) }
    }

    /// Where it listens, by the name that it gives this address when it is ready.
    pub fn url(&self, key: &str) -> String {
        format!("http://{}", self.ready[key].as_str().unwrap())
    }

    /// Log lines that hold this text.
    pub fn said(&self, text: &str) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it without a chance to tidy up.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended, once it has, and its log is complete.
    pub fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                if let Some(listening) = self.listening.take() {
                    listening.join().unwrap();
                }
                return status;
            }
            assert!(Instant::now() < deadline, "does not end: {:#?}", self.said.lock().unwrap());
            std::thread::sleep(TICK);
        }
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Everything that it logged.
    pub fn log(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
