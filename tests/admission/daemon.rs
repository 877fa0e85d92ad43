//! The webhook of a real daemon.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    harness::recorded,
    tls::{client, connect, make_certificates, review},
};

fn put(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "PUT {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
         content-type: application/json\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn a_daemon_serves_its_webhook() {
    let directory = TempDir::new().unwrap();
    make_certificates(directory.path());
    let config = "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [admission]\nlisten = \"127.0.0.1:0\"\ncharge = [\"deployments.apps\"]\n\
        [tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\nclient_ca = \"ca.crt\"\n\
        allowed_names = [\"kube-apiserver\"]\n[log]\nformat = \"json\"\n";
    std::fs::write(directory.path().join("config.toml"), config).unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_quotad"))
        .current_dir(&directory)
        .env_clear()
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let ready = log
        .by_ref()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap())
        .find(|line| line["message"] == "ready")
        .unwrap();
    let hook: SocketAddr = ready["admission"].as_str().unwrap().parse().unwrap();
    let api = ready["api"].as_str().unwrap();

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "4"}}});
    let path = "/v1/namespaces/team-a/quotas/q";
    assert!(put(api, path, &quota.to_string()).starts_with("HTTP/1.1 201"));
    let mut stream = connect(hook, &client(directory.path())).await.unwrap();
    let (_, admitted) = review(&mut stream, &recorded("deployment-create"))
        .await
        .unwrap();
    assert_eq!(admitted["response"]["allowed"], true, "{admitted}");
    let (_, denied) = review(&mut stream, &recorded("deployment-scale"))
        .await
        .unwrap();
    assert_eq!(denied["response"]["status"]["code"], 403, "{denied}");

    let pid = i32::try_from(daemon.id())
        .ok()
        .and_then(Pid::from_raw)
        .unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    drop(stream);
    // The log must be read to its end, or the daemon could not write it.
    assert!(log.any(|line| line.unwrap().contains("stopped")));
    assert!(daemon.wait().unwrap().success());
}
