//! Callers of a real daemon: tokens, roles, certificates, and what is never logged.

#![expect(clippy::unwrap_used, reason = "where a test panics says what is wrong")]

mod rewritten;

use quota_test_support::programs;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustix::process::{Pid, Signal, kill_process};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A daemon in a directory of its own, with all that it logs.
struct Daemon {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Lines before this one are old.
    since: usize,
    reading: Option<JoinHandle<()>>,
    api: String,
    admin: String,
}

impl Daemon {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
        command.current_dir(directory).env_clear();
        command.env("QUOTAD_SHUTDOWN__DRAIN", "0s");
        command.args(["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0"]);
        command.args(["--log.level=trace", "--log.format=json"]);
        let mut child = command
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let kept = log.clone();
        let reading = std::thread::spawn(move || {
            for line in lines {
                kept.lock().unwrap().push(line.unwrap());
            }
        });
        let mut daemon = Self {
            child,
            log,
            since: 0,
            reading: Some(reading),
            api: String::new(),
            admin: String::new(),
        };
        let ready = daemon.line("ready");
        daemon.api = ready["api"].as_str().unwrap().to_owned();
        daemon.admin = ready["admin"].as_str().unwrap().to_owned();
        daemon
    }

    /// The first line with this message since the last reload, once it is there.
    fn line(&mut self, message: &str) -> Value {
        loop {
            let lines = self.log.lock().unwrap()[self.since..].to_vec();
            // Most lines are of something else, and need not be read as JSON.
            let mut parsed = lines
                .iter()
                .filter(|line| line.contains(message))
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            if let Some(line) = parsed.find(|line| line["message"] == message) {
                return line;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
    }

    /// Sends a request with a token; status and body.
    fn call(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let stream = TcpStream::connect(&self.api).unwrap();
        exchange(stream, token, method, path, body)
    }

    fn reload(&mut self, message: &str) {
        self.since = self.log.lock().unwrap().len();
        kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
        self.line(message);
    }

    /// Stops it; all that was logged.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.reading.take().unwrap().join().unwrap();
        self.log.lock().unwrap().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn exchange(
    mut stream: impl Read + Write,
    token: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let authorization = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{authorization}"
    );
    write!(
        stream,
        "{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (
        status,
        serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())),
    )
}

/// Makes a token with quotactl.
fn create(file: &Path, arguments: &str) -> String {
    let mut command = Command::new(crate::programs::quotactl());
    command.args(["token", "create", "--file"]).arg(file);
    let output = command.args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

fn quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "10"}},
    })
}

fn reservation(uid: &str) -> Value {
    json!({"reservedBy": {"uid": uid}, "reserved": {"requests.cpu": "1"}})
}

fn batch(atomic: bool) -> Value {
    let item = |namespace: &str, uid: &str| {
        let mut item = reservation(uid);
        item["namespace"] = namespace.into();
        item
    };
    json!({"atomic": atomic, "items": [item("team-a", "u2"), item("other", "u3")]})
}

/// The busiest requests pass by the router, unless they are written in an unusual way.
#[test]
fn reservations_are_answered_alike_past_the_router_and_through_it() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let ci = &create(&file, "--principal ci --role reserve -n team-*");
    let admin = &create(&file, "--principal root --role admin,read -A");
    let daemon = Daemon::start(directory.path(), &["--auth.tokens_file=tokens.toml"]);
    let quotas = "/v1/namespaces/team-a/quotas/q";
    assert_eq!(daemon.call(admin, "PUT", quotas, Some(quota())).0, 201);

    let both = [("team-a", "uid-1"), ("team%2Da", "uid-2")].map(|(namespace, uid)| {
        let all = format!("/v1/namespaces/{namespace}/reservations");
        let (one, none) = (format!("{all}/{uid}"), format!("{all}/nobody"));
        let text = |(status, answer): (u16, Value)| {
            let shown = [
                "reason",
                "detail",
                "errors",
                "state",
                "reserved",
                "reservedBy",
            ];
            let shown = shown.map(|field| answer[field].clone());
            format!("{status} {shown:?}").replace(uid, "uid")
        };
        [
            ("", "POST", &all, Some(reservation(uid))),
            (admin, "POST", &all, Some(reservation(uid))),
            (ci, "POST", &all, Some(json!({ "reserved": 1 }))),
            (ci, "POST", &all, Some(json!([]))),
            (ci, "POST", &all, Some(json!({}))),
            (ci, "POST", &all, None),
            (ci, "POST", &all, Some(reservation(uid))),
            (ci, "POST", &all, Some(reservation(uid))),
            ("qlt_a_b", "DELETE", &one, None),
            (admin, "DELETE", &one, None),
            (ci, "DELETE", &none, None),
            (ci, "DELETE", &one, None),
            (ci, "DELETE", &one, None),
        ]
        .map(|(token, method, path, body)| text(daemon.call(token, method, path, body)))
    });
    let [past, through] = &both;
    assert_eq!(past, through);
    let statuses = past.each_ref().map(|answer| &answer[..3]);
    assert_eq!(statuses[..2], ["401", "403"]);
    assert_eq!(statuses[6..12], ["201", "200", "401", "403", "404", "204"]);
    let metrics = TcpStream::connect(&daemon.admin).unwrap();
    let (_, metrics) = exchange(metrics, "", "GET", "/metrics", None);
    let route = "route=\"/v1/namespaces/{namespace}/reservations/{uid}\",method=\"DELETE\"";
    for (code, count) in [(401, 2), (403, 2), (404, 2)] {
        let line = format!("quota_ledger_http_requests_total{{{route},code=\"{code}\"}} {count}");
        let shown = metrics.as_str().unwrap().lines().any(|shown| shown == line);
        assert!(shown, "{line}: {metrics}");
    }
}

#[test]
fn callers_may_do_what_their_tokens_say() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let ci = create(&file, "--principal ci --role reserve -n team-*");
    let admin = create(&file, "--principal root --role admin,read -A");
    let mut daemon = Daemon::start(directory.path(), &["--auth.tokens_file=tokens.toml"]);
    let quotas = "/v1/namespaces/team-a/quotas/q";
    let reservations = "/v1/namespaces/team-a/reservations";

    assert_eq!(daemon.call("", "PUT", quotas, Some(quota())).0, 401);
    assert_eq!(daemon.call("qlt_a_b", "PUT", quotas, Some(quota())).0, 401);
    let (status, problem) = daemon.call(&ci, "PUT", quotas, Some(quota()));
    assert_eq!((status, &problem["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        problem["detail"],
        "ci needs the role admin in the namespace team-a"
    );
    assert_eq!(daemon.call(&admin, "PUT", quotas, Some(quota())).0, 201);
    assert_eq!(
        daemon
            .call(&admin, "POST", reservations, Some(reservation("u1")))
            .0,
        403
    );
    assert_eq!(
        daemon
            .call(&ci, "POST", reservations, Some(reservation("u1")))
            .0,
        201
    );
    let other = "/v1/namespaces/other/reservations";
    assert_eq!(
        daemon.call(&ci, "POST", other, Some(reservation("u9"))).0,
        403
    );

    let path = "/v1/reservations:batch";
    let (status, problem) = daemon.call(&ci, "POST", path, Some(batch(true)));
    assert_eq!((status, &problem["index"]), (403, &json!(1)), "{problem}");
    assert_eq!(problem["reason"], "Forbidden");
    let (status, answer) = daemon.call(&ci, "POST", path, Some(batch(false)));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["items"][0]["status"], 201, "{answer}");
    assert_eq!(answer["items"][1]["status"], 403, "{answer}");
    assert_eq!(
        answer["items"][1]["detail"],
        "ci needs the role reserve in the namespace other"
    );

    // The principals are the actors.
    let (_, entries) = daemon.call(&admin, "GET", "/v1/entries?namespace=team-a", None);
    let actors: Vec<_> = entries["items"].as_array().unwrap().iter().collect();
    let actors: Vec<_> = actors
        .iter()
        .map(|entry| &entry["actor"]["principal"])
        .collect();
    assert_eq!(actors, ["root", "ci", "ci"], "{entries}");

    // A new file comes into force, an invalid one does not, and no secret is shown.
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}\n{admin}")).unwrap();
    daemon.reload("the new tokens file cannot be used, the old one stays");
    assert_eq!(daemon.call(&ci, "GET", reservations, None).0, 200);
    let without_ci = before.split("[[tokens]]").last().unwrap();
    fs::write(&file, format!("[[tokens]]{without_ci}")).unwrap();
    daemon.reload("a new tokens file is in force");
    assert_eq!(daemon.call(&ci, "GET", reservations, None).0, 401);
    assert_eq!(daemon.call(&admin, "GET", reservations, None).0, 200);

    let metrics = TcpStream::connect(&daemon.admin).unwrap();
    let (_, metrics) = exchange(metrics, "", "GET", "/metrics", None);
    for line in [
        "quota_ledger_auth_refused_total{reason=\"missing\"} 1",
        "quota_ledger_auth_refused_total{reason=\"unknown\"} 2",
        "quota_ledger_auth_refused_total{reason=\"role\"} 2",
        "quota_ledger_auth_refused_total{reason=\"namespace\"} 3",
        "quota_ledger_tokens_reload_failures_total 1",
    ] {
        assert!(
            metrics.as_str().unwrap().lines().any(|shown| shown == line),
            "{line}: {metrics}"
        );
    }
    let log = daemon.stop();
    for token in [&ci, &admin] {
        let secret = token.rsplit('_').next().unwrap();
        assert!(!log.contains(&secret[..16]), "a secret was logged");
    }
    assert!(log.contains("request refused"));
}

#[test]
fn nothing_is_served_without_the_file_that_is_wanted() {
    let directory = TempDir::new().unwrap();
    let exit_code = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
        command
            .current_dir(directory.path())
            .env_clear()
            .arg("--admin.listen=127.0.0.1:0");
        let output = command
            .args(["--listen=127.0.0.1:0", argument])
            .output()
            .unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), log)
    };
    let (code, log) = exit_code("--auth.tokens_file=nowhere.toml");
    assert_eq!(code, Some(3), "{log}");
    assert!(
        log.contains("auth.tokens_file = nowhere.toml: cannot be read"),
        "{log}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
    command.current_dir(directory.path()).env_clear();
    let output = command.arg("--listen=0.0.0.0:0").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("auth.allow_anonymous_non_loopback"), "{log}");
}

/// Certificates of a server and of a client, and who has signed them.
struct Certificates {
    directory: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new(directory: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let certificates = Self {
            directory: directory.to_owned(),
            authority,
        };
        fs::write(directory.join("ca.pem"), certificates.authority.pem()).unwrap();
        for name in ["quota.svc", "bridge.svc", "stranger.svc"] {
            certificates.sign(name);
        }
        certificates
    }

    fn sign(&self, name: &str) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.directory.join(format!("{name}.pem")), signed.pem()).unwrap();
        fs::write(
            self.directory.join(format!("{name}.key")),
            key.serialize_pem(),
        )
        .unwrap();
    }

    fn connect(&self, address: &str, name: Option<&str>) -> impl Read + Write {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let path = |end: &str| self.directory.join(format!("{name}.{end}"));
                let chain = vec![CertificateDer::from_pem_file(path("pem")).unwrap()];
                let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let server = ServerName::try_from("quota.svc").unwrap();
        let connection = ClientConnection::new(Arc::new(config), server).unwrap();
        StreamOwned::new(connection, TcpStream::connect(address).unwrap())
    }
}

#[test]
fn certificates_are_principals() {
    let directory = TempDir::new().unwrap();
    let certificates = Certificates::new(directory.path());
    let file = directory.path().join("tokens.toml");
    let reader = create(&file, "--principal reader --role read -A");
    let record = "\n[[certificates]]\nname = \"bridge.svc\"\nprincipal = \"bridge\"\n\
                  roles = [\"ingest\"]\nnamespaces = [\"*\"]\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + record).unwrap();
    let daemon = Daemon::start(
        directory.path(),
        &[
            "--auth.tokens_file=tokens.toml",
            "--tls.cert=quota.svc.pem",
            "--tls.key=quota.svc.key",
            "--tls.client_ca=ca.pem",
            "--tls.allowed_names=kube-apiserver",
            "--tls.api=true",
        ],
    );
    let call = |name, token: &str, method: &str, path: &str, body| {
        exchange(
            certificates.connect(&daemon.api, name),
            token,
            method,
            path,
            body,
        )
    };
    let event = json!([{
        "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com",
        "name": "w1", "uid": "w1", "resourceVersion": "1", "usage": {},
    }]);
    let bridge = Some("bridge.svc");
    let (status, answer) = call(bridge, "", "POST", "/v1/events", Some(event));
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    assert_eq!(call(bridge, "", "GET", "/v1/quotas", None).0, 403);
    assert_eq!(
        call(Some("stranger.svc"), "", "GET", "/v1/quotas", None).0,
        401
    );
    assert_eq!(call(None, "", "GET", "/v1/quotas", None).0, 401);
    let (status, entries) = call(None, &reader, "GET", "/v1/entries", None);
    assert_eq!(status, 200);
    assert_eq!(
        entries["items"][0]["actor"]["principal"], "bridge",
        "{entries}"
    );
    // The token counts, not the certificate.
    assert_eq!(call(bridge, &reader, "GET", "/v1/entries", None).0, 200);
    assert_eq!(call(bridge, "qlt_a_b", "POST", "/v1/events", None).0, 401);
}
