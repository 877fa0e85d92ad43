//! Reports, histories and simulations: the same numbers however the ledger is kept, and clear refusals.

use std::{io::Write as _, net::TcpStream, path::Path, process::Command, time::Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    observe, reserve, set_quota,
    support::{PATIENCE, programs, quotad::Quotad},
};

const EVER: &str = "2020-01-01T00:00:00Z";

/// Little is kept.
const BUSY: [&str; 4] = [
    "--journal.segment_bytes=1MiB",
    "--journal.epoch_bytes=1MiB",
    "--snapshot.every_entries=50",
    "--retention.max_bytes=64KiB",
];

/// Events that count nothing, until entries were compacted away.
fn compact(quotad: &Quotad) {
    let deadline = Instant::now() + PATIENCE;
    let mut next = 0;
    while removed(quotad) == 0.0 {
        assert!(Instant::now() < deadline, "nothing is compacted");
        let event = |number: u32| {
            json!({"type": "ADDED", "namespace": "filler", "resource": "widgets.example.com",
                   "name": format!("f{number}"), "uid": format!("f{number}"), "usage": {}})
        };
        let lines: Vec<String> =
            (next..next + 2000).map(|number| event(number).to_string()).collect();
        next += 2000;
        let sent = ureq::post(format!("{}/v1/events", quotad.api))
            .header("content-type", "application/json")
            .send(lines.join("\n"));
        assert_eq!(sent.unwrap().status(), 200);
    }
}

fn removed(quotad: &Quotad) -> f64 {
    metric(quotad, "quota_ledger_compaction_removed_entries_total")
}

fn metric(quotad: &Quotad, name: &str) -> f64 {
    let (_, metrics) = quotad.ask_admin("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().parse().unwrap_or(0.0)
}

fn simulate(from: &str, to: &str) -> Value {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute", "namespace": "team-a"},
        "spec": {"hard": {"requests.example.com/units": "3"}},
    });
    json!({"from": from, "to": to, "quotas": [quota]})
}

/// What the daemon says about the period.
fn answers(quotad: &Quotad, from: &str, to: &str) -> Vec<Value> {
    let period = format!("from={from}&to={to}");
    let mut answers: Vec<Value> = ["namespace", "kind", "workload"]
        .iter()
        .map(|by| quotad.get(&format!("/v1/report?{period}&by={by}&namespace=team-a")))
        .collect();
    let history = "/v1/namespaces/team-a/usage/history?step=1s";
    answers.push(quotad.get(&format!("{history}&{period}")));
    let (status, simulation) = quotad.post("/v1/simulate", &simulate(from, to));
    assert_eq!((status, &simulation["refused"]), (200, &json!(2)), "{simulation}");
    answers.push(simulation);
    // How far back denials are remembered is no part of the ledger, and the last entry of all is none of the period.
    for answer in &mut answers {
        answer.as_object_mut().unwrap().retain(|name, _| name != "denialsSince" && name != "asOf");
    }
    answers
}

/// What the commands on the directory say about it.
fn offline(directory: &Path, from: &str, to: &str) -> Vec<Value> {
    let limits = directory.join("limits.json");
    std::fs::write(&limits, simulate(from, to)["quotas"][0].to_string()).unwrap();
    let run = |arguments: &[&str]| -> Value {
        let output = Command::new(programs::quotactl())
            .current_dir(directory)
            .args(["ledger", arguments[0], "--data-dir=data", "--archive=archive", "-o=json"])
            .args(["--from", from, "--to", to])
            .args(&arguments[1..])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut answers = ["namespace", "kind", "workload"]
        .map(|by| run(&["report", "-n", "team-a", "--by", by]))
        .to_vec();
    answers.push(run(&["simulate", "-f", "limits.json"]));
    answers
}

#[test]
fn numbers_of_the_past_do_not_depend_on_how_the_ledger_is_kept() {
    let directory = TempDir::new().unwrap();
    let arguments = [&BUSY[..], &["--retention.archive_dir=archive"]].concat();
    let quotad = Quotad::start(directory.path(), &arguments);
    set_quota(&quotad);
    for number in 0..6 {
        let uid = format!("w{number}");
        assert_eq!(reserve(&quotad, &uid, number % 3).0, 201);
        observe(&quotad, &uid, number % 3);
    }
    assert_eq!(reserve(&quotad, "last", 4).0, 201);
    let entries = quotad.get("/v1/entries?limit=1000");
    let entries = entries["items"].as_array().unwrap();
    let time = |entry: &Value| entry["time"].as_str().unwrap().to_owned();
    let from = time(&entries[3]);
    let to = time(entries.last().unwrap());
    // The last one is behind the period.
    let said = {
        let mut to_be_refused = simulate(&from, &to);
        to_be_refused["quotas"][0]["spec"]["hard"]["requests.example.com/units"] = json!("1");
        let (_, simulation) = quotad.post("/v1/simulate", &to_be_refused);
        assert!(simulation["refused"].as_u64() > Some(0), "{simulation}");
        simulation["lastSequence"].clone()
    };
    let at_first = answers(&quotad, &from, &to);
    compact(&quotad);
    assert_eq!(answers(&quotad, &from, &to), at_first);
    assert_eq!(quotad.stop().code(), Some(0));
    let quotad = Quotad::start(directory.path(), &arguments);
    assert_eq!(answers(&quotad, &from, &to), at_first);
    assert_eq!(quotad.stop().code(), Some(0));
    let mut expected = at_first;
    assert_eq!(expected[4]["lastSequence"], said);
    // The directory has no history, and knows no denials.
    expected.remove(3);
    assert_eq!(without_denials(offline(directory.path(), &from, &to)), without_denials(expected));
}

/// Without the fields about denials, wherever they are.
fn without_denials(answers: Vec<Value>) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !name.starts_with("denials"));
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let strip = |mut value: Value| {
        strip(&mut value);
        value
    };
    answers.into_iter().map(strip).collect()
}

#[test]
fn a_refusal_names_the_first_period_that_is_possible() {
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &BUSY);
    set_quota(&quotad);
    compact(&quotad);
    let ask = |from: &str| {
        let report = quotad.ask(&format!("/v1/report?from={from}"));
        let simulation = quotad.post("/v1/simulate", &json!({"from": from}));
        [report, simulation]
    };
    // The oldest snapshot may go meanwhile.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let firsts = ask(EVER).map(|(status, problem)| {
            assert_eq!((status, &problem["reason"]), (410, &json!("Compacted")), "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            let (_, first) = detail.split_once("a period can begin at ").unwrap();
            first.to_owned()
        });
        if firsts.iter().all(|first| ask(first).iter().all(|(status, _)| *status == 200)) {
            break;
        }
        assert!(Instant::now() < deadline, "{firsts:?}");
    }
    assert_eq!(quotad.stop().code(), Some(0));
    let offline = Command::new(programs::quotactl())
        .current_dir(directory.path())
        .args(["ledger", "report", "--data-dir=data", "--from", EVER])
        .output()
        .unwrap();
    let said = String::from_utf8(offline.stderr).unwrap();
    assert_eq!(offline.status.code(), Some(1), "{said}");
    assert!(said.contains("a period can begin at ") && said.contains("--archive"), "{said}");
}

/// Whoever closes the connection ends the work.
#[test]
fn a_question_that_nobody_waits_for_is_given_up() {
    let directory = TempDir::new().unwrap();
    let quotad = Quotad::start(directory.path(), &["--snapshot.every_entries=1000000"]);
    set_quota(&quotad);
    let event = |number: u32| {
        json!({"type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com",
               "name": format!("f{number}"), "uid": format!("f{number}"), "usage": {"requests.example.com/units": "1"}})
    };
    let lines: Vec<String> = (0..20_000).map(|number| event(number).to_string()).collect();
    let sent = ureq::post(format!("{}/v1/events", quotad.api))
        .header("content-type", "application/json")
        .send(lines.join("\n"));
    assert_eq!(sent.unwrap().status(), 200);
    let mut body = simulate(EVER, EVER);
    body.as_object_mut().unwrap().remove("to");
    let body = body.to_string();
    let given_up = || metric(&quotad, "quota_ledger_answers_given_up_total");
    let questions = [
        format!("GET /v1/report?from={EVER} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!(
            "POST /v1/simulate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
    ];
    let address = quotad.api.trim_start_matches("http://");
    let deadline = Instant::now() + PATIENCE;
    for question in questions {
        let before = given_up();
        while given_up() == before {
            assert!(Instant::now() < deadline, "{question}");
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(question.as_bytes()).unwrap();
            // It has begun, most likely.
            quotad.get("/v1/status");
            drop(stream);
        }
    }
    // It is the next one's turn.
    quotad.get("/v1/report?from=2020-01-01T00:00:00Z&namespace=team-a");
}
