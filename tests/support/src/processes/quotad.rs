//! The real daemon, as a process of its own.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use ureq::{
    Agent, Body,
    http::{Request, Response},
};

use super::PATIENCE;

/// How long one request may take.
pub const REQUEST: Duration = Duration::from_secs(20);

/// A daemon that serves; killed when dropped.
pub struct Quotad {
    child: Child,
    /// The API, as `http://address`.
    pub api: String,
    /// Health and metrics, as `http://address`.
    pub admin: String,
    /// What it said when it served.
    pub ready: Value,
    log: PathBuf,
    /// What writes down what it says.
    logging: Option<JoinHandle<()>>,
}

/// How a daemon ended that did not get as far as serving, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub said: String,
}

/// A daemon as it is started: in this directory, with its ledger in `data`, on free ports. It logs JSON.
pub fn command(directory: &Path) -> Command {
    let mut command = with_config(directory);
    command.args(["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0"]);
    command
}

/// As [`command`], but it listens where its configuration says.
pub fn with_config(directory: &Path) -> Command {
    let mut command = Command::new(crate::programs::quotad());
    command
        .current_dir(directory)
        .env_clear()
        .env("QUOTAD_SHUTDOWN__DRAIN", "0s")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Quotad {
    /// Starts it with these further arguments, and waits until it serves. What it logs is in `quotad.log`.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = command(directory);
        command.args(arguments);
        Self::try_start(directory, &mut command).unwrap_or_else(|ended| panic!("{ended:?}"))
    }

    /// Starts what [`command`] made; if it does not get as far as serving, how it ended.
    pub fn try_start(directory: &Path, command: &mut Command) -> Result<Self, Ended> {
        let mut child = command.spawn().unwrap();
        let path = directory.join("quotad.log");
        let mut log = File::options().append(true).create(true).open(&path).unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let ready = lines.by_ref().map_while(Result::ok).find_map(|line| {
            // Its disk may be full.
            let _ = writeln!(log, "{line}");
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            said.push(line);
            (value["message"] == "ready").then_some(value)
        });
        let Some(ready) = ready else {
            let status = child.wait().unwrap();
            let said = said.join("\n");
            return Err(Ended { status, said });
        };
        // Somebody has to read what it goes on to say.
        let logging = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
            }
        });
        let address = |key: &str| format!("http://{}", ready[key].as_str().unwrap());
        Ok(Self {
            child,
            api: address("api"),
            admin: address("admin"),
            ready,
            log: path,
            logging: Some(logging),
        })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end that it comes to by itself.
    pub fn wait(mut self) -> ExitStatus {
        let deadline = Instant::now() + REQUEST;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The memory that it holds, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = resident.unwrap().trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }

    /// Whether `/readyz` says that it is.
    pub fn is_ready(&self) -> bool {
        self.ask_admin("/readyz").0 == 200
    }

    /// The first line of its log with this message, once it is there.
    pub fn logged(&self, message: &str) -> Value {
        self.logged_since(0, message)
    }

    /// The length of its log.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).unwrap().len()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// As [`Quotad::logged`], beyond so many bytes of its log.
    pub fn logged_since(&self, bytes: u64, message: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut log = File::open(&self.log).unwrap();
        loop {
            let mut text = Vec::new();
            log.seek(SeekFrom::Start(bytes)).unwrap();
            log.read_to_end(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text);
            // The last line may be half written.
            let mut lines =
                text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == message) {
                return line;
            }
            assert!(Instant::now() < deadline, "no line says {message:?}: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Status and text of an answer to a question about health or metrics.
    pub fn ask_admin(&self, path: &str) -> (u16, String) {
        let result = agent(REQUEST).get(format!("{}{path}", self.admin)).call();
        let mut response = result.unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), text)
    }

    /// Sends a request to the API, with nothing as its body if that is null; the answer, whose body is not read yet.
    pub fn send(
        &self,
        patience: Duration,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response<Body> {
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.api));
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        agent(patience).run(request.body(text).unwrap()).unwrap()
    }

    /// Sends a request to the API; status and body, as [`read`] gives them.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, Value) {
        read(self.send(PATIENCE, (method, path), headers, body))
    }

    /// Status and body of an answer of the API.
    pub fn ask(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, &[], &Value::Null)
    }

    /// The same, of what is posted.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("POST", path, &[], body)
    }

    /// The same, of what is put.
    pub fn put(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call("PUT", path, &[], body)
    }

    /// The answer 200 to a question to the API.
    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(path);
        assert!(status == 200 && !body.is_null(), "{path}: {status} {body}");
        body
    }

    /// Asks many questions over one connection; no answer where there is no such thing.
    pub fn asking(&self) -> impl FnMut(&str) -> Option<Value> {
        let agent = agent(REQUEST);
        move |path| {
            let mut response = agent.get(format!("{}{path}", self.api)).call().unwrap();
            let body = response.body_mut().read_to_string().unwrap();
            match response.status().as_u16() {
                200 => Some(serde_json::from_str(&body).unwrap()),
                404 => None,
                status => panic!("{path}: {status}: {body}"),
            }
        }
    }

    /// All items of a list, page by page, and how far the ledger was at the last page.
    pub fn list(&self, path: &str) -> (Vec<Value>, u64) {
        let mut items = Vec::new();
        let mut token = String::new();
        loop {
            let join = if path.contains('?') { '&' } else { '?' };
            let page = match token.as_str() {
                "" => self.get(path),
                token => self.get(&format!("{path}{join}continue={token}")),
            };
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["continue"].as_str() {
                Some(more) => token = more.to_owned(),
                None => return (items, page["asOf"]["sequence"].as_u64().unwrap()),
            }
        }
    }

    /// Ends it without a chance to tidy up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits for the end, and until all is in its log.
    pub fn stop(mut self) -> ExitStatus {
        // It may have ended already.
        let _ = kill_process(self.pid(), Signal::TERM);
        let status = self.child.wait().unwrap();
        self.logging.take().unwrap().join().unwrap();
        status
    }
}

impl Drop for Quotad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of an answer; a body that is not JSON is null.
pub fn read(mut answer: Response<Body>) -> (u16, Value) {
    let text = answer.body_mut().with_config().limit(u64::MAX);
    let text = text.read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    (answer.status().as_u16(), body)
}

/// A client that takes every status for an answer, and waits so long for it.
pub fn agent(timeout: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(timeout));
    config.build().new_agent()
}
