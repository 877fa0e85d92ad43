//! A leader that is stopped while nothing gets into the log.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::{
    scratch,
    support::{
        PATIENCE,
        nodes::{Nodes, Part, Setup},
        quotad::agent,
        wait_for,
    },
};

/// In the time of a request that is not answered, at least one snapshot is due.
const TIMES: (&str, &str) = ("request_timeout = \"4s\"\n", "[snapshot]\nevery = \"1s\"\n");

#[test]
fn a_leader_that_does_not_reach_the_log_stops_although_a_snapshot_waits_for_its_decisions() {
    let directory = scratch();
    let setup = Setup { limits: TIMES.0.to_owned(), nodes: TIMES.1.to_owned(), ..Setup::default() };
    let mut cluster = Nodes::start(directory.path(), setup);
    let leader = cluster.leader();
    assert_eq!(reserve(&cluster, leader, "in-the-log"), 201);
    let silent = [Part::Server(1), Part::Server(2)];
    silent.iter().for_each(|server| cluster.signal(*server, Signal::STOP));
    // Its outcome is not known, and the next snapshot waits for it.
    assert_eq!(reserve(&cluster, leader, "in-doubt"), 503);
    let mut stopped = cluster.take(leader);
    kill_process(stopped.pid(), Signal::TERM).unwrap();
    let status = wait_for("it ends", PATIENCE, || stopped.ended());
    assert_eq!(status.code(), Some(0));
    silent.iter().for_each(|server| cluster.signal(*server, Signal::CONT));
    cluster.start_again();
    cluster.leader();
    cluster.wait_until_same();
}

/// The status of the answer of a node to a request for a pod.
fn reserve(cluster: &Nodes, node: usize, uid: &str) -> u16 {
    let url = format!("{}/v1/namespaces/shop/reservations", cluster.daemon(node).api);
    let pod = json!({
        "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
        "reserved": {"pods": "1"}
    });
    let answer = agent(PATIENCE).post(url).send_json(pod).unwrap();
    answer.status().as_u16()
}
