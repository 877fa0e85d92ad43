use std::{path::Path, sync::Arc};

use quota_checkpoint::{Checkpoint, Extends, key::PrivateKey, note};
use quota_journal::{
    Batch, FileJournal, FileReader, Journal as _, Options, Reader as _, disk::RealDisk,
};
use quota_semantics::{Span, Timestamp};

use super::signer::{Settings, Signer, StartError};

fn key() -> PrivateKey {
    PrivateKey::generate("ledger.example.com").unwrap()
}

fn ledger(directory: &Path, batches: u64, salt: u8) -> FileReader {
    let options = Options {
        background: false,
        ..Options::default()
    };
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(RealDisk), directory, options).unwrap();
    let have = reader.durable().sequence / 2;
    for number in have..batches {
        let time = Timestamp::EPOCH.plus(Span::from_seconds(number as i64));
        let payload = vec![salt; 10];
        let batch = Batch {
            first_sequence: number * 2 + 1,
            count: 2,
            time,
            payload,
        };
        journal.append(batch).unwrap();
        journal.sync().unwrap();
    }
    // The journal is leaked to keep it open: the reader has nothing to read once the journal is dropped.
    std::mem::forget(journal);
    reader
}

fn signer(directory: &Path, key: &PrivateKey, reader: &FileReader) -> Result<Signer, StartError> {
    let key_file = directory.join("key");
    std::fs::write(&key_file, key.to_secret_text()).unwrap();
    let file = directory.join("checkpoints");
    let settings = Settings {
        key_file,
        file,
        every_entries: 10,
        every: std::time::Duration::from_secs(60),
    };
    Signer::open(settings, reader)
}

#[test]
fn a_ledger_that_contradicts_the_last_checkpoint_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let of = |name: &str, batches, salt| ledger(&directory.path().join(name), batches, salt);
    let key = key();
    let first = of("first", 5, 1);
    let signed = Checkpoint::of("ledger.example.com", &first.durable());
    assert_eq!(signed.is_extended_by(&first).unwrap(), Extends::Yes);
    signer(directory.path(), &key, &first)
        .unwrap()
        .notes_mut()
        .append(&note::sign(&signed, &key))
        .unwrap();
    assert!(signer(directory.path(), &key, &of("grown", 9, 1)).is_ok());
    let short = signer(directory.path(), &key, &of("short", 4, 1)).unwrap_err();
    assert!(
        short.to_string().contains("it ends with sequence 8"),
        "{short}"
    );
    let other = signer(directory.path(), &key, &of("other", 9, 2)).unwrap_err();
    assert!(other.to_string().contains("another"), "{other}");
    let between = Checkpoint {
        sequence: 9,
        ..signed
    };
    assert_eq!(between.is_extended_by(&first).unwrap(), Extends::Differs);
}
