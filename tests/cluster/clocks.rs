//! A node whose clock is wrong.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    faults::hand_over,
    scratch,
    support::{
        PATIENCE,
        cluster::NODES,
        nodes::{Nodes, Part, Setup},
        quotad::agent,
    },
    wait_until,
};

/// By so many seconds it is wrong.
const WRONG: &str = "30";

/// So long without a leader another node would have taken over, twice.
pub(crate) const TWICE_SILENCE: Duration = Duration::from_secs(4);

#[test]
fn a_node_whose_clock_is_wrong_does_not_begin_to_lead() {
    let directory = scratch();
    let setup = Setup {
        moves_clocks: true,
        ..Setup::default()
    };
    let mut cluster = Nodes::start(directory.path(), setup);
    let leader = cluster.leader();
    let [wrong, other] = [(leader + 1) % NODES, (leader + 2) % NODES];
    std::fs::write(cluster.clock(wrong), WRONG).unwrap();
    wait_until("it says that its clock is wrong", || {
        // On a busy machine the lead may have come to it before its clock went wrong.
        let leads = cluster
            .role(wrong)
            .is_some_and(|(role, _)| role == "leader");
        if leads {
            hand_over(&cluster, wrong, leader);
        }
        let (_, text) = cluster.daemon(wrong).ask_admin("/readyz?verbose");
        text.contains("this node cannot lead: its clock is ")
    });
    // Nor is it given the lead: the other one, or the same as before, leads then.
    let url = format!("{}/v1/cluster/transfer", cluster.daemon(leader).api);
    let body = json!({"to": format!("n{wrong}")});
    let answer = agent(PATIENCE).post(url).send_json(body).unwrap();
    assert_ne!(answer.status(), 200);
    let leader = cluster.leader();
    assert_ne!(leader, wrong);
    let other = if leader == other {
        (0..NODES)
            .find(|node| ![wrong, other].contains(node))
            .unwrap()
    } else {
        other
    };
    // Alone it does not lead: nothing is granted, and reads go on.
    cluster.kill(Part::Node(other));
    cluster.kill(Part::Node(leader));
    let deadline = Instant::now() + TWICE_SILENCE;
    while Instant::now() < deadline {
        let (role, _) = cluster.role(wrong).unwrap();
        assert_eq!(role, "follower");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Once its clock is right, it does.
    std::fs::write(cluster.clock(wrong), "0").unwrap();
    wait_until("it leads", || {
        cluster
            .role(wrong)
            .is_some_and(|(role, _)| role == "leader")
    });
    cluster.start_again();
    cluster.wait_until_same();
    hand_over(&cluster, wrong, leader);
    assert_eq!(cluster.leader(), leader);
}
