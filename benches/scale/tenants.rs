//! One tenant at full speed, with the worst that it can ask for, beside others' grants and the webhook.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{
    subject::{Bench, Bound, Target},
    support::{
        document::{ms, whole},
        measured::load_daemon,
        process::Quotad,
    },
};

/// The namespace of the tenant that floods.
const FLOOD: &str = "/v1/namespaces/flood";

/// Resources of each of its quotas, and quotas: as many as it may have.
const LIMITS: usize = 256;
const QUOTAS: usize = 100;

/// Resources of a reservation: as many as it may have.
const RESOURCES: usize = 64;

/// Items of a batch: as many as it may have.
const BATCH: usize = 1000;

/// How long an API server waits for the webhook.
const DEADLINE: Duration = Duration::from_secs(2);

/// Who calls: principal, roles, namespaces.
const CALLERS: [(&str, &str, &str); 5] = [
    ("others", r#""reserve", "read", "admin""#, "team*"),
    ("operator", r#""read", "admin""#, "*"),
    ("flood", r#""reserve", "read", "admin""#, "flood"),
    ("webhook", r#""reserve""#, "*"),
    ("source", r#""ingest""#, "*"),
];

pub fn token(principal: &str) -> String {
    format!("qlt_{}_{}", &blake3::hash(principal.as_bytes()).to_hex()[..12], "s".repeat(43))
}

pub fn write_tokens(directory: &Path) {
    let record = |(principal, roles, namespaces): (&str, &str, &str)| {
        let token = token(principal);
        let id = token.split('_').nth(1).unwrap_or_default();
        let hash = blake3::hash(token.as_bytes());
        format!(
            "[[tokens]]\nid = \"{id}\"\nhash = \"{hash}\"\nprincipal = \"{principal}\"\nroles = [{roles}]\nnamespaces = [\"{namespaces}\"]\n"
        )
    };
    let records: String = CALLERS.into_iter().map(record).collect();
    fs::write(directory.join("tokens.toml"), records).expect("there is room");
    fs::write(directory.join("others.token"), token("others")).expect("there is room");
}

/// A caller over one connection.
struct Caller {
    agent: ureq::Agent,
    api: String,
    authorization: String,
}

impl Caller {
    fn new(api: &str, principal: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_global(Some(Duration::from_secs(60)));
        Self {
            agent: config.build().new_agent(),
            api: api.to_owned(),
            authorization: format!("Bearer {}", token(principal)),
        }
    }

    /// The status of an answer, which is read to its end; none: there was none.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<u16> {
        let url = format!("{}{path}", self.api);
        let bearer = ("authorization", &*self.authorization);
        let result = match method {
            "GET" => self.agent.get(&url).header(bearer.0, bearer.1).call(),
            "DELETE" => self.agent.delete(&url).header(bearer.0, bearer.1).call(),
            _ => {
                let request = match method {
                    "PUT" => self.agent.put(&url),
                    _ => self.agent.post(&url),
                };
                let json = request.header("content-type", "application/json");
                json.header(bearer.0, bearer.1).send(body)
            }
        };
        let mut response = result.ok()?;
        response.body_mut().with_config().limit(1 << 30).read_to_vec().ok()?;
        Some(response.status().as_u16())
    }

    fn must(&self, method: &str, path: &str, body: &str) {
        let status = self.ask(method, path, body);
        assert!(status.is_some_and(|status| status < 300), "{method} {path}: {status:?}");
    }
}

fn reserve_request(uid: &str, reserved: &Value) -> Value {
    json!({"namespace": "flood", "reservedBy": {"uid": uid}, "reserved": reserved, "ttl": "10m"})
}

fn batch(items: impl Iterator<Item = Value>) -> String {
    json!({"atomic": false, "items": items.collect::<Vec<_>>()}).to_string()
}

/// So many resources.
fn wide(resources: usize, amount: &str) -> Map<String, Value> {
    let one = |number| (format!("example.com/r{number}"), json!(amount));
    (0..resources).map(one).collect()
}

/// All that the tenant may have: wide quotas, pending reservations, and objects.
fn furnish(bench: &Bench, api: &str) -> u64 {
    let tenant = Caller::new(api, "flood");
    let mut hard = wide(LIMITS - 1, "1000000");
    hard.insert("pods".to_owned(), json!("20000"));
    for number in 0..QUOTAS {
        let body = json!({"spec": {"hard": hard}}).to_string();
        tenant.must("PUT", &format!("{FLOOD}/quotas/q{number}"), &body);
    }
    for round in 0..bench.sized(19) {
        let uid = |number| format!("held-{round}-{number}");
        let items = (0..BATCH).map(|number| reserve_request(&uid(number), &json!({"pods": "1"})));
        tenant.must("POST", "/v1/reservations:batch", &batch(items));
    }
    let source = Caller::new(api, "source");
    let objects = bench.sized(100_000);
    let event = |number: u64| {
        json!({"type": "ADDED", "namespace": "flood", "resource": "widgets.example.com",
               "name": format!("w{number}"), "uid": format!("w{number}"), "resourceVersion": "1",
               "usage": {"example.com/r1": "1"}})
    };
    let lines: Vec<String> = (0..objects).map(|number| event(number).to_string()).collect();
    for part in lines.chunks(20_000) {
        source.must("POST", "/v1/events", &part.join("\n"));
    }
    objects
}

/// Whoever calls for the tenant that floods, or is beside it, shall not take from others what the daemon needs to answer
/// them: this thread gets what they leave of the processors.
fn step_back() {
    let stepped = rustix::process::setpriority_process(None, 10);
    stepped.expect("a thread may lower its own priority");
}

/// As many threads as there are processors, busy without a request: what a neighbour on this machine takes from others that has
/// nothing to do with the daemon.
struct Neighbour {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbour {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..count).map(|_| {
            let stop = stop.clone();
            thread::spawn(move || {
                step_back();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self { threads: threads.collect(), stop }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            assert!(thread.join().is_ok(), "it only turns");
        }
    }
}

/// A request of the flood, and the status of its answer. The uid in its path and body is another one each time.
#[derive(Clone)]
struct Asked(&'static str, String, String, u16);

/// What stands for the uid.
const UID: &str = "(uid)";

/// The number of the next uid.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A request that waits for longer than it may is refused, and so is one of too many that wait: those are bounds that the
/// flood is meant to meet.
const REFUSED: u16 = 503;

/// How many requests of a flood were answered as they should be, and how many were refused.
#[derive(Clone, Copy, Default)]
struct Answers {
    served: u64,
    refused: u64,
}

impl Answers {
    fn add(&mut self, other: Self) {
        self.served += other.served;
        self.refused += other.refused;
    }
}

/// Requests that go on until they are stopped.
struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Answers>>,
    _watches: Vec<TcpStream>,
}

impl Flood {
    fn start(api: &str) -> Self {
        let denied = json!({"pods": "30000"});
        let batch = batch((0..BATCH).map(|number| reserve_request(&format!("d{number}"), &denied)));
        let check = reserve_request("c", &denied).to_string();
        let reserved = wide(RESOURCES, "1");
        let churn = reserve_request(UID, &Value::Object(reserved)).to_string();
        let all = format!("{FLOOD}/reservations");
        let requests = [
            vec![Asked("POST", "/v1/reservations:batch".to_owned(), batch, 200)],
            vec![Asked("POST", format!("{FLOOD}/check"), check, 200)],
            vec![
                Asked("POST", all.clone(), churn, 201),
                Asked("DELETE", format!("{all}/{UID}"), String::new(), 204),
            ],
            [
                format!("{FLOOD}/quotas"),
                format!("{FLOOD}/objects"),
                all,
                format!("{FLOOD}/usage"),
                "/api/v1/namespaces/flood/resourcequotas".to_owned(),
                format!("{FLOOD}/explain?resource=example.com/r1"),
                format!("{FLOOD}/explain?resource=pods&quota=q1"),
            ]
            .map(|path| Asked("GET", path, String::new(), 200))
            .to_vec(),
        ];
        let stop = Arc::new(AtomicBool::new(false));
        let watches = (0..64).map(|number| watch(api, number)).collect();
        let threads = requests.into_iter().flat_map(|requests| [requests.clone(), requests]);
        let threads = threads.map(|requests| {
            let (stop, caller) = (stop.clone(), Caller::new(api, "flood"));
            thread::spawn(move || {
                step_back();
                ask_until(&stop, &caller, &requests)
            })
        });
        Self { threads: threads.collect(), stop, _watches: watches }
    }

    /// Gives how its requests were answered.
    fn end(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Answers::default();
        for thread in self.threads {
            let answers = thread.join().expect("each answer is an expected one");
            assert!(answers.served > 0, "a flood that only is refused is none");
            all.add(answers);
        }
        all
    }
}

/// Sends these requests in turn, and sees to it that they are answered as they should be: a flood of errors would be none.
fn ask_until(stop: &AtomicBool, caller: &Caller, requests: &[Asked]) -> Answers {
    let mut answers = Answers::default();
    loop {
        // A released reservation is not granted again under its uid.
        let uid = format!("churn-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        for Asked(method, path, body, expected) in requests {
            if stop.load(Ordering::Relaxed) {
                return answers;
            }
            let (path, body) = (path.replace(UID, &uid), body.replace(UID, &uid));
            match caller.ask(method, &path, &body) {
                Some(REFUSED) => {
                    answers.refused += 1;
                    // There is no reservation to release.
                    if *method == "POST" {
                        break;
                    }
                }
                status => {
                    assert_eq!(status, Some(*expected), "{method} {path}");
                    answers.served += 1;
                }
            }
        }
    }
}

/// A watch that is open, and that nobody reads.
fn watch(api: &str, number: usize) -> TcpStream {
    let path = match number % 2 {
        0 => "/v1/watch?namespace=flood&from=1",
        _ => "/api/v1/namespaces/flood/resourcequotas?watch=1",
    };
    let token = token("flood");
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut stream = TcpStream::connect(api.trim_start_matches("http://")).expect("it listens");
        stream.write_all(head.as_bytes()).expect("it listens");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("it answers");
        if status.ends_with(b" 200") {
            return stream;
        }
        // The places of an earlier round are free once it is seen that it has gone.
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&status));
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reviews at an even pace, as an API server sends them.
struct Reviews {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, u64)>,
}

impl Reviews {
    fn start(api: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, caller) = (stop.clone(), Caller::new(api, "webhook"));
        let path = format!("/admit?timeout={}s", DEADLINE.as_secs());
        let thread = thread::spawn(move || {
            let (mut reviews, mut late) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                let status = caller.ask("POST", &path, &review(reviews));
                reviews += 1;
                late += u64::from(status != Some(200) || began.elapsed() > DEADLINE);
                thread::sleep(Duration::from_millis(20).saturating_sub(began.elapsed()));
            }
            (reviews, late)
        });
        Self { stop, thread }
    }

    /// Gives how many there were, and how many were not answered in time.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it asks until it is stopped")
    }
}

fn review(number: u64) -> String {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": name, "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": name, "namespace": "team", "operation": "CREATE",
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "team", "uid": name},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}]},
            },
        },
    })
    .to_string()
}

/// How often the state was held, and how often for more than 5 ms.
#[derive(Clone, Copy, Default)]
struct Holds {
    all: f64,
    long: f64,
}

impl Holds {
    fn of(daemon: &Quotad) -> Self {
        let [all, long] = daemon.samples("quota_ledger_state_lock_seconds", "0.005");
        Self { all, long }
    }

    fn add(&mut self, from: Self, to: Self) {
        self.all += to.all - from.all;
        self.long += to.long - from.long;
    }
}

/// The p99 of the others' grants.
pub fn others_p99(bench: &Bench, directory: &Path, daemon: &Quotad) -> f64 {
    let arguments = [
        format!("--token-file={}", directory.join("others.token").display()),
        "--connections=8".to_owned(),
        format!("--duration={:.0}ms", bench.seconds * 1000.0),
        format!("--warmup={:.0}ms", bench.seconds * 250.0),
        "--namespace=team".to_owned(),
        "--threads=1".to_owned(),
    ];
    load_daemon(&daemon.api, &arguments).p99
}

/// p99 of the others' grants with and without the flood in one run, and the webhook's answers that came too late.
pub fn all(bench: &Bench) -> Vec<Target> {
    let directory = bench.new_directory();
    write_tokens(directory.path());
    let daemon = Quotad::start(directory.path(), &["--auth.tokens-file=tokens.toml"]);
    let objects = furnish(bench, &daemon.api);
    let load = || others_p99(bench, directory.path(), &daemon);
    let (mut answers, mut reviews, mut late) = (Answers::default(), 0, 0);
    let mut holds = [Holds::default(); 3];
    let [without, beside_neighbour, with] = bench.rounds(|| {
        let before = Holds::of(&daemon);
        let without = load();
        let alone = Holds::of(&daemon);
        let neighbour = Neighbour::start();
        let beside_neighbour = load();
        neighbour.end();
        let beside = Holds::of(&daemon);
        let (flood, webhook) = (Flood::start(&daemon.api), Reviews::start(&daemon.api));
        let with = load();
        let (more, more_late) = webhook.end();
        answers.add(flood.end());
        reviews += more;
        late += more_late;
        holds[0].add(before, alone);
        holds[1].add(alone, beside);
        holds[2].add(beside, Holds::of(&daemon));
        [without, beside_neighbour, with]
    });
    let [held_alone, held_beside_neighbour, held] = holds;
    vec![
        // The flood asks from this machine, with threads that take turns on the processors with the daemon's, which a tenant
        // elsewhere does not have. A busy neighbour has that part of it: the quotient with it is what the daemon
        // itself lets a tenant take from others, and so the bound is on that one. The quotient with the p99 alone, which
        // stands beside it, is mostly how busy the machine is.
        Target {
            what: "p99 of grants beside a tenant at full speed / beside a busy neighbour without requests",
            value: with / beside_neighbour,
            bound: Bound::AtMost(5.0),
            unit: "",
            detail: format!(
                "{} and {} ms; {} ms alone, of which it is {:.1} times as much; 8 connections that ask for batches of {BATCH} denied items, checks, reservations, lists and explanations ({} requests, and {} that were refused with {REFUSED}), and 64 watches; {QUOTAS} quotas of {LIMITS} limits, {} objects",
                ms(with),
                ms(beside_neighbour),
                ms(without),
                with / without,
                whole(answers.served as f64),
                whole(answers.refused as f64),
                whole(objects as f64)
            ),
        },
        Target {
            what: "answers of the webhook past their deadline",
            value: late as f64,
            bound: Bound::AtMost(0.0),
            unit: "",
            detail: format!("of {}, each within {} s", whole(reviews as f64), DEADLINE.as_secs()),
        },
        Target {
            what: "holds of the state beyond 5 ms beside a tenant at full speed",
            value: held.long,
            bound: Bound::AtMost(0.0),
            unit: "",
            detail: format!(
                "of {}, the time in which another thread had the processor included; beside a busy neighbour {} of {}, alone {} of {}",
                whole(held.all),
                whole(held_beside_neighbour.long),
                whole(held_beside_neighbour.all),
                whole(held_alone.long),
                whole(held_alone.all)
            ),
        },
    ]
}
