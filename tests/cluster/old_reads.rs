//! Nodes whose server is cut off from the others: it still answers their reads of the log, from a replica that may be old.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    scratch,
    support::{
        cluster::NODES,
        linear::clients::set_quotas,
        nodes::{Cut, Nodes, Part, Setup},
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
    let setup = Setup { nodes: MAX_AGE.to_owned(), ..Setup::default() };
    let cluster = Nodes::start(directory.path(), setup);
    let all_answer = || (0..NODES).all(|node| age(&cluster, node).is_some_and(|age| age <= 1_500));
    wait_until("every node answers reads", all_answer);
    let silent = [Part::Server(1), Part::Server(2)];
    silent.iter().for_each(|server| cluster.signal(*server, Signal::STOP));
    let none_answers = || (0..NODES).all(|node| age(&cluster, node).is_none());
    wait_until("no node answers reads", none_answers);
    // Meanwhile nodes whose server was stopped connect to the one that is left.
    let deadline = Instant::now() + TRIED;
    while Instant::now() < deadline {
        assert!(none_answers());
    }
    silent.iter().for_each(|server| cluster.signal(*server, Signal::CONT));
    wait_until("every node answers reads again", all_answer);
}

/// So many entries take a node several reads of the log.
const MISSED: usize = 600;

#[test]
fn a_node_that_starts_answers_no_reads_from_before_its_start() {
    let directory = scratch();
    let mut cluster = Nodes::start(directory.path(), Setup::default());
    let leader = cluster.leader();
    let late = (leader + 1) % NODES;
    cluster.wait_until_same();
    cluster.kill(Part::Node(late));
    set_quotas(&cluster.daemon(leader).api, MISSED);
    let (before, _) = cluster.end(leader).unwrap();
    cluster.cut(Part::Node(late), Cut::Slow, false);
    cluster.start_node(late);
    let mut refused = 0;
    wait_until("it answers reads", || {
        let url = format!("{}/v1/usage?limit=1", cluster.daemon(late).api);
        let mut answer = agent(REQUEST).get(url).call().unwrap();
        if answer.status() == 503 {
            refused += 1;
            return false;
        }
        let age = answer.headers()["replica-age"].to_str().unwrap().to_owned();
        let text = answer.body_mut().read_to_string().unwrap();
        let usage: serde_json::Value = serde_json::from_str(&text).unwrap();
        let sequence = usage["asOf"]["sequence"].as_u64().unwrap();
        assert!(sequence >= before, "entry {sequence} of {before}, said to be {age} old");
        true
    });
    assert!(refused > 0, "it was never seen while it caught up");
    let url = format!("{}/v1/usage?limit=1&sequence={before}", cluster.daemon(late).api);
    assert_eq!(agent(REQUEST).get(url).call().unwrap().status(), 200);
}

#[test]
fn an_entry_that_a_follower_lacks_is_no_mistake_of_the_caller() {
    let directory = scratch();
    let setup = Setup { limits: "request_timeout = \"2s\"\n".to_owned(), ..Setup::default() };
    let cluster = Nodes::start(directory.path(), setup);
    let leader = cluster.leader();
    let follower = (leader + 1) % NODES;
    let ask = |node: usize| {
        let url = format!("{}/v1/usage?sequence=99999999", cluster.daemon(node).api);
        let mut answer = agent(REQUEST).get(url).call().unwrap();
        let status = answer.status().as_u16();
        (status, answer.body_mut().read_to_string().unwrap())
    };
    let (status, text) = ask(follower);
    assert_eq!((status, text.contains("Behind")), (503, true), "{text}");
    let (status, text) = ask(leader);
    assert_eq!((status, text.contains("Malformed")), (400, true), "{text}");
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
