//! An upgrade of all nodes, one after the other, while the webhook is called, kubectl is used and events come in.

use std::{
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use ureq::Agent;

use crate::{
    producer, scratch_alone,
    support::{PATIENCE, cluster::NODES, nodes::Nodes, quotad::agent},
};

/// Callers of the webhook.
const CALLERS: usize = 3;

/// What an API server waits for a webhook, if nobody says otherwise.
const WEBHOOK: Duration = Duration::from_secs(10);

/// Between two calls of a caller.
const REST: Duration = Duration::from_millis(10);

/// How often all nodes are started anew.
const ROUNDS: usize = 2;

/// What goes on meanwhile, until it is over.
struct Use {
    apis: Vec<String>,
    is_over: AtomicBool,
    calls: AtomicU64,
    repeated: AtomicU64,
    kubectl: AtomicU64,
    failed: Mutex<Vec<String>>,
    /// The longest that a call took, with its repetition, in milliseconds.
    longest: AtomicU64,
}

impl Use {
    /// Does something at one node after the other, and when it fails once more at the next.
    fn repeat(
        &self,
        first: usize,
        count: &AtomicU64,
        attempt: impl Fn(&str, u64) -> Result<(), String>,
    ) {
        let mut number = first as u64;
        while !self.is_over.load(Ordering::Relaxed) {
            let at = usize::try_from(number).unwrap();
            let began = Instant::now();
            let once = attempt(&self.apis[at % NODES], number);
            if let Err(first) = once {
                self.repeated.fetch_add(1, Ordering::Relaxed);
                if let Err(second) = attempt(&self.apis[(at + 1) % NODES], number) {
                    let why = format!("{number}: {first}; then {second}");
                    self.failed.lock().unwrap().push(why);
                }
            }
            let took = u64::try_from(began.elapsed().as_millis()).unwrap();
            self.longest.fetch_max(took, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
            number += CALLERS as u64;
            std::thread::sleep(REST);
        }
    }

    fn wait_for_calls(&self, more: u64) {
        let enough = self.calls.load(Ordering::Relaxed) + more;
        let deadline = Instant::now() + PATIENCE;
        while self.calls.load(Ordering::Relaxed) < enough {
            assert!(Instant::now() < deadline, "the webhook is called");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends it, also when something went wrong.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_upgrade_of_all_nodes_is_not_noticed() {
    let directory = scratch_alone();
    let mut cluster = producer::start(directory.path());
    set_quota(&cluster.daemon(cluster.leader()).api);
    let run = Use {
        apis: cluster.apis(),
        is_over: AtomicBool::new(false),
        calls: AtomicU64::new(0),
        repeated: AtomicU64::new(0),
        kubectl: AtomicU64::new(0),
        failed: Mutex::default(),
        longest: AtomicU64::new(0),
    };
    let urls = cluster.servers.urls();
    let published = std::thread::scope(|scope| {
        let end = End(&run.is_over);
        let producer = scope.spawn(|| producer::run(&urls, 1, &run.is_over));
        for caller in 0..CALLERS {
            let run = &run;
            let agent = agent(WEBHOOK);
            scope.spawn(move || {
                run.repeat(caller, &run.calls, |api, number| review(&agent, api, number));
            });
        }
        scope.spawn(|| run.repeat(0, &run.kubectl, kubectl));
        for _ in 0..ROUNDS {
            upgrade(&mut cluster, &run);
        }
        drop(end);
        producer.join().unwrap()
    });
    let failed = run.failed.into_inner().unwrap();
    assert_eq!(failed, Vec::<String>::new());
    producer::is_counted_once(&cluster, &published);
    let leader = cluster.leader();
    let calls = run.calls.into_inner();
    let held = cluster.daemon(leader).get("/v1/namespaces/web/quotas/all");
    let held: u64 =
        held["status"]["reserved"]["pods"].as_str().map_or(0, |held| held.parse().unwrap());
    assert_eq!(held, calls, "each review that was allowed holds its pod once");
    println!(
        "{calls} calls of the webhook and {} kubectls while {ROUNDS} times all nodes were started anew: none failed, \
         {} were repeated once, the longest took {} ms; {} events, each counted once",
        run.kubectl.into_inner(),
        run.repeated.into_inner(),
        run.longest.into_inner(),
        published.events
    );
}

/// The followers first, one after the other, then the leader.
fn upgrade(cluster: &mut Nodes, run: &Use) {
    let leader = cluster.leader();
    for node in [leader + 1, leader + 2, leader].map(|node| node % NODES) {
        run.wait_for_calls(60);
        let stopped = cluster.take(node).stop();
        assert_eq!(stopped.code(), Some(0));
        cluster.start_node(node);
        let deadline = Instant::now() + PATIENCE;
        while !cluster.daemon(node).is_ready() {
            assert!(Instant::now() < deadline, "n{node} is ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    run.wait_for_calls(60);
}

fn set_quota(api: &str) {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "web"},
        "spec": {"hard": {"pods": "1000000"}}
    });
    let path = format!("{api}/v1/namespaces/web/quotas/all");
    let answer = agent(PATIENCE).put(path).send_json(manifest).unwrap();
    assert_eq!(answer.status(), 201);
}

/// The review of a pod that is created.
pub(crate) fn pod(number: u64) -> Value {
    let uid = format!("pod-{number}");
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": uid, "operation": "CREATE", "namespace": "web", "name": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": uid, "namespace": "web", "uid": uid},
                "spec": {"containers": [{"name": "c"}]}
            }
        }
    })
}

/// Asks whether a pod may be created.
fn review(agent: &Agent, api: &str, number: u64) -> Result<(), String> {
    let answer = agent.post(format!("{api}/admit")).send_json(pod(number));
    let mut answer = answer.map_err(|error| error.to_string())?;
    let text = answer.body_mut().read_to_string();
    let text = text.map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    match answer.status() == 200 && body["response"]["allowed"] == true {
        true => Ok(()),
        false => Err(format!("{}: {text}", answer.status())),
    }
}

/// Changes a quota, and reads it.
fn kubectl(api: &str, number: u64) -> Result<(), String> {
    let run = |arguments: &[&str]| {
        let done = Command::new("kubectl")
            .args(["--server", api, "--namespace", "web", "--request-timeout=10s"])
            .args(arguments)
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .expect("kubectl is installed");
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => {
                Err(format!("kubectl {arguments:?}: {}", String::from_utf8_lossy(&done.stderr)))
            }
        }
    };
    let label = format!("number={number}");
    run(&["label", "--overwrite", "quota", "all", &label])?;
    let found = run(&["get", "quota", "all", "-o", "name"])?;
    match found.trim() {
        "resourcequota/all" => Ok(()),
        other => Err(format!("kubectl get: {other}")),
    }
}
