//! What nodes send on to a node that they believe to lead.

use std::fs;

use crate::{
    producer,
    rolling::pod,
    scratch,
    strangers::EVERYTHING,
    support::{PATIENCE, cluster::NODES, nodes::Nodes, quotad::agent},
};

/// The answer does not say that sources are behind: those of a follower always are, and every caller would get it.
#[test]
fn a_node_that_does_not_lead_says_so_of_a_review_that_is_sent_on_to_it() {
    let directory = scratch();
    let cluster = producer::start(directory.path());
    let secret = fs::read_to_string(directory.path().join("token")).unwrap();
    let (leader, decide) = loop {
        let leader = cluster.leader();
        let decide: Vec<_> = (0..NODES)
            .map(|node| decides(&cluster, node, secret.trim()))
            .collect();
        if cluster.leader() == leader {
            break (leader, decide);
        }
    };
    for (node, decides) in decide.into_iter().enumerate() {
        assert_eq!(decides, node == leader, "n{node}, where n{leader} leads");
    }
}

/// Whether a node answers as one that leads.
fn decides(cluster: &Nodes, node: usize, secret: &str) -> bool {
    let answer = agent(PATIENCE)
        .post(format!("http://{}/admit", cluster.peer_address(node)))
        .header("authorization", format!("Bearer {secret}"))
        .header("quotad-actor", EVERYTHING)
        .send_json(pod(1));
    let answer = answer.unwrap();
    assert!([200, 503].contains(&answer.status().as_u16()), "{answer:?}");
    !answer.headers().contains_key("quotad-not-leader")
}
