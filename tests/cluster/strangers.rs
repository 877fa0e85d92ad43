//! Strangers at the addresses that are for the other nodes: they are refused, and hold nobody up.

use std::{
    fs,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use serde_json::json;

use crate::{
    scratch,
    support::{
        PATIENCE,
        cluster::NODES,
        nodes::{Nodes, Setup},
        programs::create_token,
        quotad::agent,
    },
};

/// Slow connections of strangers at each node.
const SLOW: usize = 60;

/// Shorter than usual, so that the end of what is slow is seen soon.
const LIMITS: &str = "header_timeout = \"2s\"\nbody_timeout = \"2s\"\nkeep_alive = \"2s\"\nrequest_body_bytes = \"1MiB\"\n";

const RESERVATIONS: &str = "/v1/namespaces/team/reservations";

/// Base64 of a caller that may do everything.
pub(crate) const EVERYTHING: &str = "eyJwcmluY2lwYWwiOnsibmFtZSI6InJvb3QiLCJyb2xlcyI6WyJhZG1pbiIsInJlYWQiLCJyZXNlcnZlIl0sIm5hbWVzcGFjZXMiOlsiKiJdfX0";

#[test]
fn strangers_at_the_addresses_of_nodes_are_refused_and_hold_nobody_up() {
    let directory = scratch();
    let file = directory.path().join("tokens.toml");
    let token = |arguments: &str| create_token(&file, arguments);
    let admin = token("--principal root --role admin,read,reserve -A");
    let tenant = token("--principal tenant --role read,reserve -n team");
    let setup = Setup {
        nodes: format!("[auth]\ntokens_file = {:?}\n", file.display().to_string()),
        limits: LIMITS.to_owned(),
        token: admin.clone(),
        ..Setup::default()
    };
    let cluster = Nodes::start(directory.path(), setup);
    let quota = json!({"spec": {"hard": {"pods": "1000"}}});
    let put = agent(PATIENCE)
        .put(format!("{}/v1/namespaces/team/quotas/q", cluster.daemon(0).api))
        .header("authorization", format!("Bearer {admin}"))
        .send_json(quota);
    assert_eq!(put.unwrap().status(), 201);
    let secret = fs::read_to_string(directory.path().join("token")).unwrap();
    let addresses: Vec<_> = (0..NODES).map(|node| cluster.peer_address(node)).collect();

    for address in &addresses {
        for shown in [
            String::new(),
            bearer(&tenant),
            bearer(&admin),
            format!("{}quotad-actor: {EVERYTHING}\r\n", bearer(&admin)),
            format!("quotad-actor: {EVERYTHING}\r\n"),
            // Without telling whose request it is, the secret is of no use either.
            bearer(secret.trim()),
        ] {
            for (method, path) in [
                ("GET", "/v1/quotas"),
                ("GET", "/v1/cluster"),
                ("GET", "/nowhere"),
                ("POST", RESERVATIONS),
                ("POST", "/v1/cluster/init"),
                ("DELETE", "/v1/namespaces/team/quotas/q"),
            ] {
                let status = ask(*address, &format!("{}\r\n", head(method, path, &shown)));
                assert_eq!(status, Some(401), "{method} {path} with {shown:?}");
            }
        }
        // What is announced, or comes, is not read.
        let large = format!("content-length: {}\r\n", 1_u64 << 40);
        let status = ask(*address, &format!("{}{large}\r\n", head("POST", RESERVATIONS, "")));
        assert!(matches!(status, Some(401 | 413)), "{status:?}");
        let node = format!("{}quotad-actor: {EVERYTHING}\r\n", bearer(secret.trim()));
        let status = ask(*address, &format!("{}{large}\r\n", head("POST", RESERVATIONS, &node)));
        assert_eq!(status, Some(413), "a node may not either");
        let endless =
            format!("{}transfer-encoding: chunked\r\n\r\n", head("POST", RESERVATIONS, ""));
        assert_eq!(ask(*address, &(endless + "100000\r\nx")), Some(401));
    }

    let slow = addresses.iter().flat_map(|address| (0..SLOW).map(|number| begin(*address, number)));
    let slow: Vec<_> = slow.collect();
    for number in 0..20 {
        for node in 0..NODES {
            let uid = format!("u-{node}-{number}");
            let made = agent(PATIENCE)
                .post(format!("{}{RESERVATIONS}", cluster.daemon(node).api))
                .header("authorization", format!("Bearer {tenant}"))
                .send_json(json!({"reservedBy": {"uid": uid}, "reserved": {"pods": "1"}}));
            assert_eq!(made.unwrap().status(), 201, "{uid}");
        }
    }
    for mut stream in slow {
        // The node ends the connection, with an answer or without one; a reset is an end as well.
        let ended = stream.read_to_end(&mut Vec::new());
        let is_open =
            |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!ended.as_ref().is_err_and(is_open), "{ended:?}");
    }
    cluster.wait_until_same();
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n{more}"
    )
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The status of the answer to what is sent, which may be cut off.
fn ask(address: SocketAddr, text: &str) -> Option<u16> {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).ok()?;
    std::str::from_utf8(&begin[9..]).ok()?.parse().ok()
}

/// Begins a request, and does not go on with it.
fn begin(address: SocketAddr, number: usize) -> TcpStream {
    let mut stream = connect(address);
    let half = match number % 3 {
        0 => String::new(),
        1 => head("POST", RESERVATIONS, "authorization: Bea"),
        _ => head("POST", RESERVATIONS, "content-length: 100\r\n\r\n{"),
    };
    stream.write_all(half.as_bytes()).unwrap();
    stream
}
