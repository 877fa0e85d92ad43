//! What is measured of whom.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use quota_load::{Plan, Talk};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    postgres::{self, Cluster, Statements},
    redis::{self, Scripts},
    support::{
        self,
        disk::fdatasync_us,
        machine,
        measured::{Measured, quotactl_bench},
        process::{self, Quotad},
    },
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
    pub const ALL: [Self; 5] = [
        Self::Floor,
        Self::DurableFloor,
        Self::Quotad,
        Self::Redis,
        Self::Postgres,
    ];

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
            Self::Floor | Self::DurableFloor | Self::Quotad | Self::Redis => true,
            Self::Postgres => case.batch == 1,
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    pub batch: usize,
    pub namespaces: usize,
    pub connections: usize,
}

pub const HOT: usize = 1;
pub const SPREAD: usize = 1000;
pub const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];

/// Batches: so many reservations of a request, on so many connections.
pub const BATCH: usize = 100;
pub const BATCH_CONNECTIONS: usize = 16;

impl Case {
    pub fn all() -> Vec<Self> {
        let single = [HOT, SPREAD].into_iter().flat_map(|namespaces| {
            CONNECTIONS.map(|connections| Self::single(namespaces, connections))
        });
        single.chain([HOT, SPREAD].map(Self::batch)).collect()
    }

    pub const fn single(namespaces: usize, connections: usize) -> Self {
        Self {
            batch: 1,
            namespaces,
            connections,
        }
    }

    pub const fn batch(namespaces: usize) -> Self {
        Self {
            batch: BATCH,
            namespaces,
            connections: BATCH_CONNECTIONS,
        }
    }

    pub fn name(self) -> String {
        let spread = if self.namespaces == 1 {
            "hot".to_owned()
        } else {
            format!("{} namespaces", self.namespaces)
        };
        match self.batch {
            1 => format!("{spread}, {} connections", self.connections),
            batch => format!(
                "{spread}, {} connections, batches of {batch}",
                self.connections
            ),
        }
    }
}

/// The programs that are not there.
pub fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if machine::said("redis-server", &["--version"]).is_none() {
        missing.push("redis-server");
    }
    if postgres::programs().is_none() {
        missing.push("PostgreSQL server");
    }
    missing
}

/// Everything that a measurement needs.
pub struct Bench {
    pub rounds: usize,
    pub seconds: f64,
    cluster: Cluster,
    // Last, so that it goes last.
    directory: TempDir,
}

/// Backends are slow to start; all systems get the same time.
const WARMUP: Duration = Duration::from_secs(2);

/// 256 backends of PostgreSQL are slower still.
const WARMUP_POSTGRES: Duration = Duration::from_secs(4);

impl Bench {
    pub fn new() -> Self {
        let directory = support::directory();
        let programs = postgres::programs().expect("it was looked for");
        Self {
            rounds: support::setting("BENCH_ROUNDS", 3),
            seconds: support::setting("BENCH_SECONDS", 4.0),
            cluster: Cluster::create(programs, directory.path()),
            directory,
        }
    }

    /// Median time of one fdatasync of 4 KiB, in microseconds.
    pub fn disk(&self) -> f64 {
        fdatasync_us(self.directory.path(), Duration::from_secs(1))
    }

    /// Starts a system anew, and measures a case.
    pub fn measure(&self, system: System, case: Case) -> Measured {
        let directory = tempfile::tempdir_in(self.directory.path()).expect("there is room");
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() << 20);
        let Case {
            batch,
            namespaces,
            connections,
        } = case;
        match system {
            System::Floor => {
                let (_server, url) = process::floor(None);
                quotactl_bench(&url, &self.arguments(case))
            }
            System::DurableFloor => {
                let (_server, url) = process::floor(Some(directory.path()));
                quotactl_bench(&url, &self.arguments(case))
            }
            System::Quotad => {
                let server = Quotad::start(directory.path(), &[]);
                quotactl_bench(&server.api, &self.arguments(case))
            }
            System::Redis => {
                let (_server, address) = redis::start(directory.path());
                let scripts = Scripts::load(address, namespaces, connections, batch, seed);
                let scripts = scripts.expect("Redis does what it is told");
                self.load(address, connections, WARMUP, |number| scripts.talk(number))
            }
            System::Postgres => {
                let (_server, address) = self.cluster.start(directory.path(), namespaces);
                let statements = Arc::new(Statements {
                    namespaces,
                    connections,
                    seed,
                });
                let talk = |number| statements.talk(number);
                self.load(address, connections, WARMUP_POSTGRES, talk)
            }
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

    fn load<T: Talk + 'static>(
        &self,
        address: std::net::SocketAddr,
        connections: usize,
        warmup: Duration,
        talk: impl Fn(usize) -> T + Sync,
    ) -> Measured {
        let plan = Plan {
            address,
            connections,
            threads: 1,
            warmup,
            duration: Duration::from_secs_f64(self.seconds),
            rate: None,
            patience: Duration::from_secs(30),
        };
        let tally = quota_load::run(&plan, &CancellationToken::new(), talk);
        Measured::of(&tally.expect("it accepts connections"), self.seconds)
    }
}
