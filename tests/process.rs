//! The daemon as a supervisor sees it: arguments, signals, exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quota_test_support as support;

use std::{
    fs::Permissions,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{FileExt as _, PermissionsExt as _},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use rustix::process::{Signal, kill_process};
use support::quotad::{Quotad, REQUEST, agent, command};
use tempfile::TempDir;

/// Where its health and metrics are.
fn admin(daemon: &Quotad) -> &str {
    daemon.ready["admin"].as_str().unwrap()
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn it_starts_tells_how_it_is_and_stops() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = TempDir::new().unwrap();
        let daemon = Quotad::start(directory.path(), &[]);
        assert_eq!(daemon.ask_admin("/livez").0, 200);
        assert_eq!(daemon.ask_admin("/readyz"), (200, "ok".to_owned()));
        let (_, metrics) = daemon.ask_admin("/metrics");
        assert!(metrics.contains("\nquota_ledger_poisoned 0\n"));
        kill_process(daemon.pid(), Signal::HUP).unwrap();
        daemon.logged("reading certificates and tokens again");
        kill_process(daemon.pid(), signal).unwrap();
        assert_eq!(daemon.wait().code(), Some(0));
    }
}

/// Receives one request by HTTP, answers that all is well, and gives its body.
fn receive(listener: &TcpListener) -> Vec<u8> {
    let (mut connection, _) = listener.accept().unwrap();
    connection
        .set_read_timeout(Some(support::PATIENCE))
        .unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    connection
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    body
}

#[test]
fn a_request_continues_the_trace_of_its_caller_and_its_decision_is_part_of_it() {
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = TempDir::new().unwrap();
    let address = receiver.local_addr().unwrap();
    let url = format!("--traces.otlp_url=http://{address}/v1/traces");
    let daemon = Quotad::start(directory.path(), &[url]);
    let (trace, caller) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let sent = |flags: &str| {
        agent(REQUEST)
            .post(format!("{}/v1/namespaces/a/reservations", daemon.api))
            .header("traceparent", format!("00-{trace}-{caller}-{flags}"))
            .content_type("application/json")
            .send(
                r#"{"reservedBy":{"kind":"Pod","name":"web","uid":"u1"},"reserved":{"pods":"1"}}"#,
            )
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(sent("00"), 201, "its caller did not sample this one");
    assert_eq!(sent("01"), 200);
    // What is left is sent at the end.
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    let sent = ExportTraceServiceRequest::decode(receive(&receiver).as_slice()).unwrap();
    assert_eq!(daemon.wait().code(), Some(0));

    let [resource] = sent.resource_spans.as_slice() else {
        panic!("{sent:?}")
    };
    let described = format!("{:?}", resource.resource);
    assert!(
        described.contains(r#"StringValue("quotad")"#),
        "{described}"
    );
    let spans: Vec<_> = resource
        .scope_spans
        .iter()
        .flat_map(|scope| &scope.spans)
        .collect();
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let [decision, request] = spans.as_slice() else {
        panic!("{spans:?}")
    };
    assert_eq!(request.name, "POST /v1/namespaces/{namespace}/reservations");
    assert_eq!(hex(&request.trace_id), trace);
    assert_eq!(hex(&request.parent_span_id), caller);
    let attributes = format!("{:?}", request.attributes);
    assert!(
        attributes.contains("http.response.status_code"),
        "{attributes}"
    );
    assert_eq!(decision.name, "decide");
    assert_eq!(hex(&decision.trace_id), trace);
    assert_eq!(decision.parent_span_id, request.span_id);
}

#[test]
fn systemd_is_told_of_replay_start_and_stop() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&file).unwrap();
    systemd.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let told = || {
        let mut message = [0; 256];
        let length = systemd.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let start = || {
        let mut command = command(directory.path());
        Quotad::try_start(directory.path(), command.env("NOTIFY_SOCKET", &file)).unwrap()
    };
    let serving = "READY=1\nSTATUS=ready";

    let daemon = start();
    assert_eq!(told(), serving, "an empty ledger has nothing to replay");
    for pods in ["1", "2"] {
        let quota = serde_json::json!({ "spec": { "hard": { "pods": pods } } });
        let path = format!("{}/v1/namespaces/demo/quotas/compute", daemon.api);
        let answer = agent(REQUEST).put(path).send_json(quota).unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
    // Without the snapshot of an orderly end there is something to replay.
    daemon.kill();
    let daemon = start();
    assert_eq!(told(), "STATUS=replaying the ledger: entry 2 of 2");
    assert_eq!(told(), serving);
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    assert_eq!(told(), "STOPPING=1\nSTATUS=stopping");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let directory = TempDir::new().unwrap();
        let patient = ["--limits.header-timeout=1h", "--shutdown.grace=1h"];
        let daemon = Quotad::start(directory.path(), &patient.map(str::to_owned));
        // Half a request keeps it from stopping, once it was accepted, which the next answer shows.
        let mut half = TcpStream::connect(admin(&daemon)).unwrap();
        half.write_all(b"GET /livez HTT").unwrap();
        daemon.ask_admin("/livez");
        kill_process(daemon.pid(), signal).unwrap();
        daemon.logged("stopping");
        kill_process(daemon.pid(), signal).unwrap();
        assert_eq!(daemon.wait().code(), Some(code));
    }
}

/// What a background thread finds is as final as what is found at start, and has the same exit code.
#[test]
fn damage_that_is_found_while_it_serves_ends_it_as_damage_at_start_does() {
    let directory = TempDir::new().unwrap();
    let start = |directory: &TempDir| {
        let mut command = command(directory.path());
        command.arg("--journal.segment-bytes=1MiB");
        Quotad::try_start(directory.path(), &mut command)
    };
    let daemon = start(&directory).unwrap();
    let quota = serde_json::json!({ "spec": { "hard": { "pods": "1" } } });
    let path = format!("{}/v1/namespaces/demo/quotas/compute", daemon.api);
    let answer = agent(REQUEST).put(path).send_json(quota).unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let segment = directory.path().join("data/log/00000000000000000001.log");
    let bytes = std::fs::read(&segment).unwrap();
    let mut names = bytes.windows(7).enumerate();
    let (at, _) = names.find(|(_, name)| name == b"compute").unwrap();
    let file = std::fs::File::options().write(true).open(&segment);
    file.unwrap().write_all_at(b"X", at as u64).unwrap();
    // So many entries that the frames of the segment go into an epoch.
    let name = "n".repeat(180);
    let events = (0..8000).map(|number| {
        format!(
            r#"{{"type":"ADDED","object":{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"uid":"u-{number}","namespace":"demo","name":"{name}-{number}","resourceVersion":"1"}}}}}}"#
        )
    });
    let events = events.collect::<Vec<_>>().join("\n");
    // The daemon may end before it answers.
    let _ = agent(REQUEST)
        .post(format!("{}/v1/events", daemon.api))
        .send(events);
    let said = daemon.logged("the ledger is damaged");
    assert_eq!(said["exit_code"], 4, "{said}");
    assert_eq!(daemon.wait().code(), Some(4));
    let again = start(&directory).err().unwrap();
    assert_eq!(again.status.code(), Some(4), "{}", again.said);
}

#[test]
fn it_ends_when_its_ledger_is_taken_away_and_goes_on_when_it_is_put_back() {
    let directory = TempDir::new().unwrap();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| directory.path().join(name));
    let lock = data.join("LOCK");
    let move_away = || std::fs::rename(&data, &elsewhere).unwrap();
    let exchange = || {
        move_away();
        std::fs::create_dir(&data).unwrap();
        std::fs::copy(elsewhere.join("LOCK"), &lock).unwrap();
    };
    let unlock = || std::fs::remove_file(&lock).unwrap();
    let ways: [&dyn Fn(); 3] = [&move_away, &exchange, &unlock];
    for take_away in ways {
        let daemon = Quotad::start(directory.path(), &[]);
        take_away();
        daemon.logged("the ledger was taken away");
        assert_eq!(daemon.wait().code(), Some(4));
        if elsewhere.exists() {
            let _ = std::fs::remove_dir_all(&data);
            std::fs::rename(&elsewhere, &data).unwrap();
        }
    }
    let daemon = Quotad::start(directory.path(), &[]);
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn the_configuration_is_checked() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "[nats]\nstream = \"FILE\"\n").unwrap();
    let (code, stdout, stderr) = output(
        command(directory.path())
            .arg("check-config")
            .env("QUOTAD_DATA_DIR", "env"),
    );
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for line in [
        "listen = \"127.0.0.1:0\" # flag --listen",
        "data_dir = \"env\" # environment QUOTAD_DATA_DIR",
        "stream = \"FILE\" # config.toml line 2",
        "subject = \"quota.objects.>\"",
    ] {
        assert!(
            stdout.lines().any(|printed| printed == line),
            "{line} is not in {stdout}"
        );
    }

    std::fs::write(&file, "[nats]\nsteam = \"FILE\"\n").unwrap();
    for arguments in [&["check-config"][..], &[]] {
        let (code, stdout, stderr) = output(command(directory.path()).args(arguments));
        assert_eq!((code, stdout.as_str()), (Some(3), ""));
        let expected = "nats.steam: unknown key; did you mean nats.stream? (config.toml line 2)\n";
        assert_eq!(stderr, expected);
    }
}

#[test]
fn wrong_usage_and_a_taken_address_have_their_codes() {
    let directory = TempDir::new().unwrap();
    assert_eq!(
        output(command(directory.path()).arg("--lisen=x")).0,
        Some(2)
    );
    let (code, version, _) = output(command(directory.path()).arg("--version"));
    let expected = concat!("quotad ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
    assert_eq!(code, Some(0));

    let daemon = Quotad::start(directory.path(), &[]);
    let other = TempDir::new().unwrap();
    let mut second = Command::new(env!("CARGO_BIN_EXE_quotad"));
    second
        .current_dir(&other)
        .env_clear()
        .arg("--listen=127.0.0.1:0");
    let (code, _, stderr) = output(second.arg(format!("--admin.listen={}", admin(&daemon))));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot listen on admin.listen"), "{stderr}");
}

#[test]
fn what_lets_others_in_is_warned_about() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    let config = "[admin]\nlisten = \"0.0.0.0:0\"\n[admission]\nlisten = \"127.0.0.1:0\"\n[auth]\nallow_anonymous_non_loopback = true\n\
        [tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\n";
    std::fs::write(file, config).unwrap();
    let made = Command::new(crate::support::programs::quotactl())
        .args(["generate", "certs", "--host", "localhost", "--dir"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut check = Command::new(env!("CARGO_BIN_EXE_quotad"));
    check.current_dir(directory.path()).env_clear();
    let (code, _, stderr) = output(check.arg("check-config"));
    assert_eq!(code, Some(0));
    let told: Vec<_> = stderr.lines().collect();
    let keys = [
        "admin.listen",
        "admission.listen",
        "auth.allow_anonymous_non_loopback",
    ];
    assert_eq!(told.len(), keys.len(), "{stderr}");
    for (line, key) in told.iter().zip(keys) {
        assert!(line.starts_with(&format!("warning: {key}: ")), "{line}");
    }

    // Here it is on loopback only, by a flag.
    let daemon = Quotad::start(directory.path(), &[]);
    let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
    let warned: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["level"] == "WARN" && line["key"].is_string())
        .collect();
    assert_eq!(warned.len(), 2, "{log}");
    assert_eq!(warned[0]["key"], keys[1]);
    assert_eq!(warned[1]["key"], keys[2]);
    drop(daemon);
}

#[test]
fn a_page_that_has_its_name_lead_here_gets_nothing() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(file, "[http]\nallowed_hosts = [\"quotad.quota.svc\"]\n").unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let get = |address: &str, path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let api = daemon.ready["api"].as_str().unwrap();
    for path in [
        "/v1/quotas",
        "/api/v1/resourcequotas",
        "/v1/namespaces/a/reservations",
        "/nowhere",
    ] {
        for host in ["evil.example", "evil.example:8480", "", "10.0.0.1"] {
            let refused = get(api, path, host);
            assert!(refused.starts_with("HTTP/1.1 421 "), "{host}: {refused}");
            assert!(refused.contains("application/problem+json"), "{refused}");
            assert!(refused.contains("\"reason\":\"Misdirected\""), "{refused}");
        }
    }
    for host in [api, "localhost", "127.0.0.1", "quotad.quota.svc:8480"] {
        let answer = get(api, "/v1/quotas", host);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    // Probes and Prometheus come by the pod's address or by a name.
    for host in ["10.1.2.3:8481", "quotad.quota.svc"] {
        for path in ["/readyz", "/metrics"] {
            let answer = get(admin(&daemon), path, host);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
        }
    }
}

/// Everything below a directory that others may look into.
fn open_to_others(directory: &Path) -> Vec<PathBuf> {
    let mut open = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        if metadata.permissions().mode() & 0o077 != 0 {
            open.push(path.clone());
        }
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    open
}

#[test]
fn others_cannot_read_the_ledger_nor_what_is_made_of_it() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let quota = serde_json::json!({ "spec": { "hard": { "pods": "1" } } });
    let path = format!("{}/v1/namespaces/demo/quotas/compute", daemon.api);
    assert!(
        agent(REQUEST)
            .put(path)
            .send_json(quota)
            .unwrap()
            .status()
            .is_success()
    );
    let quotactl = |arguments: &[&str]| {
        let mut command = Command::new(crate::support::programs::quotactl());
        let done = command
            .current_dir(&directory)
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    quotactl(&["backup", "copy", "--server", &daemon.api]);
    assert_eq!(daemon.stop().code(), Some(0));
    quotactl(&["ledger", "export", "--data-dir", "data", "export.txt"]);
    quotactl(&["ledger", "restore", "copy", "--data-dir", "restored"]);
    for name in ["data", "copy", "export.txt", "restored"] {
        let open = open_to_others(&directory.path().join(name));
        assert!(open.is_empty(), "{open:?}");
    }
}

/// Whoever goes by `/readyz` has no call fail, though it goes on for as long as that says yes.
#[test]
fn a_stop_is_announced_before_calls_are_refused() {
    let directory = TempDir::new().unwrap();
    let mut command = command(directory.path());
    command.env("QUOTAD_SHUTDOWN__DRAIN", "5s");
    let daemon = Quotad::try_start(directory.path(), &mut command).unwrap();
    let agent = agent(REQUEST);
    let reserve = |number: u64| {
        let url = format!("{}/v1/namespaces/demo/reservations", daemon.api);
        let body = serde_json::json!({
            "reservedBy": { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("u{number}") },
            "reserved": { "pods": "1" },
        });
        agent.post(url).send_json(body).unwrap()
    };
    let mut calls = 0;
    while daemon.is_ready() {
        assert_eq!(reserve(calls).status(), 201);
        calls += 1;
        if calls == 10 {
            kill_process(daemon.pid(), Signal::TERM).unwrap();
        }
    }
    assert!(calls >= 10);
    // One that has not looked yet is served as well, and learns from its answer that the connection ends.
    let late = reserve(calls);
    assert_eq!(late.status(), 201);
    assert_eq!(late.headers()["connection"], "close");
    assert_eq!(daemon.wait().code(), Some(0));
}

/// Limits that the webhook is not asked about are shown wherever the quota is, and so are quotas that others enforce too.
#[test]
fn limits_that_nothing_keeps_and_quotas_that_others_keep_too_are_shown() {
    let directory = TempDir::new().unwrap();
    let made = Command::new(support::programs::quotactl())
        .args(["generate", "certs", "--host=quotad.ns.svc", "--dir"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let arguments = [
        "--admission.listen=127.0.0.1:0",
        "--admission.count=[\"configmaps\"]",
        "--tls.cert=tls.crt",
        "--tls.key=tls.key",
    ];
    let daemon = Quotad::start(directory.path(), &arguments.map(str::to_owned));
    assert_eq!(daemon.ask_admin("/readyz"), (200, "ok".to_owned()));
    let agent = agent(REQUEST);
    let hard = serde_json::json!({ "pods": "1", "configmaps": "1", "secrets": "1", "count/widgets.x.y": "1" });
    let quota = serde_json::json!({ "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "q", "namespace": "demo", "uid": "1-2-3", "resourceVersion": "7" },
        "spec": { "hard": hard } });
    let why = "not enforced: count/widgets.x.y, secrets: ";
    let own = format!("{}/v1/namespaces/demo/quotas/q", daemon.api);
    let answer = agent.put(&own).send_json(&quota).unwrap();
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.starts_with(&format!("299 - \"{why}")), "{warning}");
    let object = format!("{}/api/v1/namespaces/demo/resourcequotas/q", daemon.api);
    for url in [&own, &object] {
        let text = agent.get(url).call().unwrap().body_mut().read_to_string();
        let shown: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        let condition = &shown["status"]["conditions"][0];
        assert_eq!(condition["type"], "Enforced", "{shown}");
        assert_eq!(condition["status"], "False");
        assert!(condition["message"].as_str().unwrap().starts_with(why));
    }
    let patched = agent
        .patch(&object)
        .header("content-type", "application/merge-patch+json")
        .send(r#"{"spec":{"hard":{"pods":"2"}}}"#)
        .unwrap();
    assert!(patched.headers()["warning"].to_str().unwrap().contains(why));
    let (_, metrics) = daemon.ask_admin("/metrics");
    let open: Vec<_> = metrics
        .lines()
        .filter(|line| line.starts_with("quota_ledger_limit_not_enforced{"))
        .collect();
    assert_eq!(open.len(), 2, "{open:?}");
    assert!(agent.delete(&own).call().unwrap().status().is_success());

    let event = serde_json::json!({ "type": "ADDED", "object": quota });
    let url = format!("{}/v1/events", daemon.api);
    let taken = agent
        .post(url)
        .send_json(serde_json::json!([event]))
        .unwrap();
    assert_eq!(taken.status(), 200);
    daemon.logged(
        "adopted quotas are enforced by the API server's own quota plugin as well, unless it is off \
         (quotas.plugin_is_off): docs/webhook.md says what follows",
    );
    let (status, text) = daemon.ask_admin("/readyz?verbose");
    assert_eq!(status, 200);
    assert!(
        text.contains("[+]quota-plugin ok, lagging: 1 adopted quotas"),
        "{text}"
    );
    let (_, metrics) = daemon.ask_admin("/metrics");
    assert!(
        metrics.contains("quota_ledger_quotas_enforced_twice 1\n"),
        "{metrics}"
    );
}

#[test]
fn an_application_has_a_quota_of_its_own_by_the_labels_of_its_objects() {
    let directory = TempDir::new().unwrap();
    let labels = |keys: &str| [format!("--groups.object_labels={keys}")];
    let daemon = Quotad::start(directory.path(), &labels("app"));
    let send = |method: &str, path: &str, body: serde_json::Value| {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", daemon.api))
            .header("Content-Type", "application/json")
            .body(body.to_string());
        let answer = agent(REQUEST).run(request.unwrap());
        let mut answer = answer.unwrap();
        (
            answer.status().as_u16(),
            answer.body_mut().read_to_string().unwrap(),
        )
    };
    let group = |key: &str| {
        serde_json::json!({
            "selector": {"labels": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}},
            "hard": {"pods": "2"},
            "objects": {"matchLabels": {key: "web"}},
        })
    };
    let (status, refused) = send("PUT", "/v1/groups/web", group("tier"));
    assert_eq!(status, 422, "{refused}");
    assert!(refused.contains("groups.object_labels: [app]"), "{refused}");
    assert_eq!(send("PUT", "/v1/groups/web", group("app")).0, 201);

    let pod = |namespace: &str, name: &str, app: &str| {
        serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name,
            "uid": name, "resourceVersion": "7", "labels": {"app": app}},
            "spec": {"containers": [{"name": "c"}]}})
    };
    let seen = serde_json::json!([{"type": "ADDED", "object": pod("a", "seen", "web")}]);
    assert_eq!(send("POST", "/v1/events", seen).0, 200);
    let reserve = |namespace: &str, name: &str, app: &str| {
        let wish = serde_json::json!({"object": pod(namespace, name, app)});
        let path = format!("/v1/namespaces/{namespace}/reservations");
        send("POST", &path, wish)
    };
    assert_eq!(reserve("a", "other", "db").0, 201);
    assert_eq!(reserve("b", "second", "web").0, 201);
    let (status, denied) = reserve("c", "third", "web");
    assert_eq!(status, 403, "{denied}");
    assert!(denied.contains("exceeded quota: web"), "{denied}");
    let (_, metrics) = daemon.ask_admin("/metrics");
    for line in [
        r#"openshift_clusterresourcequota_usage{name="web",resource="pods",type="used"} 1"#,
        r#"openshift_clusterresourcequota_usage{name="web",resource="pods",type="reserved"} 1"#,
        r#"openshift_clusterresourcequota_namespace_usage{name="web",resource="pods",type="used",namespace="a"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert_eq!(daemon.stop().code(), Some(0));

    // A label that a group chooses by cannot go.
    let refused = Quotad::try_start(directory.path(), command(directory.path()).args(labels("")));
    let refused = refused.err().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", refused.said);
    assert!(
        refused.said.contains("group web chooses objects by app"),
        "{}",
        refused.said
    );
    let daemon = Quotad::start(directory.path(), &labels("app,tier"));
    assert_eq!(
        daemon.get("/v1/groups/web/usage")["resources"][0]["used"],
        "1"
    );
}
