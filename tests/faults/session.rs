//! A short life of a daemon in which everything happens that touches the disk, and what it acknowledged.

use std::{
    collections::BTreeMap, os::unix::process::ExitStatusExt as _, path::Path, process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use ureq::Agent;

use crate::support::quotad::{Quotad, agent, command};

pub(crate) const UNITS: &str = "requests.example.com/units";

/// How long an answer may take, on a machine that does much else.
const ANSWER: Duration = Duration::from_secs(300);

/// Size of a line of filling, of which the ledger keeps the most it keeps of any.
const FILLING_BYTES: usize = 16 * 1024;

/// What was acknowledged. What was requested and not answered may have happened or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Quotas by name, with their limit.
    pub(crate) quotas: BTreeMap<String, u64>,
    /// Reservations by uid: the state in the last answer.
    pub(crate) reservations: BTreeMap<String, &'static str>,
    /// Uids of objects.
    pub(crate) objects: Vec<String>,
    /// How far the ledger was said to be.
    pub(crate) sequence: u64,
    /// Why there was no answer, or none that says that something was done.
    pub(crate) unanswered: String,
}

/// A request. Its answer changes the recorded state.
pub(crate) enum Step {
    Quota(String, u64),
    Reserve(String),
    Release(String),
    Commit(String),
    Extend(String),
    Objects(Vec<String>),
    Fill(usize),
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

impl From<std::process::ExitStatus> for End {
    fn from(status: std::process::ExitStatus) -> Self {
        match status.code() {
            Some(code) => Self::Code(code),
            None => Self::Signal(status.signal().unwrap()),
        }
    }
}

/// All calls take hours, and nothing is to expire meanwhile.
pub(crate) const UNHURRIED: [&str; 2] =
    ["--reservations.max_ttl=20h", "--reservations.max_hold=24h"];

/// A daemon in `directory` with the smallest segments and epochs, so that each kind of file comes and goes.
pub(crate) fn daemon(directory: &Path) -> Command {
    let mut command = command(directory);
    command.args([
        "--retention.archive_dir=archive",
        // No ballast, which would be most of what is written.
        "--disk.min_free=0",
        "--limits.request_timeout=5m",
        "--limits.body_timeout=5m",
        "--journal.segment_bytes=1MiB",
        "--journal.epoch_bytes=1MiB",
        "--snapshot.every_entries=3",
        "--snapshot.keep=1",
        "--retention.max_bytes=64KiB",
    ]);
    command.args(UNHURRIED);
    command
}

/// The requests of one session; those of different `name`s touch different things.
pub(crate) fn script(name: &str, filling: usize) -> Vec<Step> {
    let uid = |number: usize| format!("{name}-r{number}");
    let objects = |from: usize| (from..from + 3).map(|n| format!("{name}-o{n}")).collect();
    vec![
        Step::Quota(format!("{name}-a"), 100),
        Step::Reserve(uid(1)),
        Step::Reserve(uid(2)),
        Step::Objects(objects(1)),
        Step::Fill(filling / 2),
        Step::Reserve(uid(3)),
        Step::Release(uid(1)),
        Step::Commit(uid(2)),
        Step::Quota(format!("{name}-a"), 90),
        Step::Fill(filling - filling / 2),
        Step::Extend(uid(3)),
        Step::Reserve(uid(4)),
        Step::Objects(objects(4)),
    ]
}

/// Requests these steps until one is not answered; records the answered steps in `told`, and calls `acknowledged`
/// after each. Returns whether all were answered.
pub(crate) fn ask(
    daemon: &Quotad,
    steps: &[Step],
    told: &mut Told,
    mut acknowledged: impl FnMut(&Told),
) -> bool {
    let agent = agent(ANSWER);
    for step in steps {
        if !told.ask(&agent, &daemon.api, step) {
            return false;
        }
        acknowledged(told);
    }
    true
}

impl Told {
    fn ask(&mut self, agent: &Agent, api: &str, step: &Step) -> bool {
        let namespace = format!("{api}/v1/namespaces/team-a");
        let reservation = |uid: &str| format!("{namespace}/reservations/{uid}");
        let answer = match step {
            Step::Quota(name, hard) => {
                let manifest = json!({
                    "apiVersion": "v1", "kind": "ResourceQuota",
                    "metadata": {"name": name, "namespace": "team-a"},
                    "spec": {"hard": {UNITS: hard.to_string()}}
                });
                agent.put(format!("{namespace}/quotas/{name}")).send_json(manifest)
            }
            Step::Reserve(uid) => {
                let body = json!({
                    "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
                    "reserved": {UNITS: "2"}, "ttl": "19h"
                });
                agent.post(format!("{namespace}/reservations")).send_json(body)
            }
            Step::Release(uid) => agent.delete(reservation(uid)).call(),
            Step::Commit(uid) => {
                agent.post(format!("{}/commit", reservation(uid))).send_json(json!({}))
            }
            Step::Extend(uid) => {
                agent.post(format!("{}/extend", reservation(uid))).send_json(json!({"ttl": "20h"}))
            }
            Step::Objects(uids) => {
                let line = |uid: &String| {
                    let event = json!({
                        "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com", "name": uid,
                        "uid": uid, "usage": {UNITS: "1"}
                    });
                    event.to_string()
                };
                let lines: Vec<_> = uids.iter().map(line).collect();
                agent
                    .post(format!("{api}/v1/events"))
                    .content_type("application/x-ndjson")
                    .send(lines.join("\n"))
            }
            // What cannot be understood is kept as it is.
            Step::Fill(lines) => agent
                .post(format!("{api}/v1/events"))
                .content_type("application/x-ndjson")
                .send(vec!["x".repeat(FILLING_BYTES); *lines].join("\n")),
        };
        let answer = answer.and_then(|mut answer| {
            let text = answer.body_mut().read_to_string()?;
            Ok((answer.status().as_u16(), text))
        });
        let (status, text) = match answer {
            // Sent on its way down, it says that nothing was done.
            Ok((503, text)) => {
                self.unanswered = text;
                return false;
            }
            Ok(answer) => answer,
            Err(error) => {
                self.unanswered = error.to_string();
                return false;
            }
        };
        assert!((200..300).contains(&status), "{status}: {text}");
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let sequence = body["asOf"]["sequence"].as_u64().unwrap_or(0);
        self.sequence = self.sequence.max(sequence);
        self.learn(step);
        true
    }

    fn learn(&mut self, step: &Step) {
        match step {
            Step::Quota(name, hard) => {
                self.quotas.insert(name.clone(), *hard);
            }
            Step::Reserve(uid) | Step::Extend(uid) => {
                self.reservations.insert(uid.clone(), "pending");
            }
            Step::Release(uid) => {
                self.reservations.insert(uid.clone(), "released");
            }
            Step::Commit(uid) => {
                self.reservations.insert(uid.clone(), "committed");
            }
            Step::Objects(uids) => self.objects.extend(uids.iter().cloned()),
            Step::Fill(_) => {}
        }
    }
}

/// What of the acknowledged is not there.
pub(crate) fn missing(daemon: &Quotad, told: &Told, unanswered: Option<&Step>) -> Vec<String> {
    let mut missing = Vec::new();
    let mut fetch = daemon.asking();
    for (name, hard) in &told.quotas {
        let open = matches!(unanswered, Some(Step::Quota(other, _)) if other == name);
        let found = fetch(&format!("/v1/namespaces/team-a/quotas/{name}"));
        let limit = found.map(|quota| quota["spec"]["hard"][UNITS].as_str().unwrap().to_owned());
        if limit.is_none() || (!open && limit != Some(hard.to_string())) {
            missing.push(format!("quota {name} of {hard}: {limit:?}"));
        }
    }
    for (uid, state) in &told.reservations {
        let open = match unanswered {
            Some(Step::Release(other) | Step::Commit(other) | Step::Extend(other)) => other == uid,
            _ => false,
        };
        let found = fetch(&format!("/v1/namespaces/team-a/reservations/{uid}"));
        let found = found.map(|found| found["state"].as_str().unwrap().to_owned());
        if found.is_none() || (!open && found.as_deref() != Some(*state)) {
            missing.push(format!("reservation {uid}, {state}: {found:?}"));
        }
    }
    let (objects, sequence) = daemon.list("/v1/namespaces/team-a/objects");
    for uid in &told.objects {
        if !objects.iter().any(|object| object["uid"] == uid.as_str()) {
            missing.push(format!("object {uid}"));
        }
    }
    if sequence < told.sequence {
        missing.push(format!("entries behind {sequence} up to {}", told.sequence));
    }
    missing
}

/// Has the ledger checked by `quotactl`, with its archive. What it says, if it finds anything.
pub(crate) fn verify(directory: &Path) -> Result<(), String> {
    let output = Command::new(crate::support::programs::quotactl())
        .current_dir(directory)
        .args(["ledger", "verify", "--data-dir=data"])
        .args(directory.join("archive").exists().then_some("--archive=archive"))
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        code => Err(format!(
            "{code:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
