use std::{fs, io, path::Path, sync::Arc};

use quota_journal::{
    Batch, FileJournal, FileReader, Journal as _, Options, Reader as _,
    checkpoint::{self, Checkpoint, Extends, PrivateKey},
    disk::RealDisk,
};
use quota_semantics::{Span, Timestamp};

use super::{LedgerPosition, Outbox, PENDING_MAX, Signed, Signer, store, wait};
use crate::{config::Config, exit::Failure};

fn key() -> PrivateKey {
    PrivateKey::generate("ledger.example.com").unwrap()
}

fn batch(number: u64, salt: u8) -> Batch {
    Batch {
        first_sequence: number * 2 + 1,
        count: 2,
        time: Timestamp::EPOCH.plus(Span::from_seconds(number as i64)),
        payload: vec![salt; 10],
    }
}

fn ledger(directory: &Path, batches: u64, salt: u8) -> (FileJournal, FileReader) {
    let options = Options { background: false, ..Options::default() };
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(RealDisk), directory, options).unwrap();
    let have = reader.durable().sequence / 2;
    for number in have..batches {
        journal.append(batch(number, salt)).unwrap();
        journal.sync().unwrap();
    }
    (journal, reader)
}

fn signer(directory: &Path, key: &PrivateKey, reader: &FileReader) -> Result<Signer, Failure> {
    signer_of(directory, key, reader, false)
}

fn signer_of(
    directory: &Path,
    key: &PrivateKey,
    reader: &FileReader,
    is_replica: bool,
) -> Result<Signer, Failure> {
    let mut rules = Config::default().checkpoint;
    let key_file = directory.join("key");
    std::fs::write(&key_file, key.to_secret_text()).unwrap();
    rules.key_file = Some(key_file);
    rules.file = Some(directory.join("checkpoints"));
    Signer::open(&rules, is_replica, reader.clone()).map(Option::unwrap)
}

#[test]
fn a_ledger_that_contradicts_the_last_checkpoint_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut open = Vec::new();
    let mut of = |name: &str, batches, salt| {
        let (journal, reader) = ledger(&directory.path().join(name), batches, salt);
        open.push(journal);
        reader
    };
    let key = key();
    let first = of("first", 5, 1);
    let signed = Checkpoint::new("ledger.example.com", &first.durable());
    assert_eq!(signed.is_extended_by(&first).unwrap(), Extends::Yes);
    signer(directory.path(), &key, &first)
        .unwrap()
        .notes_mut()
        .append(&checkpoint::sign(&signed, &key))
        .unwrap();
    assert!(signer(directory.path(), &key, &of("grown", 9, 1)).is_ok());
    let short = signer(directory.path(), &key, &of("short", 4, 1)).err().unwrap();
    assert!(short.to_string().contains("it ends with sequence 8"), "{short}");
    let other = signer(directory.path(), &key, &of("other", 9, 2)).err().unwrap();
    assert!(other.to_string().contains("another"), "{other}");
    let between = Checkpoint { sequence: 9, ..signed };
    assert_eq!(between.is_extended_by(&first).unwrap(), Extends::Differs);
}

/// The disk of its node was lost, say, and the file of checkpoints was not.
#[test]
fn a_replica_is_compared_with_the_last_checkpoint_once_it_reaches_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_journal, first) = ledger(&directory.path().join("first"), 5, 1);
    let key = key();
    let signed = Checkpoint::new("ledger.example.com", &first.durable());
    let mut signer_of_first = signer(directory.path(), &key, &first).unwrap();
    let notes = signer_of_first.notes_mut();
    notes.append(&checkpoint::sign(&signed, &key)).unwrap();
    for (salt, is_same) in [(1, true), (2, false)] {
        let path = directory.path().join(format!("lost-{salt}"));
        let (mut journal, reader) = ledger(&path, 0, salt);
        let signer = signer_of(directory.path(), &key, &reader, true).unwrap();
        for number in 0..5 {
            assert_eq!(signer.compare().unwrap(), LedgerPosition::Behind);
            journal.append(batch(number, salt)).unwrap();
            journal.write().unwrap();
        }
        match signer.compare() {
            Ok(standing) => assert!(is_same && standing == LedgerPosition::Extends),
            Err(error) => assert!(!is_same && error.to_string().contains("another"), "{error}"),
        }
    }
}

#[test]
fn what_is_signed_is_synced() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, reader) = ledger(&directory.path().join("ledger"), 5, 1);
    let mut signer = signer(directory.path(), &key(), &reader).unwrap();
    // As a replica does: the stream has the entries, and they are synced later.
    journal.append(batch(5, 1)).unwrap();
    journal.write().unwrap();
    assert_eq!((reader.durable().sequence, reader.synced().sequence), (12, 10));
    let signed = signer.sign().unwrap();
    assert_eq!(signed.sequence, reader.synced().sequence);
}

fn signed(sequence: u64) -> Signed {
    Signed { sequence, note: "".into() }
}

#[test]
fn waits_are_bounded() {
    let waits = [1, 2, 3, 7, 8, u32::MAX].map(|failures| wait(failures).as_secs());
    assert_eq!(waits, [1, 2, 4, 60, 60, 60]);
}

#[test]
fn what_waits_is_bounded_and_the_oldest_is_given_up() {
    let outbox = Outbox::default();
    for sequence in 1..=PENDING_MAX as u64 {
        assert!(!outbox.put(signed(sequence)));
    }
    let first = outbox.first().unwrap();
    assert!(outbox.put(signed(9999)));
    assert_eq!(outbox.len(), PENDING_MAX);
    // The delivery was in progress when the checkpoint was displaced.
    outbox.delivered(&first);
    assert_eq!((outbox.len(), outbox.first()), (PENDING_MAX, Some(signed(2))));
    outbox.delivered(&signed(2));
    assert_eq!(outbox.first(), Some(signed(3)));
}

#[test]
fn a_copy_is_completed_and_never_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("00000000000000000007.checkpoint");
    let signed = |note: &str| Signed { sequence: 7, note: note.into() };
    store(directory.path(), &signed("a note\n")).unwrap();
    store(directory.path(), &signed("a note\n")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
    fs::write(&path, "a n").unwrap();
    store(directory.path(), &signed("a note\n")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
    for other in ["b note\n", "a"] {
        let error = store(directory.path(), &signed(other)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
    assert!(store(Path::new("/nonexistent"), &signed("x")).is_err());
}
