//! `quotad demo`: the daemon with a made-up past, for a first look.
//!
//! Nothing is read or changed outside a temporary directory, and only this machine reaches the daemon.

use std::{
    collections::{BTreeMap, VecDeque},
    io::Write as _,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use quota_core::{
    decide::{Basis, Consumed, Policy, Refusal, Request, Requester, Sighting},
    event::{Actor, Observed},
    source::{self, Observation},
    transaction::WriteTransaction,
};
use quota_journal::{FileJournal, Throttle};
use quota_ledger::group_commit::GroupCommit;
use quota_semantics::{Name, Span, Timestamp, object::GroupResource, yaml};
use quota_service::{config::Period, exit::Exit, program};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    config::Config,
    denials,
    exit::OrExit as _,
    intake::payload::Reader,
    recovery::{Recovered, recover},
};

/// Entries of a batch.
const BATCH_ENTRIES: usize = 512;

/// Connections at a time.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// Runs the demo, and returns the exit code.
pub(crate) fn main() -> Exit {
    let directory = match TempDir::with_prefix("quotad-demo-") {
        Ok(directory) => directory,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "no temporary directory: {error}");
            return Exit::Failure;
        }
    };
    let config = config(directory.path());
    program::run_with(super::telemetry, config, "", |config| {
        let last = record(&config).or_exit(Exit::Failure)?;
        super::run(config, |api| introduce(api, last))
    })
}

/// The defaults, on loopback, with a free port if another program has that of the API.
fn config(directory: &Path) -> Config {
    let mut config = Config { data_dir: directory.join("data"), ..Config::default() };
    if TcpListener::bind(config.listen).is_err() {
        config.listen.set_port(0);
    }
    config.admin.listen.set_port(0);
    // Few come, and the usual number needs more file descriptors than most shells give.
    config.limits.connections = CONNECTIONS;
    // Whoever tries it may change its quotas and groups.
    config.quotas.adopt = false;
    config.shutdown.drain = Period::from_secs(0);
    config.log.level = "warn".to_owned();
    config
}

/// Writes the ledger of the past, and the denials. Returns the last entry.
fn record(config: &Config) -> anyhow::Result<u64> {
    let mut past = Past::until(super::now(), World::load()?);
    let Recovered { mut state, mut journal, .. } = recover(config, Throttle::default())?;
    let mut commit = GroupCommit::<()>::new(BATCH_ENTRIES);
    let mut denied = Vec::new();
    while let Some(time) = past.next() {
        let consumed = Consumed { watermark: time, publisher: None };
        commit.record_due(&mut state, time, consumed, past.policy());
        let refused = past.play(&mut commit.transaction(&mut state, time));
        denied.extend(refused.and_then(|refused| {
            let (actor, request) = (&refused.actor, &refused.request);
            denials::denial(actor, request, &refused.refusal, state.head(), time)
        }));
        if commit.is_full() {
            store(&mut commit, &mut journal)?;
        }
    }
    store(&mut commit, &mut journal)?;
    let file = config.data_dir.join("denials.ndjson");
    denials::store(&file, denials::Bounds::of(config), denied)?;
    Ok(journal.close()?.sequence)
}

fn store(commit: &mut GroupCommit<()>, journal: &mut FileJournal) -> anyhow::Result<()> {
    if let Some(closed) = commit.close() {
        closed.append(journal)?.sync(journal)?;
        commit.synced();
    }
    Ok(())
}

/// Says where the page is, and what can be tried.
fn introduce(api: SocketAddr, last: u64) {
    let quotactl = format!("quotactl --server http://{api}");
    let text = format!(
        "A company of eight namespaces and its last eight days, in {last} entries. All of it is made up.

  http://{api}/ui

In a second terminal (in a clone: alias quotactl='cargo run -q --release --bin quotactl --'):

  {quotactl} top
  {quotactl} -n shop-checkout describe namespace
  {quotactl} -n analytics explain requests.memory
  {quotactl} report --last 7d --by label:team --resource requests.cpu
  {quotactl} suggest -A --since 7d

Ctrl-C ends it. Its ledger was in a temporary directory then."
    );
    // The reader of standard output may be gone.
    let _ = writeln!(std::io::stdout(), "{text}");
}

// The made-up past: what was to happen when, and its decisions. Pure: the same past for the same end.

/// How long the past is.
const DAYS: u64 = 8;

/// The seconds between two looks of a controller.
const EVERY: u64 = 20 * 60;

/// The most attempts of a job that is denied.
const ATTEMPTS: u8 = 3;

/// How long a reservation is held whose object does not come.
const HELD: Span = seconds(300);

/// How long those are held that are pending at the end.
const PENDING: Span = seconds(6 * 3600);

/// Something that is to happen.
enum Act {
    /// The bridge reports an object of the world.
    Report(usize),
    /// The controller of a workload looks whether it has the pods that it needs.
    Look(usize),
    /// A pod is asked for.
    Ask(usize, u8),
    /// A pod is asked for whose object has not come when the story ends.
    Hold(usize),
    /// The bridge reports a pod.
    See(usize, Box<Value>),
    /// The bridge reports the end of a pod.
    End(Box<Value>),
}

/// A denied request.
struct Refused {
    actor: Arc<Actor>,
    request: Request,
    refusal: Refusal,
}

/// The story, up to its end.
struct Past {
    end: Timestamp,
    world: World,
    policy: Policy,
    reader: Arc<Reader>,
    agenda: BTreeMap<(Timestamp, u64), Act>,
    acts: u64,
    random: Random,
    /// The pods of each workload, the oldest first.
    pods: Vec<VecDeque<Value>>,
    version: u64,
    bridge: Arc<Actor>,
}

impl Past {
    /// The past of this world that ends at this time.
    fn until(end: Timestamp, world: World) -> Self {
        let mut past = Self {
            end,
            policy: Policy { max_ttl: PENDING, ..Policy::default() },
            reader: Arc::new(Reader::new(&BTreeMap::new(), true)),
            agenda: BTreeMap::new(),
            acts: 0,
            random: Random(42),
            pods: world.workloads.iter().map(|_| VecDeque::new()).collect(),
            world,
            version: 0,
            bridge: Actor::named("bridge"),
        };
        let beginning = end.minus(seconds(DAYS * 24 * 3600));
        for number in 0..past.world.objects.len() {
            let time = match past.world.hours_ago(number) {
                None => beginning,
                Some(hours) => end.minus(seconds(hours * 3600)),
            };
            let created = beginning.whole_seconds().to_string();
            past.world.objects[number]["metadata"]["creationTimestamp"] = json!(created);
            past.plan(time, Act::Report(number));
        }
        for workload in 0..past.pods.len() {
            let after = past.random.seconds(60, 600);
            past.plan(beginning.plus(after), Act::Look(workload));
        }
        for (before, workload) in [(200, 0), (140, 0), (80, 7)] {
            past.plan(end.minus(seconds(before)), Act::Hold(workload));
        }
        past
    }

    /// The policy of its decisions.
    const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The time of the next act.
    fn next(&self) -> Option<Timestamp> {
        let (time, _) = *self.agenda.keys().next()?;
        (time < self.end).then_some(time)
    }

    /// Plays the next act. Returns the request that it denies.
    fn play(&mut self, transaction: &mut WriteTransaction<'_>) -> Option<Refused> {
        let (_, act) = self.agenda.pop_first()?;
        let now = transaction.now();
        match act {
            Act::Report(number) => {
                let object = self.world.objects[number].clone();
                self.report(transaction, "MODIFIED", &object);
            }
            Act::Look(workload) => self.look(workload, now),
            Act::Ask(workload, attempts) => return self.ask(transaction, workload, attempts),
            Act::Hold(workload) => {
                let pod = self.pod(workload);
                return self.reserve(transaction, workload, &pod, PENDING).err();
            }
            Act::See(workload, pod) => {
                self.report(transaction, "ADDED", &pod);
                if let Pattern::Jobs(_, length) = self.world.workloads[workload].pattern {
                    let length = self.random.seconds(length * 30, length * 90);
                    self.plan(now.plus(length), Act::End(pod));
                }
            }
            Act::End(pod) => self.report(transaction, "DELETED", &pod),
        }
        None
    }

    fn plan(&mut self, time: Timestamp, act: Act) {
        self.acts += 1;
        self.agenda.insert((time, self.acts), act);
    }

    /// Plans what a workload does until its controller looks again.
    fn look(&mut self, workload: usize, now: Timestamp) {
        let before = self.end.since(now).nanoseconds() / seconds(60).nanoseconds();
        let busy = busy(before);
        match self.world.workloads[workload].pattern {
            Pattern::Replicas(night, day) => {
                let wanted = night + (day - night) * busy / 100;
                let wanted = usize::try_from(wanted).unwrap_or(0);
                for _ in self.pods[workload].len()..wanted {
                    let after = self.random.seconds(1, 240);
                    self.plan(now.plus(after), Act::Ask(workload, ATTEMPTS));
                }
                while self.pods[workload].len() > wanted {
                    let Some(pod) = self.pods[workload].pop_front() else {
                        break;
                    };
                    let after = self.random.seconds(1, 240);
                    self.plan(now.plus(after), Act::End(Box::new(pod)));
                }
            }
            Pattern::Jobs(per_hour, _) => {
                let thousandths = per_hour * busy * EVERY / 360;
                let begun =
                    (self.random.below(2 * thousandths + 1) + self.random.below(1000)) / 1000;
                for _ in 0..begun {
                    let after = self.random.seconds(1, EVERY);
                    self.plan(now.plus(after), Act::Ask(workload, 1));
                }
            }
        }
        self.plan(now.plus(seconds(EVERY)), Act::Look(workload));
    }

    /// Asks for a pod, and plans its coming, or another attempt.
    fn ask(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        workload: usize,
        attempt: u8,
    ) -> Option<Refused> {
        let now = transaction.now();
        let pod = self.pod(workload);
        if let Err(refused) = self.reserve(transaction, workload, &pod, HELD) {
            if attempt < ATTEMPTS {
                let after = self.random.seconds(300, 900);
                self.plan(now.plus(after), Act::Ask(workload, attempt + 1));
            }
            return Some(refused);
        }
        // One in forty does not come, and its reservation expires.
        if self.random.below(40) > 0 {
            let after = self.random.seconds(2, 30);
            if let Pattern::Replicas(..) = self.world.workloads[workload].pattern {
                self.pods[workload].push_back(pod.clone());
            }
            self.plan(now.plus(after), Act::See(workload, Box::new(pod)));
        }
        None
    }

    /// Reserves the amounts of a pod.
    #[expect(clippy::result_large_err, reason = "a refusal is recorded as it is")]
    fn reserve(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        workload: usize,
        pod: &Value,
        ttl: Span,
    ) -> Result<(), Refused> {
        let controller = match self.world.workloads[workload].pattern {
            Pattern::Replicas(..) => "replicaset-controller",
            Pattern::Jobs(..) => "job-controller",
        };
        let actor = Arc::new(Actor {
            principal: "webhook".into(),
            user: Some(format!("system:serviceaccount:kube-system:{controller}").into()),
            ..Actor::default()
        });
        let now = transaction.now();
        let Some(Sighting::Alive { object, .. }) = self.sighting("ADDED", pod, now) else {
            return Ok(());
        };
        let request = request(*object, ttl);
        let requester = Requester::holder(actor.principal.clone());
        match transaction.reserve(&actor, &requester, &request, &self.policy) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(Refused { actor, request, refusal }),
        }
    }

    /// Records a report of the bridge.
    fn report(&mut self, transaction: &mut WriteTransaction<'_>, change: &str, object: &Value) {
        let sighting = self.sighting(change, object, transaction.now());
        let items = sighting.map(Observation::Sighting).into_iter().collect();
        source::record(transaction, &self.bridge, items, 0, None);
    }

    /// What an event says, read as events are read that are sent.
    fn sighting(&mut self, change: &str, object: &Value, now: Timestamp) -> Option<Sighting> {
        self.version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let event = json!({"type": change, "object": object}).to_string();
        let read = self.reader.read(Bytes::from(event), now).next()?.ok()?;
        match read.observation {
            Some(Observation::Sighting(sighting)) => Some(sighting),
            _ => None,
        }
    }

    /// A new pod of a workload.
    fn pod(&mut self, number: usize) -> Value {
        let workload = &self.world.workloads[number];
        let random = self.random.below(1 << 20);
        let name = match workload.pattern {
            Pattern::Replicas(..) => format!("{}-6c8f{number:05x}-{random:05x}", workload.name),
            Pattern::Jobs(..) => format!("{}-{random:05x}", workload.name),
        };
        workload.pod(&name, &self.random.uid())
    }
}

fn request(pod: Observed, ttl: Span) -> Request {
    Request {
        uid: pod.uid,
        namespace: pod.namespace,
        resource: GroupResource::new("", "pods"),
        name: pod.name,
        api_version: "v1".into(),
        kind: "Pod".into(),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: Arc::new(pod.footprint),
        before: None,
        object: None,
        ttl: Some(ttl),
    }
}

const fn seconds(seconds: u64) -> Span {
    Span::from_seconds(0_i64.saturating_add_unsigned(seconds))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    const fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    const fn seconds(&mut self, least: u64, most: u64) -> Span {
        seconds(least + self.below(most - least))
    }

    fn uid(&mut self) -> String {
        let both = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        uuid::Builder::from_random_bytes(both.to_be_bytes()).into_uuid().to_string()
    }
}

// The made-up company: what it has, and what creates its pods.

/// What `world.yaml` says.
struct World {
    /// The objects, in order.
    objects: Vec<Value>,
    workloads: Vec<Workload>,
}

/// What creates pods.
struct Workload {
    namespace: String,
    name: String,
    pattern: Pattern,
    spec: Value,
}

/// How many pods a workload has.
#[derive(Clone, Copy)]
enum Pattern {
    /// Replicas at night, and in the busiest hour.
    Replicas(u64, u64),
    /// Jobs that begin in the busiest hour, and the minutes that each takes.
    Jobs(u64, u64),
}

/// How busy each hour before the end of the past is, in percent: it ends in an afternoon.
const BUSY: [u64; 24] =
    [100, 100, 95, 90, 85, 75, 60, 40, 25, 10, 5, 0, 0, 0, 0, 5, 10, 20, 35, 50, 65, 80, 90, 100];

/// How busy the company is so many minutes before the end, in percent: two of the days are a weekend.
fn busy(minutes_before: i64) -> u64 {
    let hours = usize::try_from(minutes_before / 60).unwrap_or(0);
    let busy = BUSY[hours % BUSY.len()];
    match hours / BUSY.len() {
        3 | 4 => busy / 4,
        _ => busy,
    }
}

impl World {
    fn load() -> Result<Self, yaml::Error> {
        let mut objects = yaml::objects(include_str!("world.yaml"))?;
        for object in &mut objects {
            let metadata = &object["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or("all").to_lowercase();
            let (kind, namespace) = (text(&object["kind"]), text(&metadata["namespace"]));
            object["metadata"]["uid"] =
                json!(format!("{kind}-{namespace}-{}", text(&metadata["name"])));
        }
        let workloads = objects.iter().filter_map(Workload::of).collect();
        Ok(Self { objects, workloads })
    }

    /// Before how many hours an object was changed to what is here; none: it is so from the beginning.
    fn hours_ago(&self, object: usize) -> Option<u64> {
        let annotations = &self.objects[object]["metadata"]["annotations"];
        annotations["hours-ago"].as_str()?.parse().ok()
    }
}

impl Workload {
    /// The workload that an object is.
    fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let numbers = |key: &str| {
            let text = metadata["annotations"][key].as_str()?;
            let (first, second) = text.split_once(' ')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let replicas = numbers("replicas").map(|(night, day)| Pattern::Replicas(night, day));
        let jobs = || numbers("jobs").map(|(count, minutes)| Pattern::Jobs(count, minutes));
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            name: metadata["name"].as_str()?.to_owned(),
            pattern: replicas.or_else(jobs)?,
            spec: object["spec"]["template"]["spec"].clone(),
        })
    }

    /// One of its pods.
    fn pod(&self, name: &str, uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": self.spec,
            "metadata": {"namespace": self.namespace, "name": name, "uid": uid},
        })
    }
}
