//! Linearizability of the reservations, while the daemon is killed: every answer is one that a single ledger could
//! have given, in an order that respects time. Checked twice: against the order in which the entries stand, and by a
//! search that knows nothing of them.
//!
//! `QUOTAD_LINEAR_OPERATIONS` says how many operations each client does (500).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkers;
use quota_testkit as support;

use std::{sync::atomic::Ordering, time::Duration};

use support::{
    in_memory,
    linear::{
        clients::{CLIENTS, Client, HARD, Habits, NAMESPACES, Yard, entries_of, set_quotas},
        history::{Operation, Reply},
        search, witness,
    },
    number,
    quotad::Quotad,
};

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(400);

/// Operations between two kills.
const KILL_EVERY: u64 = 700;

#[test]
fn reservations_are_linearizable_while_the_daemon_is_killed() {
    let operations = number("QUOTAD_LINEAR_OPERATIONS").unwrap_or(500);
    let directory = in_memory();
    let arguments = ["--limits.page=1000"];
    let mut running = Some(Quotad::start(directory.path(), &arguments));
    let first = running.as_ref().unwrap().api.clone();
    set_quotas(&first, NAMESPACES);
    let habits = Habits { operations, timeout: TIMEOUT, rest: Duration::ZERO };
    let yard = Yard::new(vec![first], habits, 1);
    let mut kills = 0;
    let history: Vec<Operation> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(number, &yard);
                scope.spawn(move || client.run())
            })
            .collect();
        let mut next = KILL_EVERY;
        while yard.clients.load(Ordering::Relaxed) > 0 {
            if yard.operations.load(Ordering::Relaxed) >= next {
                next += KILL_EVERY;
                kills += 1;
                running.take().unwrap().kill();
                let started = Quotad::start(directory.path(), &arguments);
                yard.move_to(vec![started.api.clone()]);
                running = Some(started);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let (entries, _) = running.as_ref().unwrap().list("/v1/entries");
    let entries = entries_of(&entries);
    let unknown = history.iter().filter(|operation| operation.answer.is_none()).count();
    let denied = |operation: &&Operation| matches!(operation.answer, Some((_, Reply::Denied(_))));
    let denied = history.iter().filter(denied).count();
    println!(
        "{} operations, {denied} denied, {unknown} not answered, {} entries, {kills} kills, {:.1} s",
        history.len(),
        entries.len(),
        yard.elapsed().as_secs_f64()
    );
    assert!(kills > 0 && denied > 0 && unknown > 0);
    assert_eq!(witness::check(&history, &entries, HARD), Vec::<String>::new());
    for namespace in 0..NAMESPACES {
        let its = history.iter().filter(|operation| operation.namespace == namespace);
        let its: Vec<_> = its.cloned().collect();
        assert!(search::is_linearizable(&its, HARD), "namespace {namespace}");
    }
}
