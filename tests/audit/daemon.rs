//! The real daemon, and requests to it.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `quotad`; killed when dropped.
pub(crate) struct Quotad {
    child: Child,
    api: String,
    admin: String,
}

impl Quotad {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::try_start(directory, arguments).expect("the daemon serves")
    }

    /// The exit code, if it ends before it serves.
    pub(crate) fn try_start(directory: &Path, arguments: &[&str]) -> Result<Self, Option<i32>> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quotad"))
            .current_dir(directory)
            .env_clear()
            .args([
                "--listen=127.0.0.1:0",
                "--admin.listen=127.0.0.1:0",
                "--log.format=json",
            ])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = log.find_map(|line| {
            // What is wrong with the configuration is said before there is a log.
            let line: Value = serde_json::from_str(&line.unwrap()).ok()?;
            (line["message"] == "ready").then_some(line)
        });
        let Some(ready) = ready else {
            return Err(child.wait().unwrap().code());
        };
        // What nobody reads would block it in the end.
        std::thread::spawn(move || log.for_each(drop));
        let api = format!("http://{}", ready["api"].as_str().unwrap());
        let admin = format!("http://{}", ready["admin"].as_str().unwrap());
        Ok(Self { child, api, admin })
    }

    /// Stops it in order.
    pub(crate) fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    pub(crate) fn url(&self) -> &str {
        &self.api
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        answer(agent().get(format!("{}{path}", self.api)).call().unwrap())
    }

    pub(crate) fn get_admin(&self, path: &str) -> (u16, Value) {
        answer(agent().get(format!("{}{path}", self.admin)).call().unwrap())
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let request = agent().post(format!("{}{path}", self.api));
        let request = request.header("content-type", "application/json");
        answer(request.header("x-request-id", "r-1").send(body).unwrap())
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> (u16, Value) {
        let request = agent().put(format!("{}{path}", self.api));
        answer(
            request
                .header("content-type", "application/json")
                .send(body)
                .unwrap(),
        )
    }
}

impl Drop for Quotad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into()
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}
