//! A ledger as text, and the ledger that is made of it.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    backup::answers, checkpoints::quotactl, observe, reserve, set_quota, support::quotad::Quotad,
};

fn done(path: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = quotactl(path, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output.stdout
}

/// Head of the chain, and digest of the state that is folded from the beginning.
fn head_and_digest(path: &Path, data: &str) -> (Value, Value) {
    let ask = |command: &str, field: &str| -> Value {
        let said = done(path, &["ledger", command, "--data-dir", data, "-o", "json"]);
        serde_json::from_slice::<Value>(&said).unwrap()[field].take()
    };
    (ask("stat", "head"), ask("replay", "digest"))
}

/// A ledger with something of everything, stopped; what it answered, and its text.
fn exported(path: &Path) -> (Vec<Value>, Vec<u8>) {
    let quotad = Quotad::start(path, &["--snapshot.every_entries=5"]);
    set_quota(&quotad);
    for number in 0..9 {
        observe(&quotad, &format!("w{number}"), number % 2);
    }
    for uid in ["kept", "committed", "released"] {
        assert_eq!(reserve(&quotad, uid, 1).0, 201);
    }
    let of = |uid: &str| format!("/v1/namespaces/team-a/reservations/{uid}");
    assert_eq!(quotad.post(&format!("{}/commit", of("committed")), &json!({})).0, 200);
    assert_eq!(quotad.post(&format!("{}/extend", of("kept")), &json!({"ttl": "9m"})).0, 200);
    assert_eq!(quotad.post("/v1/events", &json!({"no": 1})).0, 200);
    let before = answers(&quotad);
    assert_eq!(quotad.stop().code(), Some(0));
    let text = done(path, &["ledger", "export", "-", "--data-dir", "data"]);
    (before, text)
}

#[test]
fn an_imported_ledger_is_the_same_and_answers_the_same() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let (before, text) = exported(path);
    fs::write(path.join("ledger.ndjson"), &text).unwrap();
    let import = ["ledger", "import", "ledger.ndjson", "--data-dir", "imported"];
    done(path, &import);
    assert_eq!(head_and_digest(path, "imported"), head_and_digest(path, "data"));
    let again = done(path, &["ledger", "export", "-", "--data-dir", "imported"]);
    assert!(again == text, "its bytes are the same");
    done(path, &["ledger", "verify", "--data-dir", "imported"]);
    let quotad = Quotad::start(path, &["--data-dir=imported"]);
    assert_eq!(answers(&quotad), before);
    assert_eq!(reserve(&quotad, "kept", 1).0, 200, "it is remembered");
    assert_eq!(quotactl(path, &import).status.code(), Some(12), "it is not empty");
}

#[test]
fn an_export_with_a_changed_line_is_refused_with_its_number() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let (_, text) = exported(path);
    let lines: Vec<&str> = std::str::from_utf8(&text).unwrap().lines().collect();
    assert!(lines.len() > 30);
    for (number, line) in lines.iter().enumerate() {
        // A letter of the value that stands last, in the midst of it.
        let end = line.trim_end_matches(|byte: char| !byte.is_ascii_alphanumeric()).len();
        let mut changed = line.as_bytes().to_vec();
        let byte = &mut changed[end - 1];
        *byte = if *byte == b'1' { b'2' } else { b'1' };
        let mut all: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        all[number] = &changed;
        fs::write(path.join("changed.ndjson"), all.join(&b'\n')).unwrap();
        let import = ["ledger", "import", "changed.ndjson", "--data-dir", "imported"];
        let output = quotactl(path, &import);
        let said = String::from_utf8(output.stderr).unwrap();
        let place = format!("error: line {}: ", number + 1);
        assert!(
            output.status.code() == Some(4) && said.starts_with(&place),
            "{line}\n{}\n{said}",
            String::from_utf8_lossy(&changed)
        );
        assert!(!path.join("imported").exists() && !path.join("imported.partial").exists());
    }
}
