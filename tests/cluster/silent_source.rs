//! The server that leads the stream is stopped, and events come from the same servers.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    End,
    faults::wait_for_grants,
    number, producer, scratch,
    support::{
        linear::clients::{CLIENTS, Client, NAMESPACES, Yard},
        nodes::{LOG, Nodes, Part},
    },
    yard,
};

/// How often.
const STOPS: u64 = 3;

/// Grants that show that all is as before.
const STEADY: u64 = 60;

#[test]
fn grants_go_on_where_events_come_from_a_server_that_does_not_answer() {
    let stops = number("QUOTAD_NODES_STOPS").unwrap_or(STOPS);
    let stops = usize::try_from(stops).unwrap();
    let directory = scratch();
    let cluster = producer::start(directory.path());
    let yard = yard(&cluster, stops, 1);
    let is_over = false.into();
    let urls = cluster.servers.urls();
    let published = std::thread::scope(|scope| {
        let end = End(&yard, &is_over);
        let producer = scope.spawn(|| producer::run(&urls, 1, &is_over));
        for number in 0..CLIENTS {
            let client = Client::new(number, &yard);
            scope.spawn(move || client.run());
        }
        for stop in 0..stops {
            yard.turn_to(stop * NAMESPACES);
            wait_for_grants(&yard, STEADY);
            let outage = outage(&cluster, &yard);
            println!("{stop}: nothing granted for {:.1} s", outage.as_secs_f64());
        }
        drop(end);
        producer.join().unwrap()
    });
    producer::is_counted_once(&cluster, &published);
}

/// The longest time without a grant while the server is stopped.
fn outage(cluster: &Nodes, yard: &Yard) -> Duration {
    let server = Part::Server(cluster.servers.leader_of(LOG).unwrap());
    cluster.signal(server, Signal::STOP);
    let enough = yard.grants() + STEADY;
    let (mut granted, mut since) = (yard.grants(), Instant::now());
    let mut longest = Duration::ZERO;
    while granted < enough {
        wait_for_grants(yard, 1);
        granted = yard.grants();
        longest = longest.max(since.elapsed());
        since = Instant::now();
    }
    cluster.signal(server, Signal::CONT);
    longest
}
