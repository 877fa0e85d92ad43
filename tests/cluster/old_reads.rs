//! Nodes whose server is cut off from the others: it still answers their reads of the log, from a replica that may be old.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    scratch,
    support::{
        cluster::NODES,
        nodes::{Nodes, Part, Setup},
        quotad::{REQUEST, agent},
    },
    wait_until,
};

/// Anything older is not answered.
const MAX_AGE: &str = "max_read_age = \"1s500ms\"\n";

/// In this time a node without news of the log has tried every server.
const TRIED: Duration = Duration::from_secs(10);

#[test]
fn a_node_does_not_take_a_server_without_a_majority_for_the_log() {
    let directory = scratch();
    let setup = Setup {
        nodes: MAX_AGE.to_owned(),
        ..Setup::default()
    };
    let cluster = Nodes::start(directory.path(), setup);
    let all_answer = || (0..NODES).all(|node| age(&cluster, node).is_some_and(|age| age <= 1_500));
    wait_until("every node answers reads", all_answer);
    let silent = [Part::Server(1), Part::Server(2)];
    silent
        .iter()
        .for_each(|server| cluster.signal(*server, Signal::STOP));
    let none_answers = || (0..NODES).all(|node| age(&cluster, node).is_none());
    wait_until("no node answers reads", none_answers);
    // Meanwhile nodes whose server was stopped connect to the one that is left.
    let deadline = Instant::now() + TRIED;
    while Instant::now() < deadline {
        assert!(none_answers());
    }
    silent
        .iter()
        .for_each(|server| cluster.signal(*server, Signal::CONT));
    wait_until("every node answers reads again", all_answer);
}

/// The age of a node's replica by its answer to a read, in milliseconds; none if the answer is 503.
fn age(cluster: &Nodes, node: usize) -> Option<u64> {
    let url = format!("{}/v1/namespaces/shop/quotas", cluster.daemon(node).api);
    let answer = agent(REQUEST).get(url).call().unwrap();
    if answer.status() == 200 {
        let age = answer.headers()["replica-age"].to_str().unwrap();
        return Some(age.strip_suffix("ms").unwrap().parse().unwrap());
    }
    // A leader waits in vain for its lease: `Timeout`. A follower is `Behind`.
    assert_eq!(answer.status(), 503);
    None
}
