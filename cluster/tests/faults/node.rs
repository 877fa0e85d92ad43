//! A node: replica, state, decisions by batch, and a socket for clients. It stands for the daemon without HTTP.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use quota_cluster::{
    ApplyError, BookmarkFile, Driver, Ended, Handle, Host, Names, ReplicatedJournal, wall,
};
use quota_core::{
    codec,
    decide::{self, Basis, By, Policy, QuotaChange, Refusal, Request},
    event::Actor,
    state::State,
    transaction::WriteTransaction,
};
use quota_journal::{
    Batch, Durable, Error, FileJournal, FileReader, Journal, Options, Reader as _, StoredBatch,
    disk::RealDisk,
};
use quota_ledger::{group_commit::GroupCommit, replay};
use quota_replication::{Identity, NodeName, Settings};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Footprint, GroupResource},
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
    uid::Uid,
};

pub(crate) const SETTINGS: Settings = Settings {
    silence: 1_500,
    heartbeat: 300,
    lease: 1_000,
    ack_wait: 1_000,
    poll: 100,
};

/// The replica, for the leader's journal and for batches of other members.
#[derive(Clone)]
struct Replica(Arc<Mutex<FileJournal>>);

impl Journal for Replica {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.0.lock().unwrap().append(batch)
    }
    fn sync(&mut self) -> Result<Durable, Error> {
        self.0.lock().unwrap().sync()
    }
    fn write(&mut self) -> Result<Durable, Error> {
        self.0.lock().unwrap().write()
    }
}

struct Job {
    line: String,
    answer: mpsc::Sender<String>,
}

struct Shared {
    state: Mutex<State>,
    reader: FileReader,
    leads: AtomicBool,
    hands_over_to: Mutex<Option<NodeName>>,
}

struct Node {
    shared: Arc<Shared>,
    replica: Replica,
}

impl Host for Node {
    fn end(&self) -> Durable {
        self.shared.reader.durable()
    }

    fn synced(&self) -> Durable {
        self.shared.reader.synced()
    }

    fn has(&self, position: &Durable) -> Result<bool, quota_journal::Error> {
        self.shared.reader.has(position)
    }

    fn apply(&mut self, batches: Vec<StoredBatch>) -> Result<(), ApplyError> {
        for stored in &batches {
            self.replica.append(stored.batch.clone())?;
        }
        self.replica.write()?;
        let mut state = self.shared.state.lock().unwrap();
        for StoredBatch { batch, .. } in batches {
            let entries = codec::decode_entries(batch.first_sequence, batch.count, &batch.payload);
            entries.unwrap().iter().for_each(|entry| state.apply(entry));
        }
        Ok(())
    }

    fn lead(&mut self, _: u64) {
        self.shared.leads.store(true, Ordering::Release);
    }

    fn follow(&mut self) {
        self.shared.leads.store(false, Ordering::Release);
    }
}

pub(crate) fn run(arguments: &[String]) -> ! {
    let [name, directory, servers, port] = arguments else {
        panic!("node NAME DIRECTORY SERVERS PORT");
    };
    let directory = Path::new(directory);
    let options = Options::default();
    let recovered = replay::recover(Arc::new(RealDisk), directory, options, |_, _| {}).unwrap();
    let replica = Replica(Arc::new(Mutex::new(recovered.journal)));
    let shared = Arc::new(Shared {
        state: Mutex::new(recovered.state),
        reader: recovered.reader,
        leads: AtomicBool::new(false),
        hands_over_to: Mutex::new(None),
    });
    let file = BookmarkFile::of(directory);
    let position = file.read().unwrap();
    let identity = Identity {
        node: name.parse().unwrap(),
        instance: u64::from(std::process::id()) << 32
            | (wall().nanoseconds().cast_unsigned() >> 10 & 0xFFFF_FFFF),
        partition: 0,
    };
    let host = Node {
        shared: shared.clone(),
        replica: replica.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(async {
        let client = connect(servers).await;
        let names = Names::new(&"test".parse().unwrap(), 0);
        let (driver, handle) =
            Driver::new(client, names, (identity, SETTINGS), (file, position), host)
                .await
                .unwrap();
        handle.set_barred(false);
        let mut journal = ReplicatedJournal::new(replica);
        journal.attach(handle.clone());
        serve(shared, journal, handle, port.parse().unwrap());
        driver.run().await
    });
    println!("{name}: {ended}");
    std::process::exit(match ended {
        Ended::Deposed => 6,
        Ended::Stop(_) | Ended::Diverged(_) | Ended::Behind(_) => 4,
        Ended::Apply(_) => 5,
        Ended::Closed | Ended::Rebuilt => 1,
    });
}

pub(crate) async fn connect(servers: &str) -> async_nats::Client {
    async_nats::ConnectOptions::new()
        .retry_on_initial_connect()
        .connection_timeout(Duration::from_secs(1))
        .ping_interval(Duration::from_secs(1))
        .reconnect_delay_callback(|_| Duration::from_millis(50))
        .connect(
            servers
                .split(',')
                .map(|server| server.parse().unwrap())
                .collect::<Vec<async_nats::ServerAddr>>(),
        )
        .await
        .unwrap()
}

fn serve(shared: Arc<Shared>, journal: ReplicatedJournal<Replica>, handle: Handle, port: u16) {
    let (jobs, waiting) = mpsc::sync_channel(1024);
    let deciding = shared.clone();
    std::thread::spawn(move || decide(&deciding, journal, &handle, &waiting));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (shared, jobs) = (shared.clone(), jobs.clone());
            std::thread::spawn(move || converse(&shared, stream, &jobs));
        }
    });
}

fn converse(shared: &Shared, mut stream: TcpStream, jobs: &mpsc::SyncSender<Job>) {
    stream.set_nodelay(true).unwrap();
    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
        let Ok(line) = line else { return };
        let said = match line
            .split_once(' ')
            .map_or(line.as_str(), |(first, _)| first)
        {
            "digest" => {
                let state = shared.state.lock().unwrap();
                let digest: String = state
                    .digest()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                format!("{} {digest}", state.head().sequence)
            }
            "leads" => shared.leads.load(Ordering::Acquire).to_string(),
            "handover" => {
                let to = line.split(' ').nth(1).unwrap().parse().unwrap();
                *shared.hands_over_to.lock().unwrap() = Some(to);
                "ok".to_owned()
            }
            _ if !shared.leads.load(Ordering::Acquire) => "not_leader".to_owned(),
            _ => {
                let (answer, answered) = mpsc::channel();
                match jobs.try_send(Job { line, answer }) {
                    Ok(()) => answered.recv().unwrap_or_else(|_| "unknown".to_owned()),
                    Err(_) => "overloaded".to_owned(),
                }
            }
        };
        if stream.write_all(format!("{said}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// The deciding thread.
fn decide(
    shared: &Shared,
    mut journal: ReplicatedJournal<Replica>,
    handle: &Handle,
    waiting: &mpsc::Receiver<Job>,
) {
    let (mut group_commit, policy) = (GroupCommit::new(256), Policy::default());
    loop {
        let mut jobs: Vec<Job> = waiting
            .recv_timeout(Duration::from_millis(20))
            .into_iter()
            .collect();
        jobs.extend(waiting.try_iter().take(255));
        if !shared.leads.load(Ordering::Acquire) {
            jobs.into_iter()
                .for_each(|job| drop(job.answer.send("not_leader".to_owned())));
            continue;
        }
        let to = shared.hands_over_to.lock().unwrap().take();
        if let Some(to) = to {
            // All earlier decisions are in the log: a batch is decided only after the previous one.
            shared.leads.store(false, Ordering::Release);
            handle.hand_over(to);
            jobs.into_iter()
                .for_each(|job| drop(job.answer.send("not_leader".to_owned())));
            continue;
        }
        {
            let mut state = shared.state.lock().unwrap();
            group_commit.record_due(&mut state, wall(), Timestamp::MAX, &policy);
            for job in jobs {
                let said = carry_out(
                    &mut group_commit.transaction(&mut state, wall()),
                    &job.line,
                    &policy,
                );
                group_commit.decided((job.answer, said), false);
            }
        }
        let Some(closed) = group_commit.seal() else {
            continue;
        };
        match closed
            .append(&mut journal)
            .and_then(|appended| appended.sync(&mut journal))
        {
            Ok(durably) => {
                group_commit.synced();
                durably
                    .answers
                    .into_iter()
                    .for_each(|(answer, said)| drop(answer.send(said)));
            }
            // The process is about to end; the requests stay unanswered.
            Err(error) => return println!("{error}"),
        }
    }
}

fn amounts(amount: i64) -> ResourceList {
    [(Name::from("requests.cpu"), Quantity::from_units(amount))]
        .into_iter()
        .collect()
}

fn carry_out(transaction: &mut WriteTransaction<'_>, line: &str, policy: &Policy) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let (state, now) = (transaction.state(), transaction.now());
    let events = match words[..] {
        ["quota", namespace, hard] => decide::set_quota(
            state,
            now,
            &QuotaChange {
                namespace: namespace.into(),
                name: "compute".into(),
                fresh_uid: Uid::new(namespace).unwrap(),
                spec: Spec {
                    hard: amounts(hard.parse().unwrap()),
                    scopes: Vec::new(),
                    selector: None,
                },
                metadata: Box::default(),
                precondition: None,
            },
        ),
        ["reserve", namespace, uid] => {
            let request = Request {
                uid: Uid::new(uid).unwrap(),
                namespace: namespace.into(),
                resource: GroupResource::new("", "pods"),
                name: Box::default(),
                api_version: "v1".into(),
                kind: "Pod".into(),
                basis: Basis::Create,
                subresource: Name::default(),
                footprint: Footprint {
                    resources: amounts(1),
                    ..Footprint::default()
                },
                before: None,
                object: None,
                ttl: Some(Span::from_seconds(600)),
            };
            decide::reserve(state, now, &By::holder("client"), &request.into(), policy)
                .map(|reserved| reserved.events)
        }
        _ => return "what?".to_owned(),
    };
    match events {
        Ok(events) => {
            transaction.record(&Actor::named("client"), events);
            "granted".to_owned()
        }
        Err(Refusal::Denied(_)) => "denied".to_owned(),
        Err(refusal) => format!("refused {refusal:?}").replace('\n', " "),
    }
}
