//! Certificates of callers, at the webhook's listener and at the API's.

use std::{
    fs,
    io::{self, Read as _},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use quota_client::tokens::{Certificate, File, Pattern, Role};
use rcgen::{DnType, SanType};
use rustix::process::{Signal, kill_process};
use rustls::{
    ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    review,
    support::{
        PATIENCE,
        certificates::{self, Authority, Pair, authority, signed_with},
        exchange::exchange,
        quotad::Quotad,
    },
};

type Connection = StreamOwned<ClientConnection, TcpStream>;

/// The names that the webhook's listener lets in, and that have a record for the API.
const ALLOWED: [&str; 3] = ["kube-apiserver", "10.1.2.3", "hook@example.com"];

/// A daemon that identifies callers by certificates, at both listeners.
struct Served {
    daemon: Quotad,
    server_ca: Authority,
    client_ca: Authority,
    directory: TempDir,
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// A certificate with these names that is good for so long.
fn signed(authority: &Authority, common: &str, names: Vec<SanType>, good_for: Duration) -> Pair {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    signed_with(authority, |params| {
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = names;
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + good_for);
    })
}

const LONG: Duration = Duration::from_secs(24 * 3600);

impl Served {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let (server_ca, client_ca) = (authority(), authority());
        let put = |name: &str, text: String| fs::write(directory.path().join(name), text).unwrap();
        certificates::signed(&server_ca, &["quota.svc"]).write(directory.path(), "tls");
        put("ca.crt", client_ca.pem());
        let record = |name: &str| Certificate {
            name: name.to_owned(),
            principal: format!("principal-{name}"),
            roles: vec![Role::Read, Role::Reserve, Role::Admin],
            namespaces: vec![Pattern::all()],
        };
        let file = File { certificates: ALLOWED.map(record).into(), ..File::default() };
        put("tokens.toml", file.to_toml().unwrap());
        let allowed = format!("--tls.allowed_names={}", ALLOWED.join(","));
        let arguments = [
            "--auth.tokens_file=tokens.toml",
            "--admission.listen=127.0.0.1:0",
            "--tls.cert=tls.crt",
            "--tls.key=tls.key",
            "--tls.client_ca=ca.crt",
            &allowed,
            "--tls.api=true",
            // So that nothing else ends a connection.
            "--limits.keep_alive=1h",
        ];
        Self {
            daemon: Quotad::start(directory.path(), &arguments),
            server_ca,
            client_ca,
            directory,
        }
    }

    /// What somebody with this certificate connects with, who remembers sessions.
    fn client(
        &self,
        own: &Pair,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        Arc::new(certificates::client(&self.server_ca.pem(), Some(own), versions))
    }

    /// The same with these DNS names, and whatever is spoken.
    fn client_with(&self, authority: &Authority, names: &[&str]) -> Arc<ClientConfig> {
        self.client(&certificates::signed(authority, names), &[&TLS13, &TLS12])
    }

    fn connect(&self, listener: &str, client: &Arc<ClientConfig>) -> Connection {
        let stream = TcpStream::connect(self.daemon.ready[listener].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let server = ServerName::try_from("quota.svc").unwrap();
        let connection = ClientConnection::new(client.clone(), server).unwrap();
        StreamOwned::new(connection, stream)
    }

    /// Whether somebody is served by the webhook over a connection of its own.
    fn serves(&self, client: &Arc<ClientConfig>) -> bool {
        admits(&mut self.connect("admission", client)).is_ok()
    }
}

/// Asks over a connection, which stays open.
fn ask(stream: &mut Connection, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
    let headers = [("content-type", "application/json")];
    let answer = exchange(stream, (method, path), &headers, body.as_bytes())?;
    Ok((answer.status, answer.json()))
}

/// Has a pod admitted.
fn admits(stream: &mut Connection) -> io::Result<()> {
    let pod = review("a", "p", "1").to_string();
    let (status, answer) = ask(stream, "POST", "/admit?timeout=10s", &pod)?;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    Ok(())
}

/// Waits until the other side ends the connection, in either way that TLS has for it.
fn ends(stream: &mut Connection) {
    match stream.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0, "nothing was asked"),
        Err(error) => assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it goes on"),
    }
}

#[test]
fn an_expired_certificate_is_not_good_for_a_session_of_before() {
    let served = Served::start();
    for version in [&TLS13, &TLS12] {
        // Long enough that one connection is made, however busy the machine is.
        let connected = [3, 10, 60].into_iter().find_map(|seconds| {
            let good_for = Duration::from_secs(seconds);
            let names = vec![dns("kube-apiserver")];
            let certificate = signed(&served.client_ca, "", names, good_for);
            let client = served.client(&certificate, &[version]);
            let mut first = served.connect("admission", &client);
            admits(&mut first).ok()?;
            Some((client, first))
        });
        let (client, mut first) = connected.unwrap();
        let deadline = Instant::now() + 2 * PATIENCE;
        while served.serves(&client) {
            assert!(Instant::now() < deadline, "it is served for ever: {version:?}");
        }
        for _ in 0..3 {
            assert!(!served.serves(&client), "{version:?}");
        }
        // Nor is it good for the connection that it has opened.
        ends(&mut first);
    }
    assert!(served.serves(&served.client_with(&served.client_ca, &["kube-apiserver"])));
}

/// Takes other CA certificates into force.
fn trust(served: &Served, authorities: &[&Authority]) {
    let pem: String = authorities.iter().map(|authority| authority.pem()).collect();
    // Renamed, so that it is there at once.
    let path = |name: &str| served.directory.path().join(name);
    fs::write(path("ca.new"), pem).unwrap();
    fs::rename(path("ca.new"), path("ca.crt")).unwrap();
    kill_process(served.daemon.pid(), Signal::HUP).unwrap();
}

#[test]
fn a_connection_ends_when_its_ca_is_gone() {
    let served = Served::start();
    let (old, new) = (&served.client_ca, &authority());
    let of_old = served.client_with(old, &["kube-apiserver"]);
    let of_new = served.client_with(new, &["kube-apiserver"]);
    let mut idle = ["admission", "api"].map(|listener| served.connect(listener, &of_old));
    let usage = |stream: &mut Connection| ask(stream, "GET", "/v1/namespaces/a/usage", "");
    admits(&mut idle[0]).unwrap();
    assert_eq!(usage(&mut idle[1]).unwrap().0, 200);

    trust(&served, &[old, new]);
    let deadline = Instant::now() + PATIENCE;
    while !served.serves(&of_new) {
        assert!(Instant::now() < deadline, "the new CA is not in force");
    }
    let mut kept = served.connect("admission", &of_new);
    admits(&mut kept).unwrap();
    // As long as its CA is there, a connection goes on.
    admits(&mut idle[0]).unwrap();
    assert_eq!(usage(&mut idle[1]).unwrap().0, 200);

    trust(&served, &[new]);
    for stream in &mut idle {
        ends(stream);
    }
    assert!(!served.serves(&of_old));
    admits(&mut kept).unwrap();
}

#[test]
fn callers_are_known_by_names_of_the_right_type_alone() {
    let served = Served::start();
    let mail = |text: &str| SanType::Rfc822Name(text.try_into().unwrap());
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let address = || SanType::IpAddress("10.1.2.3".parse().unwrap());
    for (common, names) in [
        ("kube-apiserver", vec![]),
        ("kube-apiserver", vec![dns("kubelet")]),
        ("", vec![mail("kube-apiserver")]),
        ("", vec![mail("hook@example.com")]),
        ("", vec![uri("kube-apiserver")]),
        ("10.1.2.3", vec![address()]),
        ("", vec![address(), dns("kube-apiserver.evil.example")]),
    ] {
        let certificate = signed(&served.client_ca, common, names.clone(), LONG);
        let client = served.client(&certificate, &[&TLS13, &TLS12]);
        let what = format!("{common} {names:?}");
        assert!(!served.serves(&client), "{what}");
        // At the API the certificate is one of nobody.
        let mut api = served.connect("api", &client);
        let (status, answer) = ask(&mut api, "GET", "/v1/namespaces/a/usage", "").unwrap();
        assert_eq!((status, &answer["reason"]), (401, &"Unauthorized".into()), "{what}");
    }
    assert!(served.serves(&served.client_with(&served.client_ca, &["kube-apiserver"])));
    // Its own name by another CA is nobody's either.
    assert!(!served.serves(&served.client_with(&authority(), &["kube-apiserver"])));
}

/// Who caused the entries of the namespace.
fn actors(served: &Served, client: &Arc<ClientConfig>) -> Vec<String> {
    let mut api = served.connect("api", client);
    let (status, entries) = ask(&mut api, "GET", "/v1/entries?namespace=a", "").unwrap();
    assert_eq!(status, 200, "{entries}");
    let entries = entries["items"].as_array().unwrap();
    let actor = |entry: &Value| entry["actor"]["principal"].as_str().unwrap().to_owned();
    entries.iter().map(actor).collect()
}

#[test]
fn the_actor_is_the_name_that_is_allowed() {
    let served = Served::start();
    let client = served.client_with(&served.client_ca, &["first.example", "kube-apiserver"]);
    let mut api = served.connect("api", &client);
    let quota = r#"{"spec":{"hard":{"pods":"9"}}}"#;
    let (status, answer) = ask(&mut api, "PUT", "/v1/namespaces/a/quotas/q", quota).unwrap();
    assert_eq!(status, 201, "{answer}");
    assert!(served.serves(&client));
    // At the API it is the principal of the name that has a record.
    let expected = ["principal-kube-apiserver", "kube-apiserver"];
    assert_eq!(actors(&served, &client), expected);
}
