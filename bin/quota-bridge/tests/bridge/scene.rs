//! A cluster, NATS, the ledger, and the bridge between them.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Instant,
};

use quota_testkit::programs;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{PATIENCE, nats, process::Program, server, until, world::World};

/// The kinds whose objects are compared.
const KINDS: [&str; 6] = [
    "pods",
    "services",
    "persistentvolumeclaims",
    "resourcequotas",
    "configmaps",
    "widgets.example.com",
];

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) api: String,
    pub(crate) nats: nats::Server,
    pub(crate) quotad: Program,
    pub(crate) runtime: Runtime,
    directory: TempDir,
}

pub(crate) fn pod(cpu: &str) -> Value {
    json!({
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"},
    })
}

pub(crate) fn quota(hard: Value) -> Value {
    json!({"spec": {"hard": hard}})
}

/// A program of another crate. Cargo builds only those of the crate that is tested, so that this builds the others.
fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| programs::build(&["quotad", "quotactl"]));
    programs::directory().join(name)
}

/// A daemon of its own in this directory, that consumes the stream.
pub(crate) fn daemon(nats: &nats::Server, directory: &Path, arguments: &[&str]) -> Program {
    let mut command = Command::new(program("quotad"));
    command
        .current_dir(directory)
        .env_clear()
        .env("QUOTAD_SHUTDOWN__DRAIN", "0s")
        .args(["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0", "--log.format=json"])
        .arg(format!("--nats.url={}", nats.url()))
        .args(arguments);
    Program::start(&mut command)
}

/// Runs `quotactl` to its end: code, output, messages.
fn quotactl(server: &str, arguments: &[&str], input: &str) -> (i32, String, String) {
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
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

impl Scene {
    /// All but the bridge. There are objects already.
    pub(crate) fn new() -> Self {
        Self::with_daemon(&[])
    }

    pub(crate) fn with_daemon(arguments: &[&str]) -> Self {
        let world = World::new();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let api = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(server::serve(listener, world.clone()));
        let directory = TempDir::new().unwrap();
        let nats = nats::Server::start();
        let quotad = daemon(&nats, directory.path(), arguments);
        let scene = Self { world, api, nats, quotad, runtime, directory };
        let url = format!("{}/readyz", scene.quotad.url("admin"));
        until("the stream is there", || (ask(&url).0 == 200).then_some(()));
        scene.world.create(
            "resourcequotas",
            "team-a",
            "q",
            quota(json!({"pods": "1000", "count/configmaps": "1000"})),
        );
        for number in 0..7 {
            scene.world.create("pods", "team-a", &format!("first-{number}"), pod("100m"));
        }
        scene.world.create(
            "services",
            "team-b",
            "s",
            json!({"spec": {"type": "NodePort", "ports": [{"nodePort": 30000}]}}),
        );
        scene.world.create("configmaps", "team-b", "c", json!({"data": {"a": "b"}}));
        scene
    }

    /// A bridge as it is started: it looks often, so that tests are short.
    pub(crate) fn command(&self) -> Command {
        self.command_to(&self.nats.url())
    }

    pub(crate) fn command_to(&self, nats: &str) -> Command {
        self.command_between(&["--api", &self.api], nats)
    }

    /// As [`Scene::command`], with another way to an API server, and another one to NATS.
    pub(crate) fn command_between(&self, api: &[&str], nats: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quota-bridge"));
        command.current_dir(self.directory.path()).env_clear();
        // Flags go before it.
        command.env("QUOTA_BRIDGE_WATERMARK__EVERY", "200ms");
        command.env("QUOTA_BRIDGE_LIST__PAGE", "3");
        command.args(api);
        command.arg(format!("--nats.url={nats}"));
        command.args([
            "--cluster=test",
            "--admin.listen=127.0.0.1:0",
            "--log.format=json",
            "--watch.discovery=500ms",
        ]);
        command
    }

    /// Starts a bridge.
    pub(crate) fn bridge(&self, arguments: &[&str]) -> Program {
        Program::start(self.command().args(arguments))
    }

    /// Waits until the ledger holds what the cluster holds.
    pub(crate) fn settle(&self) {
        self.until_same(|| self.nothing_alive_was_ended(), String::new);
    }

    /// Waits until the ledger holds what the cluster holds, also where objects of an earlier history have ended.
    pub(crate) fn until_no_drift(&self, bridge: &Program) {
        self.until_same(|| {}, || bridge.log());
    }

    fn until_same(&self, check: impl Fn(), log: impl Fn() -> String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (code, out, messages) = self.drift();
            check();
            if code == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "drift: {messages}{out}\n{}", log());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// `quotactl drift` of all that there is.
    pub(crate) fn drift(&self) -> (i32, String, String) {
        let items: Vec<_> = KINDS.iter().flat_map(|kind| self.world.list(kind)).collect();
        let listing = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let kinds = KINDS.join(",");
        let arguments = ["drift", "-f", "-", "-A", "--resource", &kinds, "--allow-empty"];
        quotactl(&self.quotad.url("api"), &arguments, &listing.to_string())
    }

    fn entries(&self) -> Vec<Value> {
        let api = self.quotad.url("api");
        let (mut entries, mut token) = (Vec::new(), String::new());
        loop {
            let text = get(&format!("{api}/v1/entries?limit=500{token}"));
            let page: Value = serde_json::from_str(&text).unwrap();
            entries.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["continue"].as_str() {
                Some(more) => token = format!("&continue={more}"),
                None => return entries,
            }
        }
    }

    /// No entry of the ledger ends an object that lives.
    pub(crate) fn nothing_alive_was_ended(&self) {
        let live = self.world.uids();
        let wrong: Vec<_> = self.ended().into_iter().filter(|uid| live.contains(uid)).collect();
        assert!(wrong.is_empty(), "ended, and alive: {wrong:?}");
    }

    /// The uids of all objects that relists have ended.
    pub(crate) fn ended(&self) -> Vec<String> {
        let entries = self.entries();
        let ended = entries.iter().map(|entry| &entry["event"]);
        let ended = ended.filter(|event| event["type"] == "ObjectEnded");
        ended.filter_map(|event| find(event, "uid").map(str::to_owned)).collect()
    }

    /// The version at the last watermark of a kind in the ledger; 0: there is none.
    pub(crate) fn watermark_version(&self, kind: &str) -> u64 {
        let entries = self.entries();
        let advanced = entries.iter().map(|entry| &entry["event"]);
        let advanced = advanced.filter(|event| event["type"] == "WatermarksAdvanced");
        let kinds = advanced.filter_map(|event| event["resources"].as_array());
        let versions = kinds.flatten().filter(|of| of["resource"] == kind);
        versions.filter_map(|of| of["resourceVersion"].as_u64()).next_back().unwrap_or(0)
    }

    /// How the relists of a kind have ended, in their order.
    pub(crate) fn outcomes(&self, kind: &str) -> Vec<String> {
        let entries = self.entries();
        let ended = entries.iter().map(|entry| &entry["event"]);
        let ended = ended.filter(|event| event["type"] == "RelistEnded");
        let of_kind = ended.filter(|event| find(event, "resource") == Some(kind));
        of_kind.filter_map(|event| find(event, "outcome").map(str::to_owned)).collect()
    }

    /// What the ledger says of a namespace's use of a resource.
    pub(crate) fn used(&self, namespace: &str, resource: &str) -> Option<String> {
        let api = self.quotad.url("api");
        let text = get(&format!("{api}/v1/namespaces/{namespace}/usage"));
        let usage: Value = serde_json::from_str(&text).unwrap();
        let mut resources = usage["resources"].as_array()?.iter();
        let found = resources.find(|it| it["resource"] == resource)?;
        found["used"].as_str().map(str::to_owned)
    }

    pub(crate) fn until_used(&self, namespace: &str, resource: &str, amount: &str) {
        until(&format!("{resource}={amount} in {namespace}"), || {
            (self.used(namespace, resource).as_deref() == Some(amount)).then_some(())
        });
    }

    /// Asks the bridge for relists, as quotad does.
    pub(crate) fn ask_relist(&self, resources: &[&str]) {
        self.runtime.block_on(async {
            let client = async_nats::connect(self.nats.url()).await.unwrap();
            let request = json!({"resources": resources}).to_string();
            client.publish("quota.control.test.relist", request.into()).await.unwrap();
            client.flush().await.unwrap();
        });
    }

    /// Some of everything: created, changed, deleted.
    pub(crate) fn churn(&self, name: &str) {
        let world = &self.world;
        let victims = world.list("pods");
        let victim =
            victims.first().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        for number in 0..4 {
            world.create("pods", "team-a", &format!("{name}-{number}"), pod("200m"));
        }
        world.create("pods", "team-a", &format!("{name}-0"), pod("300m"));
        world.delete("pods", "team-a", &format!("{name}-1"));
        if let Some(victim) = victim {
            world.delete("pods", "team-a", &victim);
        }
        world.create("configmaps", "team-a", name, json!({}));
    }
}

/// The text of the first field by this name, however deep.
pub(crate) fn find<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .and_then(Value::as_str)
            .or_else(|| fields.values().find_map(|field| find(field, name))),
        Value::Array(items) => items.iter().find_map(|item| find(item, name)),
        _ => None,
    }
}

/// The body of an answer, whatever its status is.
pub(crate) fn get(url: &str) -> String {
    ask(url).1
}

/// Status and body of an answer.
pub(crate) fn ask(url: &str) -> (u16, String) {
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent = ureq::Agent::new_with_config(config);
    match agent.get(url).call() {
        Ok(mut answer) => {
            let status = answer.status().as_u16();
            (status, answer.body_mut().read_to_string().unwrap())
        }
        Err(error) => (0, error.to_string()),
    }
}

/// A metric of a bridge, with its labels.
pub(crate) fn metric(bridge: &Program, name: &str) -> f64 {
    let text = get(&format!("{}/metrics", bridge.url("admin")));
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0)
}

/// Waits until the bridge is ready, and has listed all kinds.
pub(crate) fn until_ready(bridge: &Program) {
    let url = format!("{}/readyz?verbose", bridge.url("admin"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, text) = ask(&url);
        if status == 200 && !text.contains("have no watermark yet") {
            return;
        }
        assert!(Instant::now() < deadline, "never ready: {text}\n{}", bridge.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
