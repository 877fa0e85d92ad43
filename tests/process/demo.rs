//! `quotad demo`: what somebody sees who only wants to look.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use super::{
    output,
    support::{
        programs,
        quotad::{REQUEST, agent},
    },
};
use quota_semantics::{Span, Timestamp, quantity::Quantity};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A demo; killed when dropped.
struct Demo {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Where it is started, and the directory for temporary files.
    home: TempDir,
    temporary: TempDir,
    page: String,
    commands: Vec<String>,
}

impl Demo {
    /// Starts it, and reads what it prints.
    fn start() -> Self {
        let (home, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        // What else it might read.
        fs::write(home.path().join("config.toml"), "listen = \"0.0.0.0:1\"").unwrap();
        let mut child = Command::new(programs::quotad())
            .arg("demo")
            .current_dir(home.path())
            .env_clear()
            .env("TMPDIR", temporary.path())
            .env("QUOTAD_NATS__URL", "nats://127.0.0.1:1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut page, mut commands) = (String::new(), Vec::new());
        for line in output.by_ref().lines() {
            let line = line.unwrap();
            let line = line.trim();
            if line.starts_with("http://") {
                page = line.to_owned();
            } else if line.starts_with("quotactl ") {
                commands.push(line.to_owned());
            } else if line.starts_with("Ctrl-C") {
                break;
            }
        }
        Self { child, output, home, temporary, page, commands }
    }

    fn get(&self, path: &str) -> String {
        let api = self.page.strip_suffix("/ui").unwrap();
        let mut response = agent(REQUEST).get(format!("{api}{path}")).call().unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.body_mut().read_to_string().unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    /// Ends it, and sees that nothing is left.
    fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert_eq!(files(self.temporary.path()), BTreeSet::new());
        assert_eq!(files(self.home.path()), BTreeSet::from(["config.toml".to_owned()]));
        let mut rest = String::new();
        self.output.read_line(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn files(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn items(answer: &Value) -> &Vec<Value> {
    answer["items"].as_array().unwrap()
}

/// How much of each limit is used, as `used / hard`.
fn shares(demo: &Demo) -> Vec<f64> {
    let amount = |text: &Value| text.as_str().unwrap().parse::<Quantity>().unwrap().to_f64();
    let answer = demo.json("/v1/quotas");
    let statuses = items(&answer).iter().map(|quota| &quota["status"]);
    let shares = statuses.flat_map(|status| {
        let hard = status["hard"].as_object().unwrap().iter();
        hard.map(|(resource, hard)| amount(&status["used"][resource]) / amount(hard))
    });
    shares.collect()
}

#[test]
fn a_demo_has_a_past_to_look_at_and_leaves_nothing() {
    // Two at a time: one of them has another port than the usual one.
    let (demo, other) = (Demo::start(), Demo::start());
    assert_ne!(demo.page, other.page);
    assert!(demo.page.starts_with("http://127.0.0.1:"), "{}", demo.page);
    assert!(demo.get("/ui").contains("<html"));

    let now = demo.json("/v1/usage");
    let begun = quotad::now().minus(Span::from_seconds(7 * 24 * 3600));
    let then = demo.json(&format!("/v1/usage?at={begun}"));
    assert_eq!((items(&now).len(), items(&then).len()), (8, 8));
    assert_ne!(now["items"], then["items"]);
    let shares = shares(&demo);
    assert!(shares.iter().any(|share| *share > 1.0), "{shares:?}");
    assert!(shares.iter().any(|share| (0.9..=1.0).contains(share)), "{shares:?}");
    assert_eq!(items(&demo.json("/v1/groups")).len(), 3);
    let pending = demo.json("/v1/namespaces/shop-web/reservations");
    assert!(!items(&pending).is_empty());
    let denials = demo.json("/v1/denials?limit=500");
    let (latest, oldest) = (&denials["items"][0], items(&denials).last().unwrap());
    let time = |denial: &Value| denial["time"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(quotad::now().since(time(latest)) < Span::from_seconds(3600), "{latest}");
    assert!(quotad::now().since(time(oldest)) > Span::from_seconds(2 * 24 * 3600), "{oldest}");

    assert_eq!(demo.commands.len(), 5);
    for command in &demo.commands {
        let arguments = command.split(' ').skip(1);
        let (code, printed, said) = output(Command::new(programs::quotactl()).args(arguments));
        assert_eq!(code, Some(0), "{command}: {said}");
        assert!(printed.lines().count() > 1, "{command}: {printed}");
    }
    other.end(Signal::INT);
    demo.end(Signal::TERM);
}

#[test]
fn a_demo_takes_no_configuration() {
    let home = TempDir::new().unwrap();
    for argument in ["--nats.url=nats://127.0.0.1:1", "--config=config.toml"] {
        let mut command = Command::new(programs::quotad());
        let (code, _, said) = output(command.args(["demo", argument]).current_dir(home.path()));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("demo takes no configuration"), "{said}");
    }
}
