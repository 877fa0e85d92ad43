//! How a server may want to be talked to.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
};

use async_nats::jetstream::stream;
use quotad::intake::nats;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::daemon::Opened;
use crate::support::{
    certificates::{authority, signed},
    nats as server,
};

/// Writes a file into the scene's directory, and answers where it is.
fn write(directory: &TempDir, name: &str, text: &str) -> std::path::PathBuf {
    let file = directory.path().join(name);
    std::fs::write(&file, text).unwrap();
    file
}

async fn is_caught_up_with(scene: &Scene) {
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_password() {
    let mut scene = Scene::at(Server::start_with(&["--user", "quota", "--pass", "s3cret"]));
    scene.config.nats.connection.user = Some("quota".to_owned());
    scene.config.nats.connection.password_file =
        Some(write(&scene.directory, "password", "s3cret\n"));
    is_caught_up_with(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token() {
    let mut scene = Scene::at(Server::start_with(&["--auth", "s3cret"]));
    scene.config.nats.connection.token_file = Some(write(&scene.directory, "token", "s3cret"));
    is_caught_up_with(&scene).await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_is_told_at_once() {
    let mut config = Config::default();
    config.nats.url = Some("nats://127.0.0.1:4222".to_owned());
    config.nats.connection.token_file = Some("/nowhere/token".into());
    let directory = TempDir::new().unwrap();
    let opened = Opened::open(directory.path());
    let (reader, stop) = (Arc::default(), CancellationToken::new());
    let started = nats::start(&config, reader, opened.ledger.clone(), stop).await;
    let error = started.err().expect("there is no such file").to_string();
    assert!(error.starts_with("nats.token_file: cannot read /nowhere/token"), "{error}");
    opened.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_certificates_on_both_sides() {
    let directory = TempDir::new().unwrap();
    let authority = authority();
    let ca = write(&directory, "ca.pem", &authority.pem());
    let pair =
        |name: &str| signed(&authority, &["localhost", "127.0.0.1"]).write(directory.path(), name);
    let (certificate, key) = pair("server");
    let [ca_text, certificate, key] = [&ca, &certificate, &key].map(|file| file.to_str().unwrap());
    let server = Server::start_with(&[
        "--tlsverify",
        "--tlscert",
        certificate,
        "--tlskey",
        key,
        "--tlscacert",
        ca_text,
    ]);
    let mut scene = Scene::at(server);
    let (certificate, key) = pair("client");
    scene.config.nats.connection.tls_ca = Some(ca);
    scene.config.nats.connection.tls_cert = Some(certificate);
    scene.config.nats.connection.tls_key = Some(key);
    is_caught_up_with(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_away_is_tried_again_when_the_others_have_no_stream() {
    let port = server::free_port();
    let away = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut scene = Scene::new();
    let urls = [server::url(port), scene.server.url()];
    scene.config.nats.url = Some(urls.join(","));
    scene.config.nats.create_stream = false;
    let daemon = scene.daemon().await;
    let tried = tokio::task::spawn_blocking(move || drop(away.accept().unwrap()));
    tried.await.unwrap();
    let back = Server::start_at(port, &[]);
    let context = back.jetstream().await;
    let config = stream::Config {
        name: STREAM.to_owned(),
        subjects: vec!["quota.objects.>".to_owned()],
        ..stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    publish(&context, widgets(0..10)).await;
    daemon.until("all are consumed", |state| position(state) == 10).await;
    daemon.stop().await;
}
