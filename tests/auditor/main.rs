//! A second reader of the ledger, in Python, written from docs/storage-format.md alone: it decodes every entry that the
//! codec writes, folds a ledger with every kind of entry, and has to agree with the daemon.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ledger;
mod page;
use quota_testkit as support;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use support::quotad::{Quotad, REQUEST, agent};

/// Where the page, the program and its Python are.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the second reader.
fn audit(arguments: &[&str], input: &[u8]) -> Result<Value, String> {
    let python = std::env::var_os("QUOTAD_AUDITOR_PYTHON")
        .map_or_else(|| root().join("target/auditor/bin/python"), PathBuf::from);
    assert!(
        python.exists(),
        "{} is missing: tests/run makes it, or QUOTAD_AUDITOR_PYTHON names a Python with blake3",
        python.display()
    );
    let (command, arguments) = arguments.split_first().unwrap();
    let mut child = Command::new(python)
        .arg("-B")
        .arg(root().join("tests/auditor/audit.py"))
        .arg(command)
        .arg(root().join(page::PATH))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

fn tags(audited: &Value) -> BTreeSet<u64> {
    let tags = audited["tags"].as_array().unwrap().iter();
    tags.map(|tag| tag.as_u64().unwrap()).collect()
}

#[test]
fn the_page_says_what_the_code_does() {
    page::check();
}

#[test]
fn an_auditor_who_knows_the_page_alone_agrees_with_the_daemon() {
    let home = tempfile::tempdir().unwrap();
    let last = ledger::write(home.path());
    let archive = home.path().join("archive");
    let archived = format!("--retention.archive_dir={}", archive.display());
    let arguments = [&*archived, "--groups.object_labels=app"];
    let quotad = Quotad::start(home.path(), &arguments);
    let mut answers = Vec::new();
    let instants = (1..=last).step_by(usize::try_from(last / 15).unwrap());
    for namespace in ledger::NAMESPACES {
        for sequence in instants.clone() {
            let path = format!("/v1/namespaces/{namespace}/usage?sequence={sequence}");
            writeln!(answers, "{}", quotad.get(&path)).unwrap();
        }
        let now = format!("/v1/namespaces/{namespace}/usage");
        writeln!(answers, "{}", quotad.get(&now)).unwrap();
    }
    let mut ask = quotad.asking();
    for group in ledger::GROUPS {
        let path = format!("/v1/groups/{group}/usage");
        let then = instants.clone().map(|sequence| format!("{path}?sequence={sequence}"));
        for answer in then.chain([path.clone()]).filter_map(|path| ask(&path)) {
            writeln!(answers, "{answer}").unwrap();
        }
    }
    drop(ask);
    let backup = home.path().join("backup");
    let mut response = agent(REQUEST).get(format!("{}/v1/backup", quotad.api)).call().unwrap();
    fs::write(&backup, response.body_mut().read_to_vec().unwrap()).unwrap();
    assert!(quotad.stop().success());
    let files = [&archive, &backup].map(|path| path.to_str().unwrap());
    let audited = audit(&["answers", files[0], files[1]], &answers).unwrap();
    assert!(audited["entries"].as_u64() >= Some(last), "{audited}");
    assert!(audited["figures"].as_u64() > Some(500), "{audited}");
    assert!(audited["groups"].as_u64() > Some(300), "{audited}");
    let unfolded: Vec<_> = page::tags().difference(&tags(&audited)).copied().collect();
    assert!(
        unfolded.is_empty(),
        "tests/auditor/ledger.rs writes no entry of the tags {unfolded:?}"
    );

    // It does notice: a wrong figure of a namespace and of a group, and a changed byte.
    let text = String::from_utf8(answers).unwrap();
    let wrong = text.replacen(r#""used":"1"#, r#""used":"2"#, 1);
    assert_ne!(wrong, text);
    let error = audit(&["answers", files[0], files[1]], wrong.as_bytes()).unwrap_err();
    assert!(error.contains("wrong: usage of"), "{error}");
    let is_of_group = |line: &&str| line.contains("\"group\":");
    let of_groups: Vec<&str> = text.lines().filter(is_of_group).collect();
    let of_groups = of_groups.join("\n");
    for (original, tampered) in [
        (r#""used":"1"#, r#""used":"2"#),
        (r#""guaranteedToOthers":"1"#, r#""guaranteedToOthers":"3"#),
    ] {
        let wrong = of_groups.replacen(original, tampered, 1);
        assert_ne!(wrong, of_groups);
        let error = audit(&["answers", files[0], files[1]], wrong.as_bytes()).unwrap_err();
        assert!(error.contains("wrong: usage of group"), "{error}");
    }
    let mut bytes = fs::read(&backup).unwrap();
    let middle = bytes.len() / 4;
    bytes[middle] ^= 1;
    fs::write(&backup, bytes).unwrap();
    let error = audit(&["answers", files[0], files[1]], text.as_bytes()).unwrap_err();
    assert!(error.contains("wrong:"), "{error}");
}

#[test]
fn a_report_of_the_recorded_history_is_what_an_auditor_integrates() {
    let home = tempfile::tempdir().unwrap();
    let quotad = Quotad::start(home.path(), &["--quotas.adopt=true"]);
    let lines = fs::read_to_string(root().join("tests/vectors/history-a.events.jsonl")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    let push = |lines: &[&str]| {
        for some in lines.chunks(40) {
            let events: Value = serde_json::from_str(&format!("[{}]", some.join(","))).unwrap();
            let (status, answer) = quotad.post("/v1/events", &events);
            assert_eq!(status, 200, "{answer}");
        }
    };
    let time = || quotad.get("/v1/status")["asOf"]["time"].clone();
    let (first, rest) = lines.split_at(lines.len() / 3);
    push(first);
    let from = time();
    for number in 0..5 {
        let request = serde_json::json!({"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": format!("extra-{number}"), "uid": format!("extra-{number}")},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"},
                "limits": {"cpu": "10m", "memory": "1Mi"}}}]}}});
        let (status, answer) = quotad.post("/v1/namespaces/team-free/reservations", &request);
        assert_eq!(status, 201, "{answer}");
    }
    let (second, rest) = rest.split_at(rest.len() / 2);
    push(second);
    let to = time();
    push(rest);
    let beginning = quotad.get("/v1/status")["oldest"]["time"].clone();
    let end = time();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let periods = [(&from, &to), (&beginning, &from), (&beginning, &end)];
    let reports = periods.map(|(from, to)| {
        let (from, to) = (text(from), text(to));
        quotad.get(&format!("/v1/report?from={from}&to={to}&by=namespace"))
    });
    let backup = home.path().join("backup");
    let mut response = agent(REQUEST).get(format!("{}/v1/backup", quotad.api)).call().unwrap();
    fs::write(&backup, response.body_mut().read_to_vec().unwrap()).unwrap();
    assert!(quotad.stop().success());
    let backup = backup.to_str().unwrap();
    let said = reports.each_ref().map(Value::to_string).join("\n");
    let audited = audit(&["report", backup], said.as_bytes()).unwrap();
    assert!(audited["figures"].as_u64() > Some(1000), "{audited}");
    // It does notice a wrong number.
    let mut wrong = reports[1].clone();
    let resources = wrong["rows"][0]["resources"].as_object_mut().unwrap();
    let figures = resources.values_mut().next().unwrap();
    figures["consumed"] = "77.000000001".into();
    let error = audit(&["report", backup], wrong.to_string().as_bytes()).unwrap_err();
    assert!(error.contains("wrong: report of"), "{error}");
}
