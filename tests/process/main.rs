//! The daemon as a supervisor sees it: arguments, signals, exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod demo;
mod exposure;
mod limits;
mod shared;

use quota_testkit as support;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{fs::FileExt as _, net::UnixDatagram},
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
    let Output { status, stdout, stderr } = command.output().unwrap();
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
        assert!(metrics.contains("\nquota_ledger_snapshot_failures_total 0\n"));
        kill_process(daemon.pid(), Signal::HUP).unwrap();
        daemon.logged("reading certificates and tokens again");
        kill_process(daemon.pid(), signal).unwrap();
        assert_eq!(daemon.wait().code(), Some(0));
    }
}

/// Receives one request by HTTP, answers that all is well, and gives its body.
fn receive(listener: &TcpListener) -> Vec<u8> {
    let (mut connection, _) = listener.accept().unwrap();
    connection.set_read_timeout(Some(support::PATIENCE)).unwrap();
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
    let daemon = Quotad::start(directory.path(), &[&url]);
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

    let [resource] = sent.resource_spans.as_slice() else { panic!("{sent:?}") };
    let described = format!("{:?}", resource.resource);
    assert!(described.contains(r#"StringValue("quotad")"#), "{described}");
    let spans: Vec<_> = resource.scope_spans.iter().flat_map(|scope| &scope.spans).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let [decision, request] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(request.name, "POST /v1/namespaces/{namespace}/reservations");
    assert_eq!(hex(&request.trace_id), trace);
    assert_eq!(hex(&request.parent_span_id), caller);
    let attributes = format!("{:?}", request.attributes);
    assert!(attributes.contains("http.response.status_code"), "{attributes}");
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
    let notification = || {
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
    assert_eq!(notification(), serving, "an empty ledger has nothing to replay");
    for pods in ["1", "2"] {
        let quota = serde_json::json!({ "spec": { "hard": { "pods": pods } } });
        let path = format!("{}/v1/namespaces/demo/quotas/compute", daemon.api);
        let answer = agent(REQUEST).put(path).send_json(quota).unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
    // Without the snapshot of an orderly end there is something to replay.
    daemon.kill();
    let daemon = start();
    assert_eq!(notification(), "STATUS=replaying the ledger: entry 2 of 2");
    assert_eq!(notification(), serving);
    kill_process(daemon.pid(), Signal::TERM).unwrap();
    assert_eq!(notification(), "STOPPING=1\nSTATUS=stopping");
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let directory = TempDir::new().unwrap();
        let patient = ["--limits.header-timeout=1h", "--shutdown.grace=1h"];
        let daemon = Quotad::start(directory.path(), &patient);
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
    let _ = agent(REQUEST).post(format!("{}/v1/events", daemon.api)).send(events);
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
    let (code, stdout, stderr) =
        output(command(directory.path()).arg("check-config").env("QUOTAD_DATA_DIR", "env"));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for line in [
        "listen = \"127.0.0.1:0\" # flag --listen",
        "data_dir = \"env\" # environment QUOTAD_DATA_DIR",
        "stream = \"FILE\" # config.toml line 2",
        "subject = \"quota.objects.>\"",
    ] {
        assert!(stdout.lines().any(|printed| printed == line), "{line} is not in {stdout}");
    }

    std::fs::write(&file, "[nats]\nsteam = \"FILE\"\n").unwrap();
    for arguments in [&["check-config"][..], &[]] {
        let (code, stdout, stderr) = output(command(directory.path()).args(arguments));
        assert_eq!((code, stdout.as_str()), (Some(3), ""));
        let expected = "nats.steam: unknown key; did you mean nats.stream? (config.toml line 2)\n";
        assert_eq!(stderr, expected);
    }
}

/// A field with a typing error would limit less than its author wanted.
#[test]
fn limited_resources_with_unknown_fields_are_refused() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("limited.yaml");
    let start = |field: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n\
             limitedResources: [{{resource: pods, {field}: [cpu]}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = command(directory.path());
        command.arg("--admission.limited_resources_file=limited.yaml");
        Quotad::try_start(directory.path(), &mut command)
    };
    let ended = start("matchContain").err().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.said);
    for part in ["admission.limited_resources_file", "matchContain"] {
        assert!(ended.said.contains(part), "{part}: {}", ended.said);
    }
    assert_eq!(start("matchContains").unwrap().stop().code(), Some(0));
}

#[test]
fn the_build_has_the_same_commit_in_the_version_and_in_the_metrics() {
    let directory = TempDir::new().unwrap();
    let (_, version, _) = output(command(directory.path()).arg("--version"));
    assert_eq!(version, concat!("quotad ", env!("BUILD_VERSION"), "\n"));
    let commit = version
        .split_once("(commit ")
        .map_or("unknown", |(_, rest)| rest.trim_end().trim_end_matches(')'));
    let daemon = Quotad::start(directory.path(), &[]);
    let (_, metrics) = daemon.ask_admin("/metrics");
    let info = metrics.lines().find(|line| line.starts_with("quota_ledger_build_info{"));
    let revision = format!("revision=\"{commit}\"");
    assert!(info.is_some_and(|line| line.contains(&revision)), "{info:?}");
}

#[test]
fn wrong_usage_and_a_taken_address_have_their_codes() {
    let directory = TempDir::new().unwrap();
    assert_eq!(output(command(directory.path()).arg("--lisen=x")).0, Some(2));
    let (code, version, _) = output(command(directory.path()).arg("--version"));
    let expected = concat!("quotad ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(expected), "{version}");
    assert_eq!(code, Some(0));

    let daemon = Quotad::start(directory.path(), &[]);
    let other = TempDir::new().unwrap();
    let mut second = Command::new(env!("CARGO_BIN_EXE_quotad"));
    second.current_dir(&other).env_clear().arg("--listen=127.0.0.1:0");
    let (code, _, stderr) = output(second.arg(format!("--admin.listen={}", admin(&daemon))));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot listen on admin.listen"), "{stderr}");
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
