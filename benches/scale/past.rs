//! Reports and simulations of a month beside a plain replay of its entries: rates, memory, and others' grants meanwhile.

use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    ops::ControlFlow,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use quota_core::{
    decide::GroupBounds,
    event::{Actor, Entry, Event, NamespaceRecord, Reservation},
    simulate::{Candidates, Simulation},
    state::State,
    time::{
        Period,
        report::{By, Question, Report},
    },
};
use quota_journal::FileReader;
use quota_ledger::{
    period,
    replay::{self, Until},
};
use quota_semantics::{Span, Timestamp, candidate::Candidate};
use serde_json::{Value, json};

use super::{
    generate,
    subject::{Bench, Bound, Target},
    support::{
        document::{ms, whole},
        process::{self, Quotad},
        programs,
        world::{self, compute, footprint, namespace, pod, uid},
    },
    tenants::{others_p99, token, write_tokens},
};

const BEGIN: Timestamp = Timestamp::from_nanoseconds(1_770_000_000_000_000_000);

const MONTH: Span = Span::from_seconds(30 * 24 * 3600);

/// A month in which pods come and go in namespaces with a quota each: each pod is granted, observed and deleted.
#[derive(Clone, Copy)]
struct Month {
    namespaces: u64,
    live: u64,
    pods: u64,
}

impl Month {
    fn new(bench: &Bench) -> Self {
        Self {
            namespaces: bench.sized(50_000),
            live: bench.sized(500_000),
            pods: bench.sized(3_450_000),
        }
    }

    /// How many entries it has.
    fn len(self) -> u64 {
        2 * self.namespaces + 3 * self.pods - self.live
    }

    const fn period() -> Period {
        Period { from: BEGIN, to: BEGIN.plus(MONTH) }
    }

    fn entries(self) -> impl Iterator<Item = Entry> {
        let step = MONTH.nanoseconds() / self.len().cast_signed();
        let (holder, source) = (Actor::named("webhook"), Actor::named("stream/OBJECTS"));
        let entry = move |(index, event): (u64, Event)| {
            let is_grant = matches!(event, Event::ReservationGranted(_));
            let time = BEGIN.plus(Span::from_nanoseconds(step * index.cast_signed()));
            Entry {
                sequence: index + 1,
                time,
                actor: if is_grant { &holder } else { &source }.clone(),
                event,
            }
        };
        let spaces = (0..self.namespaces).flat_map(move |number| self.namespace(number));
        let pods = (0..self.pods).flat_map(move |number| self.pod(number));
        (0..).zip(spaces.chain(pods)).map(entry)
    }

    fn namespace(self, number: u64) -> [Event; 2] {
        let name = namespace(number, self.namespaces);
        let record = NamespaceRecord {
            name: name.clone(),
            uid: uid(1 << 51 | number),
            version: 1,
            labels: [("team".into(), "all".into())].into(),
            annotations: Default::default(),
        };
        let quota = world::quota(name, "compute", uid(1 << 52 | number), compute());
        [Event::NamespaceObserved(record.into()), quota]
    }

    fn pod(self, number: u64) -> impl Iterator<Item = Event> {
        let space = |number| namespace(number, self.namespaces);
        let name = format!("web-5d4f8c7b9-{number:08}");
        let gone = number.checked_sub(self.live);
        let gone = gone.map(|gone| Event::ObjectDeleted { uid: uid(gone), namespace: space(gone) });
        let granted = Reservation {
            uid: uid(number),
            namespace: space(number),
            resource: "pods".into(),
            name: name.clone().into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: footprint(number).into(),
            created: BEGIN,
            expiration: BEGIN.plus(MONTH),
            after_version: 0,
            requested: None,
        };
        let mut observed = pod(uid(number), space(number), name, 1, footprint(number));
        if let Event::ObjectObserved(object) = &mut observed {
            object.ends_reservation = true;
        }
        let granted = Event::ReservationGranted(granted.into());
        gone.into_iter().chain([granted, observed])
    }

    /// Limits that refuse a part of all grants: a group over all namespaces, or a quota in each.
    fn group(self) -> Vec<Value> {
        let pods = (self.live * 9 / 10).max(1).to_string();
        vec![json!({"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
            "metadata": {"name": "all"},
            "spec": {"selector": {"labels": {"matchLabels": {"team": "all"}}},
                     "quota": {"hard": {"pods": pods, "requests.cpu": "10M", "requests.memory": "10Pi"}}}})]
    }

    fn quotas(self) -> Vec<Value> {
        let pods = (self.live * 9 / 10 / self.namespaces).max(1).to_string();
        let quota = |number| {
            json!({"apiVersion": "v1", "kind": "ResourceQuota",
                   "metadata": {"name": "compute", "namespace": namespace(number, self.namespaces).to_string()},
                   "spec": {"hard": {"pods": pods, "requests.cpu": "10M", "requests.memory": "10Pi"}}})
        };
        (0..self.namespaces).map(quota).collect()
    }
}

/// Entries per second of a plain replay, of a report and of a simulation, each in this thread alone.
struct Rates<'a> {
    reader: &'a FileReader,
    entries: f64,
}

impl Rates<'_> {
    fn per_second(&self, begin: Instant) -> f64 {
        self.entries / begin.elapsed().as_secs_f64()
    }

    fn plain(&self) -> f64 {
        let begin = Instant::now();
        let mut state = State::default();
        let batches = &mut self.reader.batches(1);
        let visit = |_: &State, _: &Entry| ControlFlow::Continue(());
        replay::walk(&mut state, batches, Until::End, visit).expect("it can be read");
        self.per_second(begin)
    }

    fn report(&self, by: By) -> f64 {
        let begin = Instant::now();
        let mut state = State::default();
        let question = Question {
            period: Month::period(),
            by,
            namespaces: Box::new(|_, _| true),
            member_of: None,
            groups: Box::new(|_| true),
            resources: None,
        };
        let batches = &mut self.reader.batches(1);
        let start = |state: &State| Report::begin(question, Vec::new(), state);
        let visit = |_: &Entry| ControlFlow::Continue(());
        let folded = period::fold(&mut state, batches, Month::period(), start, visit);
        let (report, _) = folded.expect("it can be read");
        let (_, total) = report.finish(&state);
        assert!(total.resources.contains_key("pods"));
        self.per_second(begin)
    }

    fn simulate(&self, limits: &[Value]) -> f64 {
        let begin = Instant::now();
        let mut candidates = Candidates::default();
        for limit in limits {
            let candidate = Candidate::read(limit.to_string().as_bytes());
            candidates.add(candidate.unwrap_or_else(|error| panic!("{limit}: {error:?}")));
        }
        let is_identity = limits.is_empty();
        let bounds = GroupBounds::default();
        let begun = Simulation::begin(State::default(), BEGIN, candidates, Vec::new(), &bounds);
        let mut simulation = begun.unwrap_or_else(|refused| panic!("{refused:?}"));
        let batches = &mut self.reader.batches(1);
        let read = replay::entries(batches, 0, Until::End, |entry| {
            let stepped = simulation.step(entry);
            stepped.unwrap_or_else(|error| panic!("{error}"));
            ControlFlow::Continue(())
        });
        read.expect("it can be read");
        let outcome = simulation.finish(Month::period().to);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.refused > 0, !is_identity, "a part is refused");
        self.per_second(begin)
    }
}

/// The most memory that a command on the ledger has, in MiB.
fn memory(directory: &Path, arguments: &[&str]) -> f64 {
    let mut child = Command::new(programs::quotactl())
        .arg("ledger")
        .args(arguments)
        .arg("--data-dir")
        .arg(directory.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("quotactl is built");
    let mut most = 0;
    let status = loop {
        most = process::peak_memory(child.id()).unwrap_or(0).max(most);
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{arguments:?}: {status}");
    most as f64 / 1048576.0
}

/// A request that is made again and again until it is stopped: then its connection is closed, which ends the work.
struct Asking {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Asking {
    fn start(api: &str, head: &str, body: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let address = api.trim_start_matches("http://").to_owned();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            token("operator"),
            body.len()
        );
        let is_over = stop.clone();
        let thread = thread::spawn(move || {
            let mut answers = 0;
            while !is_over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(&address).expect("it listens");
                let timeout = Some(Duration::from_millis(50));
                stream.set_read_timeout(timeout).expect("it is not zero");
                stream.write_all(request.as_bytes()).expect("it listens");
                let mut answer = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    match stream.read_to_end(&mut answer) {
                        Ok(_) => {
                            let status = answer.get(..12).unwrap_or_default();
                            let said = String::from_utf8_lossy(status);
                            assert!(said.ends_with(" 200"), "{said}");
                            answers += 1;
                            break;
                        }
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            answers
        });
        Self { stop, thread }
    }

    /// Gives how many answers there were.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("each answer is an expected one")
    }
}

/// The p99 of others' grants alone, beside reports and beside simulations.
fn beside(bench: &Bench, directory: &Path, month: Month) -> Vec<Target> {
    write_tokens(directory);
    let bound = format!("--limits.replay-entries={}", month.len());
    let daemon = Quotad::start(directory, &["--auth.tokens-file=tokens.toml", &bound]);
    let Period { from, to } = Month::period();
    let report = format!("GET /v1/report?from={from}&to={to}&by=namespace");
    let simulated = json!({"from": from, "to": to, "groups": month.group()}).to_string();
    let mut answers = [0, 0];
    let [alone, reporting, simulating] = bench.rounds(|| {
        let alone = others_p99(bench, directory, &daemon);
        let asked = [(&*report, ""), ("POST /v1/simulate", &*simulated)];
        let mut p99s = asked.iter().zip(&mut answers).map(|((head, body), count)| {
            let asking = Asking::start(&daemon.api, head, body);
            let p99 = others_p99(bench, directory, &daemon);
            *count += asking.end();
            p99
        });
        [alone, p99s.next().unwrap_or(0.0), p99s.next().unwrap_or(0.0)]
    });
    let target = |what, p99, count| Target {
        what,
        value: p99 / alone,
        bound: Bound::AtMost(2.0),
        unit: "",
        detail: format!(
            "{} and {} ms; 8 connections; one after the other, {count} ended meanwhile",
            ms(p99),
            ms(alone)
        ),
    };
    vec![
        target("p99 of others' grants beside reports / alone", reporting, answers[0]),
        target("p99 of others' grants beside simulations / alone", simulating, answers[1]),
    ]
}

pub fn all(bench: &Bench) -> Vec<Target> {
    let month = Month::new(bench);
    let directory = bench.new_directory();
    generate::write(directory.path(), month.entries());
    let (journal, reader) = generate::open(directory.path());
    let rates = Rates { reader: &reader, entries: month.len() as f64 };
    let (group, quotas) = (month.group(), month.quotas());
    let [plain, report, kinds, identity, one, each] = bench.rounds(|| {
        let figures = [
            rates.plain(),
            rates.report(By::Namespace),
            rates.report(By::Kind),
            rates.simulate(&[]),
            rates.simulate(&group),
            rates.simulate(&quotas),
        ];
        eprintln!("past: entries/s: {figures:.0?}");
        figures
    });
    journal.close().expect("the disk works");
    let rate = |what, rate: f64, least| Target {
        what,
        value: rate / plain,
        bound: Bound::AtLeast(least),
        unit: "",
        detail: format!(
            "{} and {} entries/s on one core; {} entries, {} namespaces, {} live objects",
            whole(rate),
            whole(plain),
            whole(month.len() as f64),
            whole(month.namespaces as f64),
            whole(month.live as f64)
        ),
    };
    let mut targets = vec![
        rate("report by namespace / plain replay", report, 0.6),
        rate("report by kind / plain replay", kinds, 0.6),
        rate("verifying all decisions again / plain replay", identity, 0.3),
        rate("simulation of a group over all namespaces / plain replay", one, 0.3),
        rate("simulation of a quota in each namespace / plain replay", each, 0.3),
    ];
    let file = directory.path().join("group.json");
    fs::write(&file, group.into_iter().map(|limit| limit.to_string()).collect::<String>())
        .expect("there is room");
    let from = BEGIN.to_string();
    let to = Month::period().to.to_string();
    let file = file.to_string_lossy();
    let period = ["--from", &*from, "--to", &*to, "-o", "json"];
    let state = memory(directory.path(), &["replay"]);
    let mut beyond = |what, command: &[&str]| {
        let most = memory(directory.path(), &[command, &period].concat());
        targets.push(Target {
            what,
            value: most - state,
            bound: Bound::AtMost(200.0),
            unit: " MiB",
            detail: format!("{} and {} MiB at most", whole(most), whole(state)),
        });
    };
    beyond("memory of a report beyond that of a replay", &["report", "--by", "namespace"]);
    beyond("memory of a simulation beyond that of a replay", &["simulate", "-f", &file]);
    targets.extend(beside(bench, directory.path(), month));
    targets
}
