//! Checkpoints that are delivered to a directory, and held against each other by `quotactl`.

use std::{fs, path::Path, process::Output};

use super::{
    checkpoints::quotactl,
    observe, set_quota,
    support::{quotad::Quotad, until},
};
use quota_journal::checkpoint::{self, PublicKey};
use tempfile::TempDir;

fn signing(path: &Path, more: &[String]) -> Quotad {
    let mut arguments = vec![
        "--checkpoint.key_file=key",
        "--checkpoint.file=checkpoints",
        "--checkpoint.every_entries=1",
    ];
    arguments.extend(more.iter().map(String::as_str));
    Quotad::start(path, &arguments)
}

fn keygen(path: &Path) -> PublicKey {
    let keygen = ["ledger", "keygen", "key", "--origin", "ledger.example.com"];
    assert!(quotactl(path, &keygen).status.success());
    fs::read_to_string(path.join("key.pub")).unwrap().parse().unwrap()
}

fn metric(quotad: &Quotad, name: &str) -> Option<f64> {
    let (_, metrics) = quotad.ask_admin("/metrics");
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}

fn of(name: &str, place: &str) -> String {
    format!("quota_ledger_checkpoint_{name}{{place=\"{place}\"}}")
}

/// Waits until a place has the checkpoint of this sequence, or a later one.
async fn delivered(quotad: &Quotad, place: &str, sequence: u64) {
    let name = of("delivered_sequence", place);
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let is_there = || metric(quotad, &name).filter(|there| *there >= sequence as f64);
    until("it is delivered", is_there).await;
}

fn verify(path: &Path, arguments: &str) -> (i32, String, String) {
    let mut all = vec!["checkpoint", "verify", "--public-key", "key.pub"];
    all.extend(arguments.split_whitespace());
    let Output { status, stdout, stderr } = quotactl(path, &all);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Deliveries that failed.
const FAILURES: &str = "quota_ledger_checkpoint_failures_total";

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_reach_a_directory_also_after_failures() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let key = keygen(path);
    let places = ["--checkpoint.copy_dir=copies".to_owned()];
    // There is no directory yet: the daemon reports that, and retries.
    let quotad = signing(path, &places);
    set_quota(&quotad);
    let last = observe(&quotad, "w", 1);
    let waits = || metric(&quotad, &of("undelivered", "directory")).filter(|count| *count > 0.0);
    until("a copy waits", waits).await;
    let failed = || metric(&quotad, FAILURES).filter(|count| *count >= 1.0);
    until("a copy failed", failed).await;
    fs::create_dir(path.join("copies")).unwrap();
    delivered(&quotad, "directory", last).await;
    assert_eq!(metric(&quotad, &of("undelivered", "directory")), Some(0.0));
    let more = observe(&quotad, "v", 1);
    delivered(&quotad, "directory", more).await;
    assert_eq!(quotad.stop().code(), Some(0));

    // The directory has what the file has, in the form that is signed.
    let stored = quota_journal::checkpoint::read_all(&path.join("checkpoints")).unwrap();
    let copies = fs::read_dir(path.join("copies")).unwrap();
    let mut copies: Vec<_> = copies.map(|entry| entry.unwrap().path()).collect();
    copies.sort();
    let copied: Vec<_> = copies.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(copied, stored.notes);
    for text in &copied {
        checkpoint::verify(text, &key).unwrap();
    }
    let (code, out, err) = verify(path, "copies checkpoints");
    assert_eq!(code, 0, "{err}");
    let count = stored.notes.len();
    assert!(
        out.starts_with(&format!("consistent: {count} checkpoints of ledger.example.com")),
        "{out}"
    );
    let (code, out, err) = verify(path, "copies --ledger data -o json");
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["consistent"], &report["checkpoints"]), (&true.into(), &count.into()));

    // What was signed last is delivered again at the next start: nobody knows whether it was before.
    let last = stored.notes.last().unwrap();
    fs::remove_file(copies.last().unwrap()).unwrap();
    let quotad = signing(path, &places);
    delivered(&quotad, "directory", checkpoint::read(last).unwrap().sequence).await;
    assert_eq!(quotad.stop().code(), Some(0));
    assert_eq!(&fs::read_to_string(copies.last().unwrap()).unwrap(), last);
}

#[test]
fn checkpoints_that_contradict_each_other_or_the_ledger_are_told() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    keygen(path);
    let fill = |names: &[&str]| {
        let quotad = signing(path, &[]);
        set_quota(&quotad);
        for name in names {
            observe(&quotad, name, 1);
        }
        assert_eq!(quotad.stop().code(), Some(0));
    };
    // Each run signs at its end, if not before.
    fill(&["a", "b"]);
    fill(&["c"]);
    let first = fs::read_to_string(path.join("checkpoints")).unwrap();
    fs::rename(path.join("checkpoints"), path.join("first")).unwrap();
    fs::rename(path.join("data"), path.join("other")).unwrap();
    fill(&["x", "y"]);
    fill(&["z"]);
    let refused = |arguments: &str, why: &str| {
        let (code, out, err) = verify(path, arguments);
        assert_eq!((code, out.as_str()), (4, ""), "{arguments}: {err}");
        assert!(err.contains(why), "{arguments}: {err}");
    };
    assert_eq!(verify(path, "first").0, 0);
    assert_eq!(verify(path, "first --ledger other").0, 0);
    refused("first checkpoints", "as if there were two ledgers");
    refused("first --ledger data", "does not extend");

    // The last one is before the others, as if the ledger had become shorter.
    let stored = quota_journal::checkpoint::read_all(&path.join("first")).unwrap();
    let (last, before) = stored.notes.split_last().unwrap();
    assert!(!before.is_empty());
    fs::write(path.join("shrunk"), format!("{last}\n{}\n", before.join("\n"))).unwrap();
    refused("shrunk", "had become shorter");
    let moved = first.replacen("\ntime 20", "\ntime 19", 1);
    fs::write(path.join("forged"), moved).unwrap();
    refused("forged", "is wrong");
    fs::write(path.join("cut"), &first[..first.len() - 4]).unwrap();
    refused("cut", "cut off");
    fs::write(path.join("empty"), "").unwrap();
    refused("empty", "no checkpoint");
    refused("first missing", "No such file");
    fs::create_dir(path.join("nothing")).unwrap();
    refused("nothing", "no checkpoint");
    let (code, out, _) = verify(path, "first checkpoints -o json");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["consistent"]), (4, &false.into()));
    assert!(!report["damages"].as_array().unwrap().is_empty());
}
