//! Checkpoint notes and keys.

use quota_journal::checkpoint::{self, PrivateKey, PublicKey};

/// The key of the notes in the corpus.
const PUBLIC: &str = "ledger.example.com+21bb86ac+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";

/// The text that was signed with it: no other text may ever verify.
const SIGNED: &str = "ledger.example.com\n42\nCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\ntime 1970-01-01T00:00:00Z\n";

/// Reads the input as a note, and as keys.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let key: PublicKey = PUBLIC.parse().unwrap();
    let read = checkpoint::read(text);
    if let Ok(verified) = checkpoint::verify(text, &key) {
        assert_eq!(read, Ok(verified));
        assert!(text.starts_with(SIGNED), "forged: {text:?}");
    }
    if let Ok(public) = text.parse::<PublicKey>() {
        assert_eq!(public.to_string().parse::<PublicKey>(), Ok(public));
    }
    if let Ok(private) = text.parse::<PrivateKey>() {
        let again: PrivateKey = private.to_secret_text().parse().unwrap();
        assert_eq!(again.public(), private.public());
        if let Ok(mut checkpoint) = read {
            checkpoint.origin = private.public().name().to_owned();
            let signed = checkpoint::sign(&checkpoint, &private);
            assert_eq!(checkpoint::verify(&signed, private.public()), Ok(checkpoint));
        }
    }
}
