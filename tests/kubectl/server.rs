//! A ledger in memory, served at a port of its own, and the kubectls to be found.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, LazyLock},
};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use quota_core::{
    event::{Actor, Event, GroupRecord, Observed, QuotaRecord, Reservation},
    state::State,
};
use quota_journal::{Batch, Durable, Error, Journal};
use quota_semantics::{
    Name, Period, Span, group, object::Footprint, quantity::Quantity, quota::Spec, uid::Uid,
};
use quota_testkit::exchange::exchange;
use quotad::{
    self,
    auth::Principal,
    config::Config,
    fairness::WatchLimits,
    kube::{self, Kube, Limits},
    metrics::Listener,
    routes::{Rules, router, with_state},
    server::{Bound, Options},
    writer::{self, Ledger, Watermark},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// Forgets every batch at once.
struct Nowhere(Durable);

impl Journal for Nowhere {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.0.sequence = batch.last_sequence();
        self.0.time = batch.time;
        Ok(())
    }
    fn sync(&mut self) -> Result<Durable, Error> {
        Ok(self.0)
    }
}

pub(crate) const LIMITS: Limits = Limits {
    page: 500,
    watch_streams: WatchLimits { all: 64, of_principal: 64 },
    quota_changes_bytes: 64 << 20,
};

/// A served ledger.
pub(crate) struct Server {
    ledger: Ledger,
    router: axum::Router,
    pub(crate) address: std::net::SocketAddr,
    runtime: tokio::runtime::Runtime,
    stop: CancellationToken,
    threads: Option<writer::Threads<Nowhere>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(LIMITS)
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self::new(limits, 0)
    }

    /// A server that begins when there are some entries already.
    pub(crate) fn with_history(entries: u64) -> Self {
        Self::new(LIMITS, entries)
    }

    fn new(limits: Limits, entries: u64) -> Self {
        let options = writer::Options {
            policy: quota_core::decide::Policy { adopts_quotas: true, ..Default::default() },
            queue: 64,
            max_batch_entries: 64,
        };
        let nothing = Durable::NOTHING;
        let (ledger, threads) = writer::start(
            State::default(),
            Nowhere(nothing),
            nothing,
            Arc::new(Watermark::without_sources()),
            options,
            |error| panic!("{error}"),
        )
        .unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for number in 1..=entries {
            let gone = Event::ObjectDeleted {
                uid: Uid::new(&number.to_string()).unwrap(),
                namespace: "old".into(),
            };
            let recorded =
                ledger.decide(|context| context.transaction.record(&Actor::named("test"), [gone]));
            assert_eq!(runtime.block_on(recorded).unwrap(), number);
        }
        let stop = CancellationToken::new();
        let (kube_ledger, kube_stop) = (ledger.clone(), stop.clone());
        let (router, address) = runtime.block_on(async move {
            let bound = Bound::bind(([127, 0, 0, 1], 0).into()).unwrap();
            let address = bound.address();
            let kube = Kube::start(kube_ledger, limits, kube_stop.clone());
            let rules = Rules::default().with_refusals(kube::refused);
            let router = router(with_state(kube::routes(), &kube), rules);
            let mut config = Config::default();
            // The widest lists take seconds beside other tests.
            config.limits.request_timeout = Period::from_millis(60_000);
            let options = Options::new(Listener::Api, &config);
            tokio::spawn(bound.serve(router.clone(), options, None, kube_stop));
            (router, address)
        });
        Self { ledger, router, address, runtime, stop, threads: Some(threads) }
    }

    /// Makes a decision on the ledger.
    fn decide<R: Send + 'static>(
        &self,
        decision: impl FnOnce(&mut writer::DecisionContext<'_>) -> R + Send + 'static,
    ) -> R {
        self.runtime.block_on(self.ledger.decide(decision)).unwrap()
    }

    /// A pod of the namespace is seen, which counts for these resources.
    pub(crate) fn observe(&self, namespace: &str, name: &str, resources: &[(&str, &str)]) {
        let observed = Observed {
            uid: Uid::new(name).unwrap(),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: name.into(),
            version: 0,
            footprint: footprint(resources),
            lapse: None,
            ends_reservation: false,
        };
        self.record(Event::ObjectObserved(Box::new(observed)));
    }

    /// The object of a quota that is set already is seen in the cluster.
    pub(crate) fn adopt(&self, namespace: &str, name: &str, uid: &str) {
        let observed = Observed {
            uid: Uid::new(uid).unwrap(),
            namespace: namespace.into(),
            resource: "resourcequotas".into(),
            name: name.into(),
            version: 7,
            footprint: Footprint::default(),
            lapse: None,
            ends_reservation: false,
        };
        self.record(Event::ObjectObserved(Box::new(observed)));
    }

    /// The object of a quota is gone from the cluster.
    pub(crate) fn release(&self, namespace: &str, uid: &str) {
        self.record(Event::ObjectDeleted {
            uid: Uid::new(uid).unwrap(),
            namespace: namespace.into(),
        });
    }

    /// A group over namespace `wire` is seen in the cluster.
    pub(crate) fn adopt_group(&self, name: &str) {
        let selector = r#"{"labels":{"matchLabels":{"kubernetes.io/metadata.name":"wire"}}}"#;
        self.record(Event::GroupSet(Arc::new(GroupRecord {
            name: name.into(),
            uid: Uid::new(name).unwrap(),
            created: quotad::now(),
            spec: group::Spec {
                selector: serde_json::from_str(selector).unwrap(),
                ..group::Spec::default()
            },
            metadata: r#"{"adoptedVersion":7,"labels":{"a":"b"}}"#.into(),
        })));
    }

    /// A quota of so many limits.
    pub(crate) fn set_wide(&self, namespace: &str, name: &str, limits: usize) {
        let one = || Quantity::from_units(1);
        let hard = (0..limits).map(|number| (format!("example.com/r{number}").into(), one()));
        let spec = Spec { hard: hard.collect(), ..Spec::default() };
        self.record(Event::QuotaSet(Arc::new(QuotaRecord {
            namespace: namespace.into(),
            name: name.into(),
            uid: Uid::new(name).unwrap(),
            created: quotad::now(),
            spec,
            metadata: "{}".into(),
        })));
    }

    /// Something is promised to a pod of the namespace.
    pub(crate) fn reserve(&self, namespace: &str, name: &str, resources: &[(&str, &str)]) {
        let reservation = Reservation {
            uid: Uid::new(name).unwrap(),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: name.into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: footprint(resources).into(),
            created: quotad::now(),
            expiration: quotad::now().plus(Span::from_seconds(3600)),
            after_version: 0,
            requested: None,
        };
        self.record(Event::ReservationGranted(Arc::new(reservation)));
    }

    /// A pod is gone.
    pub(crate) fn delete(&self, namespace: &str, name: &str) {
        self.record(Event::ObjectDeleted {
            uid: Uid::new(name).unwrap(),
            namespace: namespace.into(),
        });
    }

    pub(crate) fn record(&self, event: Event) {
        self.decide(move |context| context.transaction.record(&Actor::named("test"), [event]));
    }

    /// A request without kubectl: status, headers and body.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String, String) {
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        let headers = [&[("connection", "close")], headers].concat();
        let answer = exchange(&mut stream, (method, path), &headers, body).unwrap();
        (answer.status, answer.head, answer.body)
    }

    /// What somebody with few rights gets.
    pub(crate) fn get_as(&self, who: &Principal, path: &str, accept: &str) -> Value {
        let request = Request::get(path).header("accept", accept);
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(who.clone());
        let answer = self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            response.into_body().collect().await.unwrap().to_bytes()
        });
        serde_json::from_slice(&answer).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        drop(self.threads.take());
    }
}

fn footprint(resources: &[(&str, &str)]) -> Footprint {
    let entry =
        |(name, amount): &(&str, &str)| (Name::from(*name), amount.parse::<Quantity>().unwrap());
    Footprint { resources: resources.iter().map(entry).collect(), ..Footprint::default() }
}

/// One kubectl, with its own cache, talking to one server.
pub(crate) struct Kubectl {
    program: PathBuf,
    server: String,
    pub(crate) home: TempDir,
    /// The minor version.
    pub(crate) minor: u32,
}

/// What a kubectl said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Kubectl {
    /// The oldest and the newest kubectl to be found, for one server; with `QUOTAD_KUBECTLS=all`, one of each version.
    pub(crate) fn all(server: &Server) -> Vec<Self> {
        Self::all_at(&format!("http://{}", server.address))
    }

    /// The same for any server.
    pub(crate) fn all_at(url: &str) -> Vec<Self> {
        static BY_VERSION: LazyLock<BTreeMap<u32, PathBuf>> = LazyLock::new(programs);
        let all = std::env::var("QUOTAD_KUBECTLS").is_ok_and(|setting| setting == "all");
        let ends = [BY_VERSION.keys().next(), BY_VERSION.keys().next_back()];
        let chosen = BY_VERSION.iter().filter(|(minor, _)| all || ends.contains(&Some(*minor)));
        chosen.map(|(minor, program)| Self::new(*minor, program, url)).collect()
    }

    fn new(minor: u32, program: &Path, url: &str) -> Self {
        Self {
            program: program.to_owned(),
            server: url.to_owned(),
            minor,
            home: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-s", &self.server, "--cache-dir"])
            .arg(self.home.path().join("cache"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments).output().unwrap().into()
    }

    /// What it prints; it has to succeed.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert!(said.ok, "1.{}: kubectl {arguments:?}: {}{}", self.minor, said.out, said.err);
        said.out
    }

    /// What it says when it fails; it has to fail.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert!(!said.ok, "1.{}: kubectl {arguments:?}: {}{}", self.minor, said.out, said.err);
        said.err
    }

    /// Writes a file into its home; answers its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// One kubectl of each minor version, of those on the path, those beside them with a version in their name, and those
/// that `KUBECTLS` lists.
fn programs() -> BTreeMap<u32, PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("KUBECTLS");
    let named = named.iter().flat_map(std::env::split_paths);
    let on_path = std::env::split_paths(&path).flat_map(|directory| {
        let plain = std::fs::canonicalize(directory.join("kubectl")).ok();
        let beside = plain.as_deref().and_then(Path::parent);
        let beside = beside.and_then(|directory| std::fs::read_dir(directory).ok());
        let beside = beside.into_iter().flatten().flatten();
        let versioned = beside.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("kubectl.1."))
        });
        versioned.chain(plain).collect::<Vec<_>>()
    });
    let programs: BTreeSet<_> = named.chain(on_path).collect();
    assert!(
        !programs.is_empty(),
        "there is no kubectl on the path: install one (Debian: kubernetes-client)"
    );
    let by_version =
        programs.into_iter().filter_map(|program| Some((minor_version(&program)?, program)));
    let by_version: BTreeMap<_, _> = by_version.collect();
    assert!(!by_version.is_empty(), "no kubectl can be run");
    by_version
}

fn minor_version(program: &Path) -> Option<u32> {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches('+').parse().ok()
}
