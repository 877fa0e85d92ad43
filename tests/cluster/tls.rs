//! TLS between the nodes, and to the servers.

use std::{fs, path::Path, sync::Arc};

use async_nats::ConnectOptions;
use rustls::crypto::ring;
use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

use crate::{
    scratch,
    support::{
        PATIENCE,
        cluster::NODES,
        linear::clients::{name, reservation, set_quotas},
        nodes::{Nodes, Part, Setup},
        programs,
        quotad::agent,
    },
};

#[test]
fn nodes_and_servers_speak_tls_and_to_nobody_else() {
    let directory = scratch();
    let certificates = directory.path().join("certificates");
    programs::certificates(&certificates, "127.0.0.1");
    let files = certificates.display();
    let setup = Setup {
        servers: format!(
            "tls {{ cert_file: \"{files}/tls.crt\", key_file: \"{files}/tls.key\", ca_file: \"{files}/ca.crt\", \
             verify: true }}\n"
        ),
        certificates: Some(certificates.clone()),
        ..Setup::default()
    };
    let mut cluster = Nodes::start(directory.path(), setup);
    let leader = cluster.leader();
    set_quotas(&cluster.daemon((leader + 1) % NODES).api, 1);
    for node in 0..NODES {
        reserve(&cluster, node, &format!("at-{node}"));
    }
    // Another leads, and is passed what the others take.
    cluster.kill(Part::Node(leader));
    let others = [1, 2].map(|step| (leader + step) % NODES);
    for node in others {
        reserve(&cluster, node, &format!("after-{node}"));
    }
    cluster.start_again();
    cluster.wait_until_same();

    let address = cluster.peer_address(others[0]);
    let plain = agent(PATIENCE).get(format!("http://{address}/v1/cluster")).call();
    assert!(plain.is_err(), "{plain:?}");
    let path = format!("https://{address}/v1/cluster");
    let stranger = trusting(&certificates).get(&path).call().unwrap();
    assert_eq!(stranger.status(), 401, "without the secret of the nodes");
    let secret = fs::read_to_string(directory.path().join("token")).unwrap();
    let node = trusting(&certificates)
        .get(&path)
        .header("authorization", format!("Bearer {secret}"))
        // Base64 of "{}": for nobody.
        .header("quotad-actor", "e30")
        .call()
        .unwrap();
    assert_eq!(node.status(), 200);

    let url = format!("tls://{}", cluster.servers.address(0));
    assert!(is_let_in(&url, &certificates, true), "a node");
    assert!(!is_let_in(&url, &certificates, false), "no certificate");
}

/// Whether a server takes a client that trusts it, with the certificate of a node or none.
#[tokio::main(flavor = "current_thread")]
async fn is_let_in(url: &str, certificates: &Path, with_own: bool) -> bool {
    let file = |name: &str| certificates.join(name);
    let mut options = ConnectOptions::new().add_root_certificates(file("ca.crt"));
    if with_own {
        options = options.add_client_certificate(file("client.crt"), file("client.key"));
    }
    let Ok(client) = options.require_tls(true).connect(url).await else {
        return false;
    };
    client.flush().await.is_ok()
}

/// A client that trusts the nodes, and shows no certificate.
fn trusting(certificates: &Path) -> Agent {
    let pem = fs::read(certificates.join("ca.crt")).unwrap();
    let authority = Certificate::from_pem(&pem).unwrap();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&[authority]))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    let config = Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(PATIENCE));
    config.build().new_agent()
}

fn reserve(cluster: &Nodes, node: usize, uid: &str) {
    let api = &cluster.daemon(node).api;
    let path = format!("{api}/v1/namespaces/{}/reservations", name(0));
    let answer = agent(PATIENCE).post(path).send_json(reservation(uid, 1));
    let mut answer = answer.unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert_eq!(answer.status(), 201, "n{node}: {text}");
}
