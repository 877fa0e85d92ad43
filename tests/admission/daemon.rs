//! The webhook of a real daemon.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use rustix::process::{Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::{
    harness::recorded,
    support::quotad::Quotad,
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
    let daemon = Quotad::start(directory.path(), &[]);
    let hook: SocketAddr = daemon.ready["admission"].as_str().unwrap().parse().unwrap();
    let api = daemon.ready["api"].as_str().unwrap();

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

    kill_process(daemon.pid(), Signal::TERM).unwrap();
    drop(stream);
    assert!(daemon.wait().success());
}
