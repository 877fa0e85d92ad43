use quota_semantics::{Span, Timestamp};

use super::{
    Checkpoint, Contradiction, KeyError, NoteError, Notes, PrivateKey, PublicKey, Series, read_all,
};
use crate::Hash;

fn key() -> PrivateKey {
    PrivateKey::from_seed("ledger.example.com", [7; 32]).unwrap()
}

fn checkpoint(sequence: u64) -> Checkpoint {
    Checkpoint {
        origin: "ledger.example.com".to_owned(),
        sequence,
        hash: Hash::from_bytes([9; 32]),
        time: Timestamp::EPOCH,
    }
}

/// Golden: the text of 2026 must be verifiable for ever.
#[test]
fn a_note_looks_as_it_always_has() {
    let note = super::sign(&checkpoint(42), &key());
    let public = key().public().to_string();
    assert_eq!(public, "ledger.example.com+21bb86ac+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs");
    assert_eq!(
        note,
        "ledger.example.com\n42\nCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\ntime 1970-01-01T00:00:00Z\n\n\
         \u{2014} ledger.example.com IbuGrOuy+LIMsd8lzC4/Omnmrlwcr9KgOE++CBPtTYu2fhpdIx13RmLcV9b4tI/ExkQt3EelV4NmLk86tKFvDx1hMQk=\n"
    );
    let public: PublicKey = public.parse().unwrap();
    assert_eq!(super::verify(&note, &public), Ok(checkpoint(42)));
}

/// The example of <https://c2sp.org/signed-note>, made by other software.
#[test]
fn a_key_of_other_software_is_read() {
    let text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    let key: PublicKey = text.parse().unwrap();
    assert_eq!(key.name(), "PeterNeumann");
    assert_eq!(key.to_string(), text);
    let body = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
    let signature = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=",
    )
    .unwrap();
    assert_eq!(signature[..4], key.id());
    assert!(key.verifies(body.as_bytes(), &signature[4..]));
}

#[test]
fn every_changed_byte_of_a_note_is_noticed() {
    let note = super::sign(&checkpoint(42), &key());
    let public = key();
    let public = public.public();
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            assert!(super::verify(&text, public).is_err(), "byte {at}, bit {bit}: {text}");
        }
    }
    let other = PrivateKey::generate("ledger.example.com").unwrap();
    let error = super::verify(&note, other.public()).unwrap_err();
    assert_eq!(error, NoteError::NotSigned("ledger.example.com".into()));
    let foreign = super::sign(&Checkpoint { origin: "elsewhere".into(), ..checkpoint(1) }, &key());
    assert!(matches!(super::verify(&foreign, public), Err(NoteError::Origin { .. })));
}

#[test]
fn keys_are_read_as_they_are_written_and_wrong_ones_are_refused() {
    let key = PrivateKey::generate("a.example.com/b").unwrap();
    let again: PrivateKey = key.to_secret_text().parse().unwrap();
    assert_eq!(again.public(), key.public());
    assert!(!format!("{key:?}").contains("PRIVATE"));
    assert_eq!(PrivateKey::generate("a b").unwrap_err(), KeyError::Name);
    let swapped = key.public().to_string().replacen("a.example", "b.example", 1);
    assert_eq!(swapped.parse::<PublicKey>(), Err(KeyError::Id));
    for text in ["", "x", "a+b", "a+00000000+AAAA", &key.to_secret_text()] {
        assert!(text.parse::<PublicKey>().is_err(), "{text}");
    }
}

#[test]
fn what_a_kill_leaves_of_a_note_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("checkpoints");
    let all: Vec<String> = (1..=3).map(|number| super::sign(&checkpoint(number), &key())).collect();
    let whole = all.iter().map(|note| format!("{note}\n")).collect::<String>().into_bytes();
    let two = all[..2].iter().map(|note| note.len() + 1).sum::<usize>();
    for length in two..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (mut notes, last) = Notes::open(&path, "ledger.example.com").unwrap();
        let kept = if length == whole.len() { 3 } else { 2 };
        assert_eq!(last.as_ref(), Some(&all[kept - 1]), "{length}");
        notes.append(&all[2]).unwrap();
        let mut expected = all[..kept].to_vec();
        expected.push(all[2].clone());
        let stored = read_all(&path).unwrap();
        assert_eq!((stored.notes, stored.is_cut_off), (expected, false), "{length}");
    }
}

#[test]
fn what_no_kill_leaves_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("checkpoints");
    let [first, last] = [1, 2].map(|number| super::sign(&checkpoint(number), &key()));
    let whole = format!("{first}\n{last}\n").into_bytes();
    // Damage to the signature's prefix, and to its end; what else may be in a file of that name.
    let signature = whole.len() - last.lines().last().unwrap().len() - 2;
    let damaged = [signature, whole.len() - 2, whole.len() - 1].map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 2;
        bytes
    });
    let others = [
        key().public().to_string().into_bytes(),
        key().to_secret_text().into_bytes(),
        [&whole, b"other text\n".as_slice()].concat(),
    ];
    for bytes in damaged.into_iter().chain(others) {
        std::fs::write(&path, &bytes).unwrap();
        let refused = Notes::open(&path, "ledger.example.com").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    let mut bytes = whole.clone();
    bytes.extend_from_slice(&[0; 100]);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(Notes::open(&path, "ledger.example.com").unwrap().1, Some(last));
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn what_is_no_note_is_not_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("checkpoints");
    let all: Vec<String> = (1..=3).map(|number| super::sign(&checkpoint(number), &key())).collect();
    let whole = format!("{}\n{}\n{}\n", all[0], all[1], all[2]);
    for at in 0..whole.len() {
        let mut bytes = whole.clone().into_bytes();
        bytes[at] ^= 2;
        std::fs::write(&path, bytes).unwrap();
        let right = |note: &String| super::verify(note, key().public()).is_ok();
        match read_all(&path) {
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidData),
            Ok(stored) => {
                let noticed = stored.is_cut_off || !stored.notes.iter().all(right);
                assert!(noticed, "byte {at}: {stored:?}");
            }
        }
    }
    std::fs::write(&path, &all[0]).unwrap();
    assert_eq!(read_all(&path).unwrap().notes, all[..1]);
    std::fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    let stored = read_all(&path).unwrap();
    assert_eq!((stored.notes.len(), stored.is_cut_off), (2, true));
}

#[test]
fn the_last_of_many_notes_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("checkpoints");
    let (mut notes, none) = Notes::open(&path, "ledger.example.com").unwrap();
    assert_eq!(none, None);
    for number in 1..=400 {
        notes.append(&super::sign(&checkpoint(number), &key())).unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() > super::TAIL_BYTES);
    let (_, last) = Notes::open(&path, "ledger.example.com").unwrap();
    assert_eq!(last, Some(super::sign(&checkpoint(400), &key())));
    assert_eq!(read_all(&path).unwrap().notes.len(), 400);
}

fn at(sequence: u64, hash: u8, seconds: i64) -> Checkpoint {
    Checkpoint {
        origin: "o".to_owned(),
        sequence,
        hash: Hash::from_bytes([hash; 32]),
        time: Timestamp::EPOCH.plus(Span::from_seconds(seconds)),
    }
}

#[test]
fn what_grows_is_consistent_and_may_be_told_twice() {
    let mut series = Series::default();
    for (sequence, seconds) in [(2, 1), (4, 1), (4, 1), (9, 5)] {
        assert_eq!(series.add(at(sequence, 1, seconds)), Ok(()));
    }
    series.begin_file();
    assert_eq!(series.add(at(4, 1, 1)), Ok(()));
    assert_eq!(series.add(at(7, 1, 3)), Ok(()));
    let sequences: Vec<_> = series.iter().map(|checkpoint| checkpoint.sequence).collect();
    assert_eq!(sequences, [2, 4, 7, 9]);
}

#[test]
fn forks_shrinking_and_time_going_back_are_told() {
    let mut series = Series::default();
    series.add(at(5, 1, 10)).unwrap();
    let fork = Contradiction::Fork { sequence: 5 };
    assert_eq!(series.add(at(5, 2, 10)), Err(fork.clone()));
    assert_eq!(series.add(at(5, 1, 11)), Err(fork));
    let shrunk = Contradiction::Shrunk { sequence: 3, before: 5 };
    assert_eq!(series.add(at(3, 1, 9)), Err(shrunk));
    series.begin_file();
    let time = |later, earlier| Err(Contradiction::Time { later, earlier });
    assert_eq!(series.add(at(6, 1, 8)), time(6, 5));
    series.begin_file();
    assert_eq!(series.add(at(1, 1, 10)), time(3, 1));
}
