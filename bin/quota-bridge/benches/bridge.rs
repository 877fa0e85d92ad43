//! What the bridge costs: a relist and a watch beside parsing alone, its memory, and how late the ledger knows.
//!
//! `make bench-bridge`. `BENCH_SCALE` (default 1) multiplies the pods that are listed (100,000) and the seconds in which
//! events come (20); `PROGRAMS` is the directory of other programs to measure. The API server is the tests' own, in this
//! process, so it takes processors as well: what it takes for a list is measured by itself.

#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::{
    fs,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use quota_bridge::{discovery::Served, kind::Reader};
use quota_semantics::{admission::Charging, object::GroupResource, quantity::Quantity};
use quota_testkit::fake_api::{server, world::World};
use quota_testkit::{nats, process::Program, programs, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a pod of a cluster has: about 5.5 KB.
const POD_BYTES: usize = 5500;

/// Events of a second, where their delay is measured.
const RATE: u32 = 500;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, PATIENCE, || is_so().then_some(()));
}

fn main() {
    // Cargo runs benches without `--bench` to see whether they start.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let scale = std::env::var("BENCH_SCALE").map_or(1.0, |text| text.parse::<f64>().unwrap());
    let scaled = |number: f64| (number * scale).ceil() as usize;
    let objects = scaled(100_000.0);
    parsing(objects.min(20_000));
    relist(objects);
    events(objects.min(20_000));
    delay(scaled(20.0));
}

fn pod(number: usize) -> Value {
    let env =
        |n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value {number} of {n}")});
    let condition = |kind| {
        json!({"type": kind, "status": "True", "lastProbeTime": null,
               "lastTransitionTime": "2026-11-22T10:00:00Z", "observedGeneration": 1})
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let mut pod = json!({
        "metadata": {
            "name": format!("web-7d5c9b8f6-{number:06}"),
            "labels": {"app": "web", "pod-template-hash": "7d5c9b8f6"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d5c9b8f6",
                                 "uid": "c0ffee00-0000-4000-8000-000000000001", "controller": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                               "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 500),
            "containers": [{
                "name": "web", "image": "registry.example.com/web:1.27",
                "env": (0..20).map(env).collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": true}],
            }],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": conditions,
        },
    });
    let missing = POD_BYTES.saturating_sub(pod.to_string().len());
    pod["metadata"]["annotations"] = json!({"note": "x".repeat(missing)});
    pod
}

fn report(what: &str, count: usize, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<44} {count:>9} in {:>8.2} s {rate:>10.0} /s", took.as_secs_f64());
}

/// Objects read and written by the bridge's reader, without anything else: the least that it can take.
fn parsing(objects: usize) {
    let world = World::new();
    let texts: Vec<String> =
        (0..objects).map(|number| world.put("pods", "team-a", pod(number)).unwrap()).collect();
    let served = Served {
        resource: GroupResource::new("", "pods"),
        version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        aggregated: false,
    };
    let reader = Reader::new(&served, Charging::default());
    let began = Instant::now();
    let bytes: usize =
        texts.iter().map(|text| reader.alive("ADDED", text).unwrap().line.len()).sum();
    report("parsing alone, one thread", texts.len(), began.elapsed());
    let read: usize = texts.iter().map(String::len).sum();
    println!("{:<44} {read:>9} bytes of objects, {bytes} published", "");
}

/// The list as the API server gives it, read by nobody: what a relist takes without the bridge.
fn serving(world: &World, objects: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let pods = format!("http://{}/api/v1/pods?limit=500", listener.local_addr().unwrap());
    runtime.spawn(server::serve(listener, world.clone()));
    let began = Instant::now();
    let (mut next, mut pages) = (String::new(), 0);
    loop {
        let (status, page) = get(&format!("{pods}&continue={next}"));
        assert_eq!(status, 200, "{page}");
        pages += 1;
        // The page begins with its metadata.
        let (_, token) = page.split_once(r#""continue":""#).unwrap();
        next = token.split('"').next().unwrap().replace('+', "%2B").replace('/', "%2F");
        if next.is_empty() {
            break;
        }
    }
    assert_eq!(pages, objects.div_ceil(500));
    report("serving the list alone", objects, began.elapsed());
}

/// The bridge with all that it stands between.
struct Scene {
    world: World,
    bridge: Program,
    quotad: Program,
    _nats: nats::Server,
    _runtime: tokio::runtime::Runtime,
    _directory: TempDir,
}

impl Scene {
    /// All of it, and when the bridge was started.
    fn new(world: World) -> (Self, Instant) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let api = format!("--api=http://{}", listener.local_addr().unwrap());
        runtime.spawn(server::serve(listener, world.clone()));
        let directory = TempDir::new().unwrap();
        let nats = nats::Server::start();
        let url = format!("--nats.url={}", nats.url());
        let start = |name: &str, arguments: &[&str]| {
            let mut command = Command::new(program(name));
            command.current_dir(directory.path()).env_clear();
            command.args(["--admin.listen=127.0.0.1:0", "--log.format=json", &url]);
            Program::start(command.args(arguments))
        };
        let quotad = start("quotad", &["--listen=127.0.0.1:0"]);
        until("the stream is there", || get(&format!("{}/readyz", quotad.url("admin"))).0 == 200);
        let began = Instant::now();
        let bridge = start("quota-bridge", &[&api, "--cluster=bench", "--watermark.every=1s"]);
        let scene =
            Self { world, bridge, quotad, _nats: nats, _runtime: runtime, _directory: directory };
        (scene, began)
    }

    /// Waits until everything is listed and published.
    fn listed(&self) {
        let url = format!("{}/readyz", self.bridge.url("admin"));
        until("all is listed", || get(&url).0 == 200);
    }

    /// How many pods the ledger counts.
    fn used(&self) -> u64 {
        let url = format!("{}/v1/namespaces/team-a/usage", self.quotad.url("api"));
        let usage: Value = serde_json::from_str(&get(&url).1).unwrap_or_default();
        let resources = usage["resources"].as_array();
        let pods = resources.and_then(|all| all.iter().find(|it| it["resource"] == "count/pods"));
        let used = pods.and_then(|pods| pods["used"].as_str());
        // A quantity: 2000 is "2k".
        used.map_or(0, |text| text.parse::<Quantity>().unwrap().to_f64() as u64)
    }

    fn until_used(&self, count: u64) {
        until("the ledger has it", || self.used() == count);
    }

    /// The most memory that the bridge had, and has, in MiB.
    fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.bridge.id())).unwrap();
        let of = |key: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (of("VmHWM:") / 1024, of("VmRSS:") / 1024)
    }
}

fn program(name: &str) -> PathBuf {
    match std::env::var_os("PROGRAMS") {
        Some(directory) => PathBuf::from(directory).join(name),
        None => programs::directory().join(name),
    }
}

fn get(url: &str) -> (u16, String) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    match agent.get(url).call() {
        Ok(mut answer) => {
            let status = answer.status().as_u16();
            (status, answer.body_mut().read_to_string().unwrap_or_default())
        }
        Err(_) => (0, String::new()),
    }
}

fn relist(objects: usize) {
    let world = World::new();
    for number in 0..objects {
        world.put("pods", "team-a", pod(number)).unwrap();
    }
    serving(&world, objects);
    let (scene, began) = Scene::new(world);
    scene.listed();
    report("relist, from the start of the bridge", objects, began.elapsed());
    scene.until_used(objects as u64);
    report("the same, until the ledger counts it", objects, began.elapsed());
    let (most, now) = scene.memory();
    println!("{:<44} {most:>9} MiB at most, {now} MiB behind it", "resident memory of the bridge");
}

/// As many changes as can be made, each of which counts.
fn events(count: usize) {
    let (scene, _) = Scene::new(World::new());
    scene.listed();
    let pods: Vec<Value> = (0..count).map(pod).collect();
    let began = Instant::now();
    for pod in pods {
        scene.world.put("pods", "team-a", pod).unwrap();
    }
    let made = began.elapsed();
    scene.until_used(count as u64);
    report("watch, until the ledger counts it", count, began.elapsed());
    report("of that, making the events", count, made);
}

/// From an event of the API server until the ledger counts it, as somebody sees it who asks all the time.
fn delay(seconds: usize) {
    let (scene, _) = Scene::new(World::new());
    scene.listed();
    let count = seconds * RATE as usize;
    let begin = Instant::now();
    let due =
        |number: usize| begin + Duration::from_secs(1) * u32::try_from(number).unwrap() / RATE;
    let mut delays = Vec::with_capacity(count);
    thread::scope(|scope| {
        let made = scope.spawn(|| {
            let mut made = Vec::with_capacity(count);
            for number in 0..count {
                thread::sleep(due(number).saturating_duration_since(Instant::now()));
                made.push(Instant::now());
                scene.world.put("pods", "team-a", pod(number)).unwrap();
            }
            made
        });
        let mut seen = Vec::with_capacity(count);
        while seen.len() < count {
            let used = usize::try_from(scene.used()).unwrap();
            seen.resize(used.max(seen.len()), Instant::now());
            assert!(begin.elapsed() < PATIENCE, "not all is counted");
        }
        let made = made.join().unwrap();
        delays.extend(made.iter().zip(&seen).map(|(made, seen)| *seen - *made));
    });
    delays.sort_unstable();
    let at = |share: f64| delays[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{:<44} p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms, at {RATE} events/s",
        "from the API server's event until it counts",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
