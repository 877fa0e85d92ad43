//! Transcripts of the documentation, run against a real daemon.

use std::{ffi::OsString, fs, path::Path, process::Command};

use serde_json::json;

use super::{Run, daemon::Daemon, support::programs};

/// What the commands read, besides what a page shows.
const FILES: [(&str, &str); 6] = [
    (
        "groups.yaml",
        "apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\nmetadata: {name: company}\n\
         spec: {selector: {labels: {matchLabels: {company: x}}}, quota: {hard: {pods: \"7\"}}}\n---\n\
         apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\nmetadata:\n  name: red\n  annotations:\n    \
         quota-ledger.io/parent: company\n    quota-ledger.io/guaranteed: '{\"pods\": \"2\"}'\n\
         spec: {selector: {labels: {matchLabels: {team: red}}}, quota: {hard: {pods: \"4\"}}}\n---\n\
         apiVersion: quota.openshift.io/v1\nkind: ClusterResourceQuota\nmetadata:\n  name: blue\n  annotations:\n    \
         quota-ledger.io/parent: company\n\
         spec: {selector: {labels: {matchLabels: {team: blue}}}, quota: {hard: {pods: \"6\"}}}\n",
    ),
    (
        "members.ndjson",
        r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a","uid":"n1","resourceVersion":"1","labels":{"team":"red"}}}}
{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"w","uid":"w1","usage":{"pods":"4"}}
"#,
    ),
    (
        "quota.yaml",
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: compute, namespace: team-a}\n\
         spec: {hard: {pods: \"2\", requests.cpu: \"4\"}}\n",
    ),
    (
        "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: big, namespace: team-a}\n\
         spec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"3\"}}}]}\n",
    ),
    (
        "next.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: next, namespace: team-a}\n\
         spec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"3\"}}}]}\n",
    ),
    (
        "huge.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\n\
         spec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"11\"}}}]}\n",
    ),
];

fn text_of(page: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    fs::read_to_string(docs.join(page)).unwrap()
}

/// The commands of a page, each with what it prints.
fn steps(page: &str) -> Vec<(String, Vec<String>)> {
    let text = text_of(page);
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```transcript") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ quotactl "), steps.last_mut()) {
                (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
                (None, Some((_, lines))) => lines.push(line.to_owned()),
                (None, None) => panic!("{page}: {line:?} is before any command"),
            },
            (false, _) => {}
        }
    }
    assert!(!steps.is_empty(), "{page} has no transcript");
    steps
}

/// Whether a line is as expected; `…` represents anything. As an expected line it represents any lines.
fn fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = expected.split('…').skip(1).last() else {
        return rest.is_empty();
    };
    let mut rest = rest;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    line.ends_with(last)
}

/// Whether lines are as expected.
pub(super) fn all_fit(expected: &[String], lines: &[&str]) -> bool {
    match (expected, lines) {
        ([], []) => true,
        ([any, more @ ..], _) if any == "…" => {
            (0..=lines.len()).any(|skipped| all_fit(more, &lines[skipped..]))
        }
        ([first, more @ ..], [line, rest @ ..]) => fits(first, line) && all_fit(more, rest),
        _ => false,
    }
}

/// Runs a command as a shell reads it.
fn run_in(directory: &Path, server: &str, arguments: &str) -> Run {
    let mut path = OsString::from(programs::directory());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUOTACTL_")) {
        command.env_remove(name);
    }
    command
        .args(["-c", &format!("quotactl {arguments}")])
        .current_dir(directory)
        .env("PATH", path)
        .env("QUOTACTL_CONFIG", "/dev/null")
        .env("QUOTACTL_SERVER", server);
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn the_documentation_shows_what_is_printed() {
    programs::build(&["quotactl"]);
    for page in ["quotactl.md", "groups.md", "tutorial.md", "how-to.md"] {
        runs_as_shown(page);
    }
}

/// The text between two marks.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(begin).unwrap();
    rest.split_once(end).unwrap().0
}

/// What a reader has done before the commands of a page, where that is not `quotactl`.
fn prepare(page: &str, daemon: &Daemon, directory: &Path) {
    match page {
        // The cluster's part: the API server asks about two pods, and the bridge reports the group and the first pod.
        "tutorial.md" => {
            daemon.done("apply -f -", between(&text_of(page), "<<'EOF'\n", "EOF\n"));
            let pod = |name: &str| {
                let containers = json!([{"name": name, "image": "nginx"}]);
                json!({
                    "apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers},
                    "metadata": {"name": name, "namespace": "demo", "uid": name, "resourceVersion": "1"},
                })
            };
            let first = json!({"type": "ADDED", "object": pod("web-1")}).to_string();
            let answers = ["web-1", "web-2"].map(|name| {
                let answer = daemon.admit("demo", &pod(name));
                daemon.done("push -", &first);
                answer["response"].clone()
            });
            let shown = text_of(page);
            let warning = answers[0]["warnings"][0].as_str().unwrap();
            assert!(shown.contains(&format!("Warning: {warning}\n")), "{warning}");
            let denial = answers[1]["status"]["message"].as_str().unwrap();
            assert!(shown.contains(&format!("denied the request: {denial}\n")), "{denial}");
        }
        "how-to.md" => {
            let group = text_of(page);
            let group = between(&group, "```yaml\n", "```\n");
            fs::write(directory.join("default.yaml"), group).unwrap();
        }
        _ => {}
    }
}

fn runs_as_shown(page: &str) {
    let daemon = Daemon::start();
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        fs::write(directory.path().join(name), text).unwrap();
    }
    prepare(page, &daemon, directory.path());
    for (arguments, expected) in steps(page) {
        let run = run_in(directory.path(), &daemon.url, &arguments);
        let code = match run.code {
            0 => String::new(),
            code => format!("exit code {code}"),
        };
        let printed = [&run.out, &run.err, &code];
        let lines: Vec<&str> = printed.iter().flat_map(|text| text.lines()).collect();
        assert!(
            all_fit(&expected, &lines),
            "quotactl {arguments}\nexpected:\n{}\nprinted:\n{}",
            expected.join("\n"),
            lines.join("\n")
        );
    }
}

#[test]
fn a_line_with_gaps_fits_what_fills_them() {
    assert!(fits("a … c", "a b c") && fits("…", "x") && fits("abc", "abc"));
    assert!(!fits("a … c", "a b d") && !fits("abc", "abcd") && !fits("b…", "ab"));
}
