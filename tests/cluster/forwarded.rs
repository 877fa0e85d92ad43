//! What nodes send on to a node that they believe to lead.

use std::fs;

use serde_json::{Value, json};

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
        let decide: Vec<_> =
            (0..NODES).map(|node| decides(&cluster, node, secret.trim())).collect();
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

/// A follower decides nothing itself: what a browser or an API server sends to it gets the leader's answer, or the same.
#[test]
fn a_node_that_does_not_lead_answers_pages_and_large_reviews_as_the_leader_does() {
    let directory = scratch();
    let cluster = producer::start(directory.path());
    let leader = cluster.leader();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits", "namespace": "web"},
        "spec": {"hard": {"pods": "1"}}
    });
    let path = "/v1/namespaces/web/quotas/limits";
    let set = agent(PATIENCE).put(format!("{}{path}", cluster.daemon(leader).api));
    assert_eq!(set.send_json(quota).unwrap().status(), 201);
    cluster.wait_until_same();
    let mut large = pod(1);
    let notes = "x".repeat(9 << 20);
    large["request"]["object"]["metadata"]["annotations"] = json!({"notes": notes});
    for node in 0..NODES {
        let api = &cluster.daemon(node).api;
        let check = |origin: &str| {
            let path = format!("{api}/v1/namespaces/web/check");
            let request = agent(PATIENCE).post(path).header("origin", origin);
            let wanted = json!({"reserved": {"pods": "1"}});
            request.send_json(wanted).unwrap().status().as_u16()
        };
        assert_eq!(check(api), 200, "n{node}, where n{leader} leads");
        assert_eq!(check("http://elsewhere.example"), 403, "n{node}, where n{leader} leads");
        let mut answer = agent(PATIENCE).post(format!("{api}/admit")).send_json(&large).unwrap();
        let answer: Value = answer.body_mut().read_json().unwrap();
        assert_eq!(answer["response"]["allowed"], false, "n{node}: {answer}");
    }
}
