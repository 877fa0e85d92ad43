//! Tokens and their file.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;
use tempfile::TempDir;

use super::{Run, run};

/// Runs without a daemon.
fn offline(arguments: &str) -> Run {
    run("http://127.0.0.1:1", arguments)
}

#[test]
fn a_token_is_printed_once_and_its_record_is_kept() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let at = format!("--file {}", file.display());
    let made = offline(&format!(
        "token create --principal ci --role reserve,read --role read -n team-*,ci --expires 90d {at}"
    ));
    assert_eq!(made.code, 0, "{made:?}");
    let token = made.out.trim_end();
    let parts: Vec<_> = token.split('_').collect();
    assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "qlt", 64));
    assert!(!made.err.contains(parts[2]), "{made:?}");
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.contains(&format!("id = \"{}\"\n", parts[1])), "{kept}");
    assert!(kept.contains("namespaces = [\"team-*\", \"ci\"]\n"), "{kept}");
    assert!(!kept.contains(parts[2]), "{kept}");
    let hash = blake3::hash(token.as_bytes()).to_hex();
    assert!(kept.contains(hash.as_str()), "{kept}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let more = offline(&format!("token create --principal auditor --role read -A {at} -o json"));
    assert_eq!(more.code, 0, "{more:?}");
    let more: Value = serde_json::from_str(&more.out).unwrap();
    assert!(more["token"].as_str().unwrap().starts_with("qlt_"));

    let listed = offline(&format!("token list {at}"));
    let lines: Vec<_> = listed.out.lines().collect();
    assert_eq!(lines.len(), 3, "{listed:?}");
    assert!(lines[1].contains("ci          read,reserve   team-*,ci    20"), "{listed:?}");
    assert!(lines[2].ends_with("<never>"), "{listed:?}");
    let listed = offline(&format!("token list {at} -o name"));
    assert_eq!(listed.out.lines().next(), Some(&*format!("token/{}", parts[1])));
    assert!(!listed.out.contains(hash.as_str()));
}

#[test]
fn without_a_file_the_record_goes_to_standard_error() {
    let made = offline("token create --principal ci --role ingest -A");
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(made.out.lines().count(), 1);
    assert!(made.err.contains("[[tokens]]\nid = "), "{made:?}");
    assert!(made.err.contains("roles = [\"ingest\"]\n"), "{made:?}");
}

#[test]
fn rights_are_given_in_full() {
    for (arguments, expected) in [
        ("token create --principal ci --role read", "namespaces are not given"),
        ("token create --principal ci --role read -n Team", "not a pattern of namespaces"),
        ("token create --principal ci --role root -A", "invalid value 'root'"),
        ("token create --principal ci -A", "--role"),
        ("token create --principal anonymous --role read -A", "a name of the daemon's own"),
    ] {
        let refused = offline(arguments);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains(expected), "{refused:?}");
        assert_eq!(refused.out, "");
    }
}

#[test]
fn a_file_that_is_none_is_left_as_it_is() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    fs::write(&file, "tokens = 1\n").unwrap();
    let at = format!("--file {}", file.display());
    for arguments in ["token create --principal ci --role read -A", "token list"] {
        let refused = offline(&format!("{arguments} {at}"));
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("tokens.toml: line 1"), "{refused:?}");
        assert_eq!(refused.out, "");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "tokens = 1\n");
}
