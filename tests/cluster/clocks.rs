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

/// A jump of a clock, in seconds: later than any reservation of the test lives, and earlier.
const JUMPS: [&str; 2] = ["300", "-300"];

/// So long without a leader another node would have taken over, twice.
pub(crate) const TWICE_SILENCE: Duration = Duration::from_secs(4);

#[test]
fn a_node_whose_clock_is_wrong_does_not_begin_to_lead() {
    let directory = scratch();
    let setup = Setup { moves_clocks: true, ..Setup::default() };
    let mut cluster = Nodes::start(directory.path(), setup);
    let leader = cluster.leader();
    let [wrong, other] = [(leader + 1) % NODES, (leader + 2) % NODES];
    std::fs::write(cluster.clock(wrong), WRONG).unwrap();
    wait_until("it says that its clock is wrong", || {
        // On a busy machine the lead may have come to it before its clock went wrong.
        let leads = cluster.role(wrong).is_some_and(|(role, _)| role == "leader");
        if leads {
            hand_over(&cluster, wrong, leader);
        }
        let (_, text) = cluster.daemon(wrong).ask_admin("/readyz?verbose");
        text.contains("this node cannot lead: its clock is ")
    });
    // Nor is it given the lead: the other one, or the same as before, leads then.
    let url = format!("{}/v1/cluster/transfer", cluster.daemon(leader).api);
    let body = json!({"to": format!("n{wrong}")});
    let mut answer = agent(PATIENCE).post(url).send_json(body).unwrap();
    assert_eq!(answer.status(), 409);
    let why = answer.body_mut().read_to_string().unwrap();
    assert!(why.contains("cannot take the lead"), "{why}");
    let leader = cluster.leader();
    assert_ne!(leader, wrong);
    let other = if leader == other {
        (0..NODES).find(|node| ![wrong, other].contains(node)).unwrap()
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
    wait_until("it leads", || cluster.role(wrong).is_some_and(|(role, _)| role == "leader"));
    cluster.start_again();
    cluster.wait_until_same();
    hand_over(&cluster, wrong, leader);
    assert_eq!(cluster.leader(), leader);
}

#[test]
fn a_leader_whose_clock_jumps_decides_nothing_by_it_and_hands_over() {
    let directory = scratch();
    let setup = Setup { moves_clocks: true, ..Setup::default() };
    let cluster = Nodes::start(directory.path(), setup);
    for (round, jump) in JUMPS.into_iter().enumerate() {
        let leader = cluster.leader();
        let namespace = format!("{}/v1/namespaces/jump-{round}", cluster.daemon(leader).api);
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"}, "spec": {"hard": {"pods": "1"}}
        });
        let put = agent(PATIENCE).put(format!("{namespace}/quotas/pods")).send_json(quota);
        assert_eq!(put.unwrap().status(), 201);
        let (status, _) = reserve(&namespace, "first");
        assert_eq!(status, 201);
        std::fs::write(cluster.clock(leader), jump).unwrap();
        // The room is taken, whichever node answers, and the reservation has not expired.
        let (status, denied) = reserve(&namespace, "second");
        assert_eq!((status, &denied["reason"]), (403, &json!("ExceedsHard")), "{denied}");
        wait_until("another node leads", || cluster.leads().is_some_and(|leads| leads != leader));
        let (_, ready) = cluster.daemon(leader).ask_admin("/readyz?verbose");
        assert!(ready.contains("cannot lead: its clock is"), "{ready}");
        assert_eq!(reserve(&namespace, "third").0, 403);
        let released = agent(PATIENCE).delete(format!("{namespace}/reservations/first")).call();
        assert_eq!(released.unwrap().status(), 204);
        // A new one lives as long as requested, by the right clock.
        let (status, granted) = reserve(&namespace, "fourth");
        assert_eq!(status, 201, "{granted}");
        let time = |name: &str| granted[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let ahead = jiff::Timestamp::now().duration_since(time("createdTime"));
        assert!(ahead.abs() < jiff::SignedDuration::from_secs(60), "{granted}");
        std::fs::write(cluster.clock(leader), "0").unwrap();
        wait_until("its clock is right again", || {
            let (_, text) = cluster.daemon(leader).ask_admin("/readyz?verbose");
            !text.contains("cannot lead")
        });
    }
    cluster.wait_until_same();
}

/// The answer to a request for a pod for two minutes.
fn reserve(namespace: &str, uid: &str) -> (u16, serde_json::Value) {
    let pod = json!({
        "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
        "reserved": {"pods": "1"},
        "ttl": "2m"
    });
    let mut answer =
        agent(PATIENCE).post(format!("{namespace}/reservations")).send_json(pod).unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap())
}
