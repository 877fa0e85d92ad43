//! Contexts, completion, and what is shown of long work, with the real daemon.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use super::{
    command,
    daemon::{Daemon, QUOTA},
    support::programs,
};

/// Runs with a file of contexts, and no server but what the file says.
fn with(file: &Path, arguments: &str) -> Output {
    command(arguments).env("QUOTACTL_CONFIG", file).stdin(Stdio::null()).output().unwrap()
}

fn done(file: &Path, arguments: &str) -> String {
    let output = with(file, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(file: &Path, arguments: &str, code: i32) -> String {
    let output = with(file, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_context_says_how_to_speak_to_which_daemon() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("own/config.yaml");
    assert!(fails(&file, "config current-context", 11).contains("use-context"));
    let set = format!("config set-context here --server {} -n team-a", daemon.url);
    assert_eq!(done(&file, &set), "context/here created\n");
    done(&file, "config set-context away --server http://127.0.0.1:1");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(done(&file, "--context here get quota -o name"), "resourcequota/compute\n");
    assert!(fails(&file, "--context none get quota", 11).contains("there are: away, here"));
    assert_eq!(done(&file, "config use-context here"), "context/here is used\n");
    assert_eq!(done(&file, "config current-context"), "here\n");
    assert_eq!(done(&file, "get quota -o name"), "resourcequota/compute\n");
    assert_eq!(done(&file, "get quota -n elsewhere -o name"), "");
    assert!(fails(&file, "get quota --server http://127.0.0.1:2", 1).contains("127.0.0.1:2"));
    let contexts = done(&file, "config get-contexts");
    let rows: Vec<Vec<_>> =
        contexts.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["CURRENT", "NAME", "SERVER", "NAMESPACE"]);
    assert_eq!(rows[1][..2], ["-", "away"]);
    assert_eq!(rows[2], ["*", "here", &daemon.url, "team-a"]);
    done(&file, "config set-context here -n default");
    assert_eq!(done(&file, "get quota -o name"), "");
    done(&file, "config delete-context here");
    assert!(fails(&file, "config use-context here", 11).contains("there are: away"));
    assert_eq!(done(&file, "config get-contexts -o name"), "away\n");
    assert!(fails(&file, "config set-context new", 2).contains("needs a server"));
}

#[test]
fn an_empty_server_hides_no_context() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.yaml");
    let contexts = format!(
        "current-context: here\ncontexts: {{here: {{server: '{}', namespace: team-a}}, bare: {{server: '{}', namespace: ''}}}}\n",
        daemon.url, daemon.url
    );
    fs::write(&file, contexts).unwrap();
    let output = command("get quota -o name")
        .env("QUOTACTL_CONFIG", &file)
        .envs([("QUOTACTL_SERVER", ""), ("QUOTACTL_NAMESPACE", "")])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"resourcequota/compute\n", "{output:?}");
    assert_eq!(done(&file, "get quota --context bare -o name"), "");
}

#[test]
fn a_token_in_the_file_is_shown_to_nobody() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.yaml");
    let text = "contexts: {a: {server: 'http://127.0.0.1:1', token: hidden}}\n";
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(fails(&file, "config view", 1).contains("chmod 600"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let shown = done(&file, "config view");
    assert!(shown.contains("REDACTED") && !shown.contains("hidden"), "{shown}");
    assert!(done(&file, "config view --raw").contains("hidden"));
}

#[test]
fn a_file_that_is_named_and_does_not_exist_is_no_file_without_contexts() {
    let missing = Path::new("/nonexistent/quotactl.yaml");
    assert!(fails(missing, "get quota", 2).contains("does not exist"));
    // It may be about to be made.
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.yaml");
    done(&file, "config set-context a --server http://127.0.0.1:1");
    assert!(file.exists());
}

/// What a shell is offered for the last word.
fn offered(server: &str, line: &str) -> Vec<String> {
    let words: Vec<_> = line.split(' ').collect();
    let output = Command::new(programs::quotactl())
        .env("QUOTACTL_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("QUOTACTL_CONFIG", "/dev/null")
        .env("QUOTACTL_SERVER", server)
        .arg("--")
        .args(&words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn shells_are_offered_what_the_daemon_knows() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    daemon.done("reserve --uid held-1 --request pods=1 -n team-a", "");
    let of = |line: &str| offered(&daemon.url, line);
    assert!(of("quotactl ge").contains(&"get".to_owned()));
    assert_eq!(of("quotactl get quota -n te"), ["team-a"]);
    assert_eq!(of("quotactl -n team-a describe quota co"), ["compute"]);
    assert_eq!(of("quotactl release -n team-a he"), ["held-1"]);
    assert_eq!(of("quotactl explain -n team-a requests."), ["requests.cpu"]);
    assert_eq!(of("quotactl get quota -o y"), ["yaml"]);
    // Without a daemon nothing is offered, and nothing fails.
    assert!(offered("http://127.0.0.1:1", "quotactl get quota -n te").is_empty());
    for shell in ["bash", "zsh", "fish"] {
        let script = command(&format!("completions {shell}")).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(
            script.contains(&format!("COMPLETE=\"{shell}\""))
                || script.contains(&format!("COMPLETE={shell}")),
            "{script}"
        );
    }
}

#[test]
fn long_work_shows_how_far_it_is_on_a_terminal_only() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let home = tempfile::tempdir().unwrap();
    let events = home.path().join("events");
    let event =
        r#"{"type":"ADDED","namespace":"team-a","resource":"widgets","name":"w","uid":"UID"}"#;
    let lines: String =
        (0..5000).map(|number| event.replace("UID", &format!("u{number}")) + "\n").collect();
    fs::write(&events, lines).unwrap();
    let in_terminal = |arguments: &str| {
        let line = format!(
            "{} {arguments} --server {} --config /dev/null",
            programs::quotactl().display(),
            daemon.url
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let push = format!("push {}", events.display());
    let shown = in_terminal(&push);
    assert!(shown.contains("pushing") && shown.contains("5000 accepted"), "{shown}");
    let piped = daemon.run(&push, "");
    assert_eq!((piped.code, piped.err.as_str()), (0, ""), "{piped:?}");
    let backup = in_terminal(&format!("backup {}", home.path().join("copy").display()));
    assert!(backup.contains("backing up"), "{backup}");
}
