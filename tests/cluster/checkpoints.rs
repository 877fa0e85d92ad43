//! Nodes that sign checkpoints.

use std::{fs, path::Path, process::Command};

use serde_json::json;

use crate::{
    scratch,
    support::{
        PATIENCE,
        cluster::NODES,
        nodes::{Nodes, Setup},
        programs::quotactl,
        quotad::agent,
    },
    wait_until,
};

const QUOTA: &str = "/v1/namespaces/shop/quotas/all";

/// Beside the data of a node.
const FILE: &str = "checkpoints";

#[test]
fn a_node_whose_disk_was_lost_but_not_its_checkpoints_comes_back_without_the_others() {
    let directory = scratch();
    let key = directory.path().join("key");
    made(&["ledger", "keygen", &text(&key), "--origin", "ledger.example.com"]);
    let setup = Setup {
        nodes: format!("[checkpoint]\nkey_file = {key:?}\nfile = {FILE:?}\nevery_entries = 1\n"),
        ..Setup::default()
    };
    let mut cluster = Nodes::start(directory.path(), setup);
    set_quota(&cluster, 1);
    cluster.wait_until_same();
    let lost = (cluster.leader() + 1) % NODES;
    let others = (0..NODES).filter(|node| *node != lost);
    for node in others.chain([lost]) {
        assert_eq!(cluster.take(node).stop().code(), Some(0));
    }
    let home = cluster.home(lost);
    let signed = || fs::read_to_string(home.join(FILE)).unwrap();
    let before = signed();
    assert!(!before.is_empty());
    fs::remove_dir_all(home.join("data")).unwrap();
    cluster.start_node(lost);
    cluster.start_again();
    cluster.leader();
    set_quota(&cluster, 2);
    cluster.wait_until_same();
    wait_until("it signs again", || signed().len() > before.len());
    assert_eq!(cluster.take(lost).stop().code(), Some(0));
    made(&[
        "ledger",
        "verify",
        "--data-dir",
        &text(&home.join("data")),
        "--checkpoint",
        &text(&home.join(FILE)),
        "--public-key",
        &text(&directory.path().join("key.pub")),
    ]);
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Does what `quotactl` is asked for.
fn made(arguments: &[&str]) {
    let output = Command::new(quotactl()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn set_quota(cluster: &Nodes, pods: u64) {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "shop"},
        "spec": {"hard": {"pods": pods.to_string()}}
    });
    let url = format!("{}{QUOTA}", cluster.daemon(cluster.leader()).api);
    let answer = agent(PATIENCE).put(url).send_json(manifest).unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}
