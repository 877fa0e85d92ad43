//! Three daemons that keep one ledger on three nats-servers, all of them real, while they are killed and stopped and the
//! network between them is cut. Clients at all of them, and a source of events: what was acknowledged is in the ledger,
//! once; no limit is exceeded; every answer is one that a single ledger could have given; every event counts once.
//!
//! `QUOTAD_NATS_SERVER`: a nats-server of 2.14.4 or newer (`tests/run` installs one). `QUOTAD_NODES_FAULTS`: how many
//! faults (12 of the 44 kinds, among them the 9 basic ones; beyond 44 each kind again). `QUOTAD_NODES_SEED`: which; it is
//! printed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkpoints;
mod clocks;
mod faults;
mod forwarded;
mod log;
mod newer;
mod old_reads;
mod producer;
mod rolling;
mod silent_source;
mod stopped;
mod strangers;
mod tails;
mod tls;
mod wrong_state;

use quota_testkit as support;

use std::{
    collections::HashSet,
    path::Path,
    process::Command,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use faults::{Fault, strike, wait_for_grants};
use support::{
    cluster::NODES,
    in_memory,
    linear::{
        clients::{self, CLIENTS, Client, HARD, Habits, NAMESPACES, Yard, entries_of, set_quotas},
        history::{Operation, Reply, Request},
        search, witness,
    },
    nodes::Nodes,
    number,
    programs::quotactl,
    quotad::{REQUEST, agent},
    random::{Random, seed},
    wait_until,
};
use tempfile::TempDir;

/// How long a client waits for an answer before it asks another node.
const TIMEOUT: Duration = Duration::from_millis(700);

/// How many faults there are by default.
const FAULTS: usize = 8;

/// Between two operations of a client.
const REST: Duration = Duration::from_millis(15);

/// Reservations that are requested again from every node in the end.
const ASKED_AGAIN: usize = 40;

/// The machine: who asks how soon something is done has it alone, the others share it.
static MACHINE: RwLock<()> = RwLock::new(());

/// A directory for the length of a test, and a part of the machine.
struct Scratch<Part> {
    directory: TempDir,
    _machine: Part,
}

impl<Part> Scratch<Part> {
    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A directory, beside other tests.
fn scratch() -> Scratch<RwLockReadGuard<'static, ()>> {
    Scratch {
        _machine: MACHINE.read().unwrap_or_else(PoisonError::into_inner),
        directory: in_memory(),
    }
}

/// A directory, without other tests meanwhile.
fn scratch_alone() -> Scratch<RwLockWriteGuard<'static, ()>> {
    Scratch {
        _machine: MACHINE.write().unwrap_or_else(PoisonError::into_inner),
        directory: in_memory(),
    }
}

#[test]
fn nothing_is_lost_doubled_or_over_hard_whatever_is_killed_stopped_or_cut() {
    let seed = seed("QUOTAD_NODES_SEED");
    let count = number("QUOTAD_NODES_FAULTS").unwrap_or(FAULTS);
    println!("QUOTAD_NODES_SEED={seed}");
    let directory = scratch();
    let mut cluster = producer::start(directory.path());
    let yard = yard(&cluster, count, seed);
    let is_over = AtomicBool::new(false);
    let urls = cluster.servers.urls();
    let (history, published) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| producer::run(&urls, seed, &is_over));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(number, &yard);
                scope.spawn(move || client.run())
            })
            .collect();
        let end = End(&yard, &is_over);
        go_through(&mut cluster, count, seed, &yard);
        drop(end);
        let history = clients.into_iter().flat_map(|client| client.join().unwrap());
        (history.collect::<Vec<_>>(), producer.join().unwrap())
    });
    let (all, end, advances) = producer::is_counted_once(&cluster, &published);
    let entries = entries_of(&all);
    println!(
        "{} operations, {} entries of reservations among {end}, {} events in {} messages, consumed in {advances} steps, {:.0} s",
        history.len(),
        entries.len(),
        published.events,
        published.messages,
        yard.elapsed().as_secs_f64()
    );
    is_right(&history, &entries);
    answers_are_the_same_everywhere(&cluster, &history);
    states_are_the_same(&mut cluster, end);
}

/// What clients do at all nodes, with namespaces for so many faults.
fn yard(cluster: &Nodes, faults: usize, seed: u64) -> Yard {
    let leader = cluster.leader();
    set_quotas(&cluster.daemon(leader).api, (faults + 1) * NAMESPACES);
    let habits = Habits { operations: u64::MAX, timeout: TIMEOUT, rest: REST };
    Yard::new(cluster.apis(), habits, seed)
}

/// Tells all to stop, also when something went wrong.
struct End<'a>(&'a Yard, &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
        self.1.store(true, Ordering::Relaxed);
    }
}

/// Does so many faults: first the basic kinds, then the others, and so on.
fn go_through(cluster: &mut Nodes, count: usize, seed: u64, yard: &Yard) {
    let mut random = Random::new(seed, "faults");
    let (basic, others) = Fault::all().into_iter().partition(Fault::is_basic);
    let mut rounds = [basic, others].into_iter().cycle();
    let mut left: Vec<Fault> = Vec::new();
    for number in 0..count {
        if left.is_empty() {
            left = rounds.next().unwrap();
        }
        let fault = left.swap_remove(random.index(left.len()));
        // Each fault meets namespaces of its own, so that the search for an order has little to do.
        yard.turn_to(number * NAMESPACES);
        wait_for_grants(yard, 10);
        let began = Instant::now();
        let outage = strike(cluster, fault, &mut random, yard);
        println!(
            "{number}: {fault:?}: granted again after {:.1} s, as before {:.1} s after its end, {:.1} s in all",
            outage.until_granted.as_secs_f64(),
            outage.until_over.as_secs_f64(),
            began.elapsed().as_secs_f64()
        );
    }
}

/// Nothing acknowledged is lost, nothing is there twice, nothing is over hard, and there is an order of all answers.
fn is_right(history: &[Operation], entries: &[witness::Entry]) {
    let wrong = witness::check(history, entries, HARD);
    assert_eq!(wrong, Vec::<String>::new());
    let last = history.iter().map(|operation| operation.namespace).max();
    let resolved = witness::resolved(history, entries);
    for namespace in 0..=last.unwrap() {
        let its = resolved.iter().filter(|operation| operation.namespace == namespace);
        let its: Vec<_> = its.cloned().collect();
        assert!(
            search::is_linearizable(&its, HARD),
            "namespace {namespace}: no order of its operations makes all answers right"
        );
    }
    let count = |is_wanted: &dyn Fn(&Operation) -> bool| {
        history.iter().filter(|operation| is_wanted(operation)).count()
    };
    let grants = count(&|operation| {
        matches!(
            (operation.request, operation.answer),
            (Request::Reserve(_), Some((_, Reply::Done)))
        )
    });
    let denials = count(&|operation| matches!(operation.answer, Some((_, Reply::Denied(_)))));
    let unknown = count(&|operation| operation.answer.is_none());
    assert!(denials > 0, "nothing was denied");
    println!(
        "{grants} grants acknowledged: 0 lost, 0 twice, 0 over hard; {denials} denials, all right; {unknown} not answered; \
         every answer has its place in one order"
    );
}

/// The same request has the same answer at every node.
fn answers_are_the_same_everywhere(cluster: &Nodes, history: &[Operation]) {
    let ended: HashSet<_> = history
        .iter()
        .filter(|operation| !matches!(operation.request, Request::Reserve(_)))
        .map(|operation| &operation.uid)
        .collect();
    let held = history.iter().rev().filter_map(|operation| {
        let Request::Reserve(units) = operation.request else {
            return None;
        };
        let is_granted = matches!(operation.answer, Some((_, Reply::Done)));
        let is_held = is_granted && !ended.contains(&operation.uid);
        is_held.then_some((operation.namespace, &operation.uid, units))
    });
    let held: Vec<_> = held.take(ASKED_AGAIN).collect();
    assert!(!held.is_empty());
    for (namespace, uid, units) in held {
        for node in 0..NODES {
            let api = &cluster.daemon(node).api;
            let path = format!("{api}/v1/namespaces/{}/reservations", clients::name(namespace));
            let answer = agent(REQUEST).post(path).send_json(clients::reservation(uid, units));
            assert_eq!(answer.unwrap().status(), 200, "{uid} at n{node}");
        }
    }
}

/// Ends all nodes: the log is in order, the ledgers of the nodes are whole, and all fold to the same state.
fn states_are_the_same(cluster: &mut Nodes, end: u64) {
    let of_log = log::is_in_order(cluster, end);
    for node in 0..NODES {
        assert_eq!(cluster.take(node).stop().code(), Some(0));
    }
    let ledger = |arguments: &[&str], directory: &Path| {
        let mut command = Command::new(quotactl());
        command.arg("ledger").args(arguments);
        command.arg("--data-dir").arg(directory);
        command
    };
    cluster.of_each(|directory| ledger(&["verify"], directory));
    let until = end.to_string();
    let states = cluster.of_each(|directory| ledger(&["replay", "--until", &until], directory));
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    let first = states[0].lines().next().unwrap_or_default();
    if let Some(digest) = of_log {
        assert!(first.ends_with(&format!("digest {digest}")), "{first}: {digest}");
    }
    println!("the states of the nodes are the same: {first}");
}
