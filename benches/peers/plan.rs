//! What is measured of whom.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quota_bench::load::{Connect, Plan, Talk};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    postgres::{self, Cluster, Statements},
    redis::{self, Scripts},
    reviews::{self, Reviews},
    support::{
        self,
        disk::fdatasync_us,
        machine,
        measured::{Measured, load_daemon},
        process::{self, Quotad},
    },
    tls::Certificates,
};

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    Floor,
    DurableFloor,
    Quotad,
    Redis,
    Postgres,
}

impl System {
    pub const ALL: [Self; 5] =
        [Self::Floor, Self::DurableFloor, Self::Quotad, Self::Redis, Self::Postgres];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "HTTP floor",
            Self::DurableFloor => "durable floor",
            Self::Quotad => "quotad",
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// Whether a case is measured of it.
    pub fn does(self, case: Case) -> bool {
        match self {
            Self::Floor | Self::DurableFloor | Self::Quotad => true,
            Self::Redis => case.asked == Asked::Reserve,
            Self::Postgres => case.asked == Asked::Reserve && case.batch == 1,
        }
    }
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// To reserve and to release.
    Reserve,
    /// To admit a pod.
    Admit,
    /// The same by TLS.
    AdmitByTls,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub asked: Asked,
    pub batch: usize,
    pub namespaces: usize,
    pub connections: usize,
}

pub const HOT: usize = 1;
pub const SPREAD: usize = 1000;
pub const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];

/// Reviews: on so many connections.
const ADMIT_CONNECTIONS: [usize; 3] = [16, 64, 256];

/// Batches: so many reservations of a request, on so many connections.
pub const BATCH: usize = 100;
pub const BATCH_CONNECTIONS: usize = 16;

impl Case {
    pub fn all() -> Vec<Self> {
        let single = [HOT, SPREAD].into_iter().flat_map(|namespaces| {
            CONNECTIONS.map(|connections| Self::single(namespaces, connections))
        });
        let admitted = [Asked::Admit, Asked::AdmitByTls].into_iter();
        let admitted = admitted.flat_map(|asked| {
            ADMIT_CONNECTIONS.map(|connections| Self { asked, ..Self::single(SPREAD, connections) })
        });
        let batches = [HOT, SPREAD].map(Self::batch);
        single.chain(batches).chain(admitted).collect()
    }

    /// Those whose names hold this text.
    pub fn chosen(text: &str) -> Vec<Self> {
        let mut cases = Self::all();
        cases.retain(|case| case.name().contains(text));
        cases
    }

    pub const fn single(namespaces: usize, connections: usize) -> Self {
        Self { asked: Asked::Reserve, batch: 1, namespaces, connections }
    }

    pub const fn batch(namespaces: usize) -> Self {
        Self { asked: Asked::Reserve, batch: BATCH, namespaces, connections: BATCH_CONNECTIONS }
    }

    pub fn name(self) -> String {
        let spread = if self.namespaces == 1 {
            "hot".to_owned()
        } else {
            format!("{} namespaces", self.namespaces)
        };
        let what = match self.asked {
            Asked::Reserve => "",
            Asked::Admit => "admit, ",
            Asked::AdmitByTls => "admit by TLS, ",
        };
        let name = format!("{what}{spread}, {} connections", self.connections);
        match self.batch {
            1 => name,
            batch => format!("{name}, batches of {batch}"),
        }
    }
}

/// The programs that these cases need, and that are not there.
pub fn missing(cases: &[Case]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let needs = |system: System| cases.iter().any(|case| system.does(*case));
    if needs(System::Redis) && machine::said("redis-server", &["--version"]).is_none() {
        missing.push("redis-server");
    }
    if needs(System::Postgres) && postgres::programs().is_none() {
        missing.push("PostgreSQL server");
    }
    missing
}

/// Everything that a measurement needs.
pub struct Bench {
    pub rounds: usize,
    pub seconds: f64,
    pub cases: Vec<Case>,
    /// None if no case needs it.
    cluster: Option<Cluster>,
    // Last, so that it goes last.
    directory: TempDir,
}

/// Backends are slow to start; all systems get the same time.
const WARMUP: Duration = Duration::from_secs(2);

/// 256 backends of PostgreSQL are slower still.
const WARMUP_POSTGRES: Duration = Duration::from_secs(4);

impl Bench {
    pub fn new(cases: Vec<Case>) -> Self {
        let directory = support::directory();
        let needs_cluster = cases.iter().any(|case| System::Postgres.does(*case));
        let cluster = needs_cluster.then(|| {
            let programs = postgres::programs().expect("it was looked for");
            Cluster::create(programs, directory.path())
        });
        Self {
            cases,
            rounds: support::setting("BENCH_ROUNDS", 3),
            seconds: support::setting("BENCH_SECONDS", 4.0),
            cluster,
            directory,
        }
    }

    /// Whether all cases are measured.
    pub fn is_whole(&self) -> bool {
        self.cases == Case::all()
    }

    /// Median time of one fdatasync of 4 KiB, in microseconds.
    pub fn disk(&self) -> f64 {
        fdatasync_us(self.directory.path(), Duration::from_secs(1))
    }

    /// Starts a system anew, and measures a case.
    pub fn measure(&self, system: System, case: Case) -> Measured {
        let directory = tempfile::tempdir_in(self.directory.path()).expect("there is room");
        let seed =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() << 20);
        let Case { asked, batch, namespaces, connections } = case;
        if asked != Asked::Reserve {
            return self.admit(system, case, directory.path(), seed);
        }
        match system {
            System::Floor => {
                let (_server, address) = process::floor(None, None);
                load_daemon(&format!("http://{address}"), &self.arguments(case))
            }
            System::DurableFloor => {
                let (_server, address) = process::floor(Some(directory.path()), None);
                load_daemon(&format!("http://{address}"), &self.arguments(case))
            }
            System::Quotad => {
                let server = Quotad::start(directory.path(), &[]);
                load_daemon(&server.api, &self.arguments(case))
            }
            System::Redis => {
                let (_server, address) = redis::start(directory.path());
                let scripts = Scripts::load(address, namespaces, connections, batch, seed);
                let scripts = scripts.expect("Redis does what it is told");
                self.load(address, connections, WARMUP, |number| scripts.talk(number))
            }
            System::Postgres => {
                let cluster = self.cluster.as_ref().expect("a case needs it");
                let (_server, address) = cluster.start(directory.path(), namespaces);
                let statements = Arc::new(Statements { namespaces, connections, seed });
                let talk = |number| statements.talk(number);
                self.load(address, connections, WARMUP_POSTGRES, talk)
            }
        }
    }

    /// Measures reviews.
    fn admit(&self, system: System, case: Case, directory: &Path, seed: u64) -> Measured {
        let certificates = (case.asked == Asked::AdmitByTls).then(|| Certificates::make(directory));
        let certificates = certificates.as_ref();
        if system != System::Quotad {
            let log = (system == System::DurableFloor).then_some(directory);
            let (_server, address) = process::floor(log, certificates.map(Certificates::directory));
            return self.review(address, certificates, case, seed);
        }
        let by_tls = certificates.map(|files| {
            let (certificate, key) = (files.certificate(), files.key());
            [
                "--admission.listen=127.0.0.1:0".to_owned(),
                format!("--tls.cert={}", certificate.display()),
                format!("--tls.key={}", key.display()),
            ]
        });
        let arguments: Vec<_> = by_tls.iter().flatten().map(String::as_str).collect();
        let server = Quotad::start(directory, &arguments);
        for number in 0..case.namespaces {
            limit(&server.api, &reviews::namespace_of(number));
        }
        let plain = || server.api.trim_start_matches("http://").parse();
        let address = server.webhook.map_or_else(plain, Ok);
        self.review(address.expect("an address"), certificates, case, seed)
    }

    fn review(
        &self,
        address: SocketAddr,
        certificates: Option<&Certificates>,
        case: Case,
        seed: u64,
    ) -> Measured {
        let host = address.to_string();
        let reviews = Reviews::new(&host, case.namespaces, case.connections, seed);
        let talk = |number| reviews.talk(number);
        match certificates {
            None => self.load(address, case.connections, WARMUP, talk),
            Some(files) => self.load(files.connector(address), case.connections, WARMUP, talk),
        }
    }

    fn arguments(&self, case: Case) -> Vec<String> {
        let milliseconds = |seconds: f64| format!("{:.0}ms", seconds * 1000.0);
        [
            ("--connections", case.connections.to_string()),
            ("--namespaces", case.namespaces.to_string()),
            ("--batch", case.batch.to_string()),
            ("--duration", milliseconds(self.seconds)),
            ("--warmup", milliseconds(WARMUP.as_secs_f64())),
            ("--threads", "1".to_owned()),
        ]
        .map(|(flag, value)| format!("{flag}={value}"))
        .to_vec()
    }

    fn load<C: Connect, T: Talk + 'static>(
        &self,
        server: C,
        connections: usize,
        warmup: Duration,
        talk: impl Fn(usize) -> T + Sync,
    ) -> Measured {
        let plan = Plan {
            server,
            connections,
            threads: 1,
            warmup,
            duration: Duration::from_secs_f64(self.seconds),
            rate: None,
            patience: Duration::from_secs(30),
        };
        let tally = quota_bench::load::run(&plan, &CancellationToken::new(), talk);
        Measured::of(&tally.expect("it accepts connections"), self.seconds)
    }
}

/// Sets real limits that are looked at, and never reached.
fn limit(api: &str, namespace: &str) {
    let url = format!("{api}/v1/namespaces/{namespace}/quotas/bench");
    let manifest = serde_json::json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bench"},
        "spec": {"hard": {"pods": "1P", "requests.cpu": "1P", "requests.memory": "1E"}},
    });
    let set = ureq::put(&url).send_json(manifest).expect("the daemon answers");
    assert_eq!(set.status(), 201, "the quota is set");
}
