//! PostgreSQL: one prepared statement for each reservation and each release, each a transaction of its own.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use quota_bench::load::{
    Answer, Kind, Talk,
    render::{Random, UidText, uid},
};

use super::{
    slots,
    support::process::{self, Process},
};

const RESERVE: &str = "WITH q AS (UPDATE quota SET used_pods = used_pods + 1, used_cpu = used_cpu + 100, \
    used_memory = used_memory + 134217728 WHERE namespace = $1 AND used_pods + 1 <= hard_pods \
    AND used_cpu + 100 <= hard_cpu AND used_memory + 134217728 <= hard_memory RETURNING namespace) \
    INSERT INTO reservation (uid, namespace, pods, cpu, memory, expires) \
    SELECT $2, namespace, 1, 100, 134217728, now() + interval '30 seconds' FROM q";

const RELEASE: &str = "WITH r AS (DELETE FROM reservation WHERE uid = $1 RETURNING namespace, pods, cpu, memory) \
    UPDATE quota SET used_pods = used_pods - r.pods, used_cpu = used_cpu - r.cpu, \
    used_memory = used_memory - r.memory FROM r WHERE quota.namespace = r.namespace";

const TABLES: &str = "CREATE TABLE quota (namespace int PRIMARY KEY, used_pods bigint NOT NULL DEFAULT 0, \
    used_cpu bigint NOT NULL DEFAULT 0, used_memory bigint NOT NULL DEFAULT 0, hard_pods bigint NOT NULL, \
    hard_cpu bigint NOT NULL, hard_memory bigint NOT NULL) WITH (fillfactor = 50); \
    CREATE TABLE reservation (uid uuid PRIMARY KEY, namespace int NOT NULL, pods bigint NOT NULL, \
    cpu bigint NOT NULL, memory bigint NOT NULL, expires timestamptz NOT NULL);";

/// The programs of the newest version that is installed.
pub fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|programs| programs.join("postgres").exists())
        .collect();
    found.sort();
    found.pop()
}

/// A cluster that servers are started from: each gets a copy.
pub struct Cluster {
    programs: PathBuf,
    template: PathBuf,
}

impl Cluster {
    /// Makes one in this directory.
    pub fn create(programs: PathBuf, directory: &Path) -> Self {
        let template = directory.join("template");
        fs::create_dir(&template).expect("a new directory");
        give_away(directory);
        let arguments =
            ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"];
        let mut command = as_user(&programs.join("initdb"));
        command.args(arguments).arg(&template).stdout(Stdio::null());
        let made = command.status().expect("initdb is installed");
        assert!(made.success(), "initdb: {made}");
        Self { programs, template }
    }

    /// Starts a server with this number of namespaces, and nothing else in it.
    pub fn start(&self, directory: &Path, namespaces: usize) -> (Process, SocketAddr) {
        let data = directory.join("postgres");
        let copied = Command::new("cp").arg("-a").arg(&self.template).arg(&data).status();
        assert!(copied.is_ok_and(|status| status.success()), "no room for a copy");
        give_away(directory);
        let address = process::loopback(process::free_port());
        let mut command = as_user(&self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(&data)
            .args(["-p", &address.port().to_string(), "-h", "127.0.0.1", "-k", ""])
            .args(["-c", "fsync=on", "-c", "synchronous_commit=on"])
            .args([
                "-c",
                "max_connections=300",
                "-c",
                "max_wal_size=4GB",
                "-c",
                "shared_buffers=256MB",
            ]);
        let server = process::spawn(&mut command, directory, address);
        self.fill(address, namespaces);
        (server, address)
    }

    fn fill(&self, address: SocketAddr, namespaces: usize) {
        let quotas = format!(
            "INSERT INTO quota (namespace, hard_pods, hard_cpu, hard_memory) SELECT n, 1000000000, \
             1000000000000, 1000000000000000 FROM generate_series(0, {}) n;",
            namespaces - 1
        );
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-p", &address.port().to_string()])
            .args(["-c", TABLES, "-c", &quotas, "postgres"]);
        // It accepts connections a little before it answers them.
        let filled = (0..200).any(|_| {
            let status = command.stderr(Stdio::null()).status();
            let done = status.expect("psql is installed").success();
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            done
        });
        assert!(filled, "the tables could not be made");
    }
}

/// The server refuses to run as root.
fn as_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL"])
        .arg(program);
    command
}

fn give_away(directory: &Path) {
    if rustix::process::geteuid().is_root() {
        let given = Command::new("chown").args(["-R", "postgres"]).arg(directory).status();
        assert!(given.is_ok_and(|status| status.success()), "there is no user postgres");
    }
}

/// What all connections use.
pub struct Statements {
    pub namespaces: usize,
    pub connections: usize,
    pub seed: u64,
}

impl Statements {
    /// The talk of one connection. Its first two exchanges, in the warm-up, are the greeting and the statements.
    pub fn talk(self: &Arc<Self>, connection: usize) -> PostgresTalk {
        PostgresTalk {
            slots: slots(connection, self.connections, self.namespaces),
            random: Random::new(self.seed, connection),
            step: Step::Greet,
            held: None,
            releasing: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Greet,
    Prepare,
    Work,
}

/// The talk of one connection.
pub struct PostgresTalk {
    slots: Vec<usize>,
    random: Random,
    step: Step,
    held: Option<UidText>,
    releasing: bool,
}

impl PostgresTalk {
    fn work(&mut self, out: &mut Vec<u8>) -> Kind {
        if let Some(uid) = self.held {
            execute(out, b"d", &[&uid]);
            self.releasing = true;
            return Kind::Release;
        }
        let namespace = self.slots[self.random.below(self.slots.len())].to_string();
        let uid = uid(&mut self.random);
        execute(out, b"r", &[namespace.as_bytes(), &uid]);
        self.held = Some(uid);
        Kind::Reserve
    }
}

impl Talk for PostgresTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        match self.step {
            Step::Greet => {
                let parameters = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
                out.extend_from_slice(&length(parameters.len()));
                out.extend_from_slice(parameters);
                Kind::Reserve
            }
            Step::Prepare => {
                for (name, statement) in [("r", RESERVE), ("d", RELEASE)] {
                    let body = format!("{name}\0{statement}\0\0\0");
                    message(out, b'P', body.as_bytes());
                }
                message(out, b'S', b"");
                Kind::Reserve
            }
            Step::Work => self.work(out),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        let mut rest = bytes;
        let mut rows = 0;
        while let Some((kind, body, next)) = split(rest) {
            match kind {
                b'E' => return Err(io::Error::other(String::from_utf8_lossy(body).into_owned())),
                // A tag as `UPDATE 1`.
                b'C' => rows = u64::from(body.ends_with(b" 1\0")),
                b'Z' => {
                    let is_work = self.step == Step::Work;
                    self.advance();
                    return Ok(Some(Answer {
                        bytes: bytes.len() - next.len(),
                        status: 200,
                        done: rows,
                        denied: u64::from(is_work && rows == 0),
                        last: false,
                    }));
                }
                _ => {}
            }
            rest = next;
        }
        Ok(None)
    }

    fn tidy(&mut self, _out: &mut Vec<u8>) -> Option<Kind> {
        None
    }

    fn lost(&mut self) {
        self.step = Step::Greet;
        self.held = None;
        self.releasing = false;
    }
}

impl PostgresTalk {
    fn advance(&mut self) {
        match self.step {
            Step::Greet => self.step = Step::Prepare,
            Step::Prepare => self.step = Step::Work,
            Step::Work if std::mem::take(&mut self.releasing) => self.held = None,
            Step::Work => {}
        }
    }
}

/// Bind, Execute, Sync.
fn execute(out: &mut Vec<u8>, statement: &[u8], parameters: &[&[u8]]) {
    let mut bind = vec![0];
    bind.extend_from_slice(statement);
    bind.extend_from_slice(&[0, 0, 0, 0, u8::try_from(parameters.len()).unwrap_or(0)]);
    for parameter in parameters {
        bind.extend_from_slice(&u32::try_from(parameter.len()).unwrap_or(0).to_be_bytes());
        bind.extend_from_slice(parameter);
    }
    bind.extend_from_slice(&[0, 0]);
    message(out, b'B', &bind);
    message(out, b'E', &[0, 0, 0, 0, 0]);
    message(out, b'S', b"");
}

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&length(body.len()));
    out.extend_from_slice(body);
}

fn length(body: usize) -> [u8; 4] {
    u32::try_from(body + 4).unwrap_or(0).to_be_bytes()
}

/// Kind and body of the first message, and what follows.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let (body, next) = rest.split_at_checked(length.checked_sub(4)?)?;
    Some((head[0], body, next))
}
