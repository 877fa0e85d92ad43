//! The text of a checkpoint: a signed note (<https://c2sp.org/signed-note>) whose body has the lines of a
//! transparency log's checkpoint (<https://c2sp.org/tlog-checkpoint>): origin, number of entries, hash in base64, and
//! then the ledger time.
//!
//! The hash is the ledger's chain hash, not the root of a Merkle tree: it proves that a ledger extends another, not
//! that a single entry is part of one.

use crate::Hash;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Checkpoint,
    key::{PrivateKey, PublicKey},
};

/// The prefix of a line with a signature.
pub(super) const SIGNATURE: &str = "\u{2014} ";

/// The prefix of the line with the time.
const TIME: &str = "time ";

/// A note that proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It has another form.
    #[error("not a checkpoint: {0}")]
    Form(&'static str),
    /// There is no signature by the key.
    #[error("it is not signed by {0}")]
    NotSigned(String),
    /// The signature is wrong.
    #[error("the signature by {0} is wrong")]
    Forged(String),
    /// It names another ledger than the key.
    #[error("it is about {origin:?}, but the key is that of {name:?}")]
    Origin {
        /// The ledger in the note.
        origin: String,
        /// The name of the key.
        name: String,
    },
}

fn body(checkpoint: &Checkpoint) -> String {
    let Checkpoint { origin, sequence, hash, time } = checkpoint;
    let hash = STANDARD.encode(hash.as_bytes());
    format!("{origin}\n{sequence}\n{hash}\n{TIME}{time}\n")
}

/// The signed note of a checkpoint.
pub fn sign(checkpoint: &Checkpoint, key: &PrivateKey) -> String {
    let body = body(checkpoint);
    let mut signature = key.public().id().to_vec();
    signature.extend(key.sign(body.as_bytes()));
    let name = key.public().name();
    format!("{body}\n{SIGNATURE}{name} {}\n", STANDARD.encode(signature))
}

/// Reads a note without verifying its signature.
///
/// # Errors
/// [`NoteError::Form`].
pub fn read(note: &str) -> Result<Checkpoint, NoteError> {
    parse(note).map(|(_, checkpoint, _)| checkpoint)
}

/// Reads a note that has to be signed by this key.
///
/// # Errors
/// [`NoteError`].
pub fn verify(note: &str, key: &PublicKey) -> Result<Checkpoint, NoteError> {
    let (body, checkpoint, signatures) = parse(note)?;
    let name = || key.name().to_owned();
    let mut ours = signatures.lines().filter_map(|line| {
        let (name, encoded) = line.strip_prefix(SIGNATURE)?.rsplit_once(' ')?;
        let bytes = STANDARD.decode(encoded).ok()?;
        let (id, signature) = bytes.split_at_checked(4)?;
        (name == key.name() && id == key.id()).then(|| signature.to_vec())
    });
    let Some(signature) = ours.next() else {
        return Err(NoteError::NotSigned(name()));
    };
    if !key.verifies(body.as_bytes(), &signature) {
        return Err(NoteError::Forged(name()));
    }
    if checkpoint.origin != key.name() {
        let origin = checkpoint.origin;
        return Err(NoteError::Origin { origin, name: name() });
    }
    Ok(checkpoint)
}

/// The signed text, the checkpoint in it, and the signatures.
fn parse(note: &str) -> Result<(&str, Checkpoint, &str), NoteError> {
    let wrong = NoteError::Form;
    let Some((body, signatures)) = note.split_once("\n\n") else {
        return Err(wrong("there is no empty line before the signatures"));
    };
    let signed = &note[..=body.len()];
    if !signatures.ends_with('\n') || !signatures.lines().all(|line| line.starts_with(SIGNATURE)) {
        return Err(wrong("there is more than signatures behind the empty line"));
    }
    let mut lines = body.lines();
    let (Some(origin), Some(sequence), Some(hash)) = (lines.next(), lines.next(), lines.next())
    else {
        return Err(wrong("fewer than three lines"));
    };
    let canonical = |text: &str| text == "0" || !text.starts_with(['0', '+']);
    let sequence = Some(sequence).filter(|text| canonical(text)).and_then(|text| text.parse().ok());
    let hash = STANDARD.decode(hash).ok().and_then(|bytes| bytes.try_into().ok());
    let time = lines.find_map(|line| line.strip_prefix(TIME)?.parse().ok());
    let (Some(sequence), Some(hash), Some(time)) = (sequence, hash, time) else {
        return Err(wrong("the sequence, the hash or the time cannot be read"));
    };
    let checkpoint =
        Checkpoint { origin: origin.to_owned(), sequence, hash: Hash::from_bytes(hash), time };
    Ok((signed, checkpoint, signatures))
}
