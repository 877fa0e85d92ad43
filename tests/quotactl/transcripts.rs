//! Transcripts of the documentation, run against a real daemon.

use std::{fs, path::Path};

use super::{Run, command, daemon::Daemon};

/// What the commands read.
const FILES: [(&str, &str); 5] = [
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
];

/// The commands of a page, each with what it prints.
fn steps(page: &str) -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(page);
    let text = fs::read_to_string(path).unwrap();
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

fn run_in(directory: &Path, server: &str, arguments: &str) -> Run {
    let mut command = command(arguments);
    command
        .current_dir(directory)
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
    for page in ["quotactl.md", "groups.md"] {
        runs_as_shown(page);
    }
}

fn runs_as_shown(page: &str) {
    let daemon = Daemon::start();
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        fs::write(directory.path().join(name), text).unwrap();
    }
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
