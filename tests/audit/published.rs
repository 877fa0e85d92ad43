//! Checkpoints that are published to a real nats-server.

use std::{fs, path::Path};

use super::{
    checkpoints::quotactl,
    observe, reserve, set_quota,
    support::{nats::Server, quotad::Quotad, until},
};
use async_nats::jetstream::{self, stream};
use futures::StreamExt as _;
use quota_core::event::Sequence;
use quota_journal::checkpoint::{self, PublicKey, read_all};
use tempfile::TempDir;

const SUBJECT: &str = "ledger.checkpoints";

fn start(path: &Path, server: &Server) -> Quotad {
    Quotad::start(
        path,
        &[
            "--checkpoint.key_file=key",
            "--checkpoint.file=checkpoints",
            "--checkpoint.every_entries=2",
            &format!("--checkpoint.nats_subject={SUBJECT}"),
            &format!("--nats.url={}", server.url()),
            "--nats.max_backoff=1s",
        ],
    )
}

fn failures(quotad: &Quotad) -> u64 {
    let (_, metrics) = quotad.ask_admin("/metrics");
    let name = "quota_ledger_checkpoint_failures_total ";
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix(name));
    count.unwrap().parse().unwrap()
}

/// The sequence of the last checkpoint in the file.
fn last_stored(path: &Path, key: &PublicKey) -> Sequence {
    let stored = read_all(&path.join("checkpoints")).unwrap();
    stored.notes.last().map_or(0, |text| checkpoint::verify(text, key).unwrap().sequence)
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_published_and_nothing_waits_for_them() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let keygen = ["ledger", "keygen", "key", "--origin", "ledger.example.com"];
    assert!(quotactl(path, &keygen).status.success());
    let key: PublicKey = fs::read_to_string(path.join("key.pub")).unwrap().parse().unwrap();
    let mut server = Server::start();
    let client = async_nats::connect(server.url()).await.unwrap();
    let mut heard = client.subscribe(SUBJECT).await.unwrap();
    let context = jetstream::new(client);
    let stored = stream::Config {
        name: "CHECKPOINTS".to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        deny_delete: true,
        deny_purge: true,
        ..stream::Config::default()
    };
    let stored = context.create_stream(stored).await.unwrap();
    let quotad = start(path, &server);
    set_quota(&quotad);
    let mut last = 0;
    for number in 0..6 {
        last = observe(&quotad, &format!("w{number}"), 1);
    }
    // What a subscriber hears is signed, and the ledger extends it.
    let mut published = String::new();
    loop {
        let message = heard.next().await.unwrap();
        let text = std::str::from_utf8(&message.payload).unwrap();
        let checkpoint = checkpoint::verify(text, &key).unwrap();
        published.push_str(text);
        published.push('\n');
        if checkpoint.sequence + 2 > last {
            break;
        }
    }
    assert_eq!(failures(&quotad), 0);

    // Without a server everything goes on, and the metric tells.
    server.kill();
    for number in 0..4 {
        last = observe(&quotad, &format!("alone{number}"), 0);
        assert_eq!(reserve(&quotad, &format!("alone-{number}"), 0).0, 201);
    }
    let failed = || (failures(&quotad) > 0 && last_stored(path, &key) >= last).then_some(());
    until("it is told that a checkpoint was not published", failed).await;
    assert_eq!(quotad.ask("/v1/namespaces/team-a/usage").0, 200);

    // With a server again, they are published again.
    server.restart();
    let mut number = 0;
    loop {
        last = observe(&quotad, &format!("again{number}"), 0);
        observe(&quotad, &format!("again-{number}"), 0);
        number += 1;
        let newest = stored.get_last_raw_message_by_subject(SUBJECT).await;
        let Ok(newest) = newest else {
            continue;
        };
        let text = std::str::from_utf8(&newest.payload).unwrap();
        let checkpoint = checkpoint::verify(text, &key).unwrap();
        if checkpoint.sequence > last {
            published.push_str(text);
            published.push('\n');
            break;
        }
        assert!(number < 10_000, "nothing was published again");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(quotad.stop().code(), Some(0));

    fs::write(path.join("published"), published).unwrap();
    let verify = [
        "ledger",
        "verify",
        "--data-dir",
        "data",
        "--checkpoint",
        "published",
        "--public-key",
        "key.pub",
    ];
    let verified = quotactl(path, &verify);
    let said = String::from_utf8(verified.stderr).unwrap();
    assert_eq!(verified.status.code(), Some(0), "{said}");
    assert!(said.contains("the ledger extends"), "{said}");
    let mut changed = fs::read_to_string(path.join("published")).unwrap();
    changed = changed.replacen("ledger.example.com\n", "ledger.example.com\n1", 1);
    fs::write(path.join("published"), changed).unwrap();
    assert_eq!(quotactl(path, &verify).status.code(), Some(4));
}
