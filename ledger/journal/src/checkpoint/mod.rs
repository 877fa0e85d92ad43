//! Checkpoints: signed statements of the ledger's last entry and of its chain hash there.
//!
//! A checkpoint proves later that the ledger still holds all entries up to that one, unchanged. Its value depends on
//! the place where it is kept: the key and the file belong outside the data directory, and copies in a place where the
//! daemon cannot rewrite them.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    str::FromStr,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use quota_semantics::Timestamp;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use crate::{Durable, FileReader, Hash, Reader as _};

/// The signed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the ledger.
    pub origin: String,
    /// Its last entry.
    pub sequence: u64,
    /// The chain hash of the batch that ends with that entry.
    pub hash: Hash,
    /// Ledger time of that entry.
    pub time: Timestamp,
}

/// The result of comparing a ledger with a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extends {
    /// The ledger holds all entries of the checkpoint, unchanged.
    Yes,
    /// The ledger ends before the checkpoint.
    TooShort {
        /// The last entry.
        last: u64,
    },
    /// The ledger holds other entries.
    Differs,
    /// The entry was compacted, and is not in the archive.
    Compacted,
}

impl Checkpoint {
    /// The checkpoint of a durable position.
    pub fn new(origin: &str, durable: &Durable) -> Self {
        Self {
            origin: origin.to_owned(),
            sequence: durable.sequence,
            hash: durable.hash,
            time: durable.time,
        }
    }

    /// Whether a ledger extends the checkpoint.
    ///
    /// # Errors
    /// If the ledger cannot be read.
    pub fn is_extended_by(&self, reader: &FileReader) -> Result<Extends, crate::Error> {
        let last = reader.durable().sequence;
        if last < self.sequence {
            return Ok(Extends::TooShort { last });
        }
        let mut batches = reader.batches(self.sequence);
        match batches.next_batch() {
            Some(Ok(batch))
                if (batch.last_sequence(), batch.hash) == (self.sequence, self.hash) =>
            {
                Ok(Extends::Yes)
            }
            Some(Ok(_)) => Ok(Extends::Differs),
            Some(Err(crate::Error::Compacted { .. })) => Ok(Extends::Compacted),
            Some(Err(error)) => Err(error),
            None => Ok(Extends::TooShort { last }),
        }
    }
}

/// The prefix of a line with a signature.
const SIGNATURE: &str = "\u{2014} ";

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

/// The text of a checkpoint: a signed note (<https://c2sp.org/signed-note>) whose body has the lines of a transparency
/// log's checkpoint (<https://c2sp.org/tlog-checkpoint>): origin, number of entries, hash in base64, and then the
/// ledger time.
///
/// The hash is the ledger's chain hash, not the root of a Merkle tree: it proves that a ledger extends another, not
/// that a single entry is part of one.
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
    parse_note(note).map(|(_, checkpoint, _)| checkpoint)
}

/// Reads a note that has to be signed by this key.
///
/// # Errors
/// [`NoteError`].
pub fn verify(note: &str, key: &PublicKey) -> Result<Checkpoint, NoteError> {
    let (body, checkpoint, signatures) = parse_note(note)?;
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
fn parse_note(note: &str) -> Result<(&str, Checkpoint, &str), NoteError> {
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

/// Signature type of Ed25519.
const ED25519_ALGORITHM: u8 = 1;

/// The prefix of a private key.
const PRIVATE: &str = "PRIVATE+KEY+";

/// A text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has another form.
    #[error("it is not of the form {0}")]
    Form(&'static str),
    /// The name is empty, or holds a space or a plus sign.
    #[error("a key's name must not be empty or contain spaces or plus signs")]
    Name,
    /// The id does not match the name and the key.
    #[error("its id does not belong to its name and key")]
    Id,
    /// The algorithm is not Ed25519.
    #[error("it is not a key for Ed25519")]
    Algorithm,
    /// The operating system provided no random numbers.
    #[error("the operating system provides no random numbers")]
    Random,
}

/// A key that verifies signatures, in the text form of signed notes `NAME+ID+DATA`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    key: [u8; 32],
}

/// A key that signs, in the text form of signed notes `PRIVATE+KEY+NAME+ID+DATA`.
pub struct PrivateKey {
    public: PublicKey,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl PublicKey {
    /// The name of the key: the origin of the checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first four bytes of the SHA-256 hash of name, type and key.
    pub fn id(&self) -> [u8; 4] {
        let mut text = self.name.clone().into_bytes();
        text.extend([b'\n', ED25519_ALGORITHM]);
        text.extend(self.key);
        let hash = digest(&SHA256, &text);
        let bytes = hash.as_ref();
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    }

    /// Whether the private key has signed this message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.key);
        key.verify(message, signature).is_ok()
    }
}

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// [`KeyError::Name`], [`KeyError::Random`].
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        let random = SystemRandom::new().fill(&mut seed);
        random.map_err(|_| KeyError::Random)?;
        Self::from_seed(name, seed)
    }

    fn from_seed(name: &str, seed: [u8; 32]) -> Result<Self, KeyError> {
        check_name(name)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| KeyError::Algorithm)?;
        let key = pair.public_key().as_ref().try_into();
        let public =
            PublicKey { name: name.to_owned(), key: key.map_err(|_| KeyError::Algorithm)? };
        Ok(Self { public, seed, pair })
    }

    /// The key that verifies this key's signatures.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// The secret text of the key.
    pub fn to_secret_text(&self) -> String {
        format!("{PRIVATE}{}", text(&self.public, &self.seed))
    }
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let wrong = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    if name.is_empty() || name.contains(wrong) {
        return Err(KeyError::Name);
    }
    Ok(())
}

fn text(public: &PublicKey, key: &[u8; 32]) -> String {
    let mut data = vec![ED25519_ALGORITHM];
    data.extend(key);
    let id = u32::from_be_bytes(public.id());
    format!("{}+{id:08x}+{}", public.name, STANDARD.encode(data))
}

/// The name, the id and the key in a text.
fn parse_key(text: &str, form: &'static str) -> Result<(String, u32, [u8; 32]), KeyError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(KeyError::Form(form));
    };
    check_name(name)?;
    let id = u32::from_str_radix(id, 16).map_err(|_| KeyError::Form(form))?;
    let data = STANDARD.decode(data).map_err(|_| KeyError::Form(form))?;
    let Some((&ED25519_ALGORITHM, key)) = data.split_first() else {
        return Err(KeyError::Algorithm);
    };
    let key = key.try_into().map_err(|_| KeyError::Algorithm)?;
    Ok((name.to_owned(), id, key))
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, &self.key))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Never shows the secret.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (name, id, key) = parse_key(text.trim(), "NAME+ID+KEY")?;
        let public = Self { name, key };
        if u32::from_be_bytes(public.id()) != id {
            return Err(KeyError::Id);
        }
        Ok(public)
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        const FORM: &str = "PRIVATE+KEY+NAME+ID+KEY";
        let rest = text.trim().strip_prefix(PRIVATE);
        let (name, id, seed) = parse_key(rest.ok_or(KeyError::Form(FORM))?, FORM)?;
        let key = Self::from_seed(&name, seed)?;
        if u32::from_be_bytes(key.public.id()) != id {
            return Err(KeyError::Id);
        }
        Ok(key)
    }
}

/// A contradiction between checkpoints of one ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// Two histories.
    #[error(
        "two checkpoints contradict each other: sequence {sequence} has two hashes or times, as if there were two ledgers"
    )]
    Fork {
        /// The sequence of both.
        sequence: u64,
    },
    /// The ledger had become shorter.
    #[error(
        "sequence {sequence} was signed after sequence {before}: the ledger had become shorter"
    )]
    Shrunk {
        /// The checkpoint that was signed later.
        sequence: u64,
        /// The checkpoint that was signed earlier.
        before: u64,
    },
    /// More entries at an earlier time.
    #[error("sequence {later} is of an earlier time than sequence {earlier}")]
    Time {
        /// The sequence of the entry that comes later.
        later: u64,
        /// The sequence of the one before it.
        earlier: u64,
    },
}

/// Checkpoints of one ledger, from any number of files: a ledger only grows, and its time never goes back.
#[derive(Clone, Debug, Default)]
pub struct Series {
    by_sequence: BTreeMap<u64, Checkpoint>,
    /// The last checkpoint of the file that is being read.
    last: Option<u64>,
}

impl Series {
    /// Begins a file, whose checkpoints are in the order of their signatures.
    pub const fn begin_file(&mut self) {
        self.last = None;
    }

    /// Adds the next checkpoint of a file. Of two with the same sequence the first is kept.
    ///
    /// # Errors
    /// If it contradicts an earlier one.
    pub fn add(&mut self, checkpoint: Checkpoint) -> Result<(), Contradiction> {
        let sequence = checkpoint.sequence;
        let before = self.last.replace(sequence);
        if let Some(existing) = self.by_sequence.get(&sequence) {
            let agrees = (existing.hash, existing.time) == (checkpoint.hash, checkpoint.time);
            return match agrees {
                true => shrunk(before, sequence),
                false => Err(Contradiction::Fork { sequence }),
            };
        }
        let below = self.by_sequence.range(..sequence).next_back();
        let above = self.by_sequence.range(sequence..).next();
        let time = checkpoint.time;
        let wrong = match (below, above) {
            (Some((below, existing)), _) if existing.time > time => Some((sequence, *below)),
            (_, Some((above, existing))) if existing.time < time => Some((*above, sequence)),
            _ => None,
        };
        self.by_sequence.insert(sequence, checkpoint);
        match wrong {
            Some((later, earlier)) => Err(Contradiction::Time { later, earlier }),
            None => shrunk(before, sequence),
        }
    }

    /// The checkpoints, by sequence.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Checkpoint> + DoubleEndedIterator + Clone {
        self.by_sequence.values()
    }
}

fn shrunk(before: Option<u64>, sequence: u64) -> Result<(), Contradiction> {
    match before {
        Some(before) if before > sequence => Err(Contradiction::Shrunk { sequence, before }),
        _ => Ok(()),
    }
}

/// How many bytes before the end the last note is searched.
const TAIL_BYTES: u64 = 64 * 1024;

/// Between the body of a note and its signatures, and between two notes.
const EMPTY_LINE: &str = "\n\n";

/// The notes at the end of a file. The text may begin in the middle of a note.
fn notes(text: &str) -> Vec<String> {
    let paragraphs: Vec<&str> =
        text.split(EMPTY_LINE).map(|text| text.trim_matches('\n')).collect();
    let pairs = paragraphs.windows(2);
    pairs
        .filter(|pair| pair[1].starts_with(SIGNATURE))
        .map(|pair| format!("{}{EMPTY_LINE}{}\n", pair[0], pair[1]))
        .collect()
}

/// The content of a file of checkpoints: signed notes, each followed by an empty line. Only ever appended to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The signed notes, oldest first.
    pub notes: Vec<String>,
    /// Whether a partial note follows them, as left by a kill.
    pub is_cut_off: bool,
}

/// Reads a file of checkpoints, which may hold nothing else.
///
/// # Errors
/// Those of the operating system; invalid data, with the line, if a part of the file is not a note.
pub fn read_all(path: &Path) -> io::Result<Stored> {
    let text = std::fs::read_to_string(path)?;
    let mut stored = Stored::default();
    let mut rest = text.as_str();
    while let Some((body, behind)) = rest.split_once(EMPTY_LINE) {
        let next = match behind.split_once(EMPTY_LINE) {
            Some(next) => Some(next),
            // A note that was stored in a file of its own has no empty line behind it.
            None => behind.strip_suffix('\n').map(|signatures| (signatures, "")),
        };
        let Some((signatures, next)) = next else {
            break;
        };
        if !signatures.starts_with(SIGNATURE) {
            let before = text.len().saturating_sub(rest.len());
            let line = 1 + text[..before].matches('\n').count();
            let why = format!("line {line}: what begins there is no checkpoint");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        stored.notes.push(format!("{body}{EMPTY_LINE}{signatures}\n"));
        rest = next;
    }
    stored.is_cut_off = !rest.is_empty();
    Ok(stored)
}

/// The file, opened for appending.
#[derive(Debug)]
pub struct Notes(File);

impl Notes {
    /// Opens the file of the ledger `origin`, or creates it, and returns the last note. The beginning of a note at the
    /// end, as a kill leaves it, was never published: it is removed.
    ///
    /// # Errors
    /// Those of the operating system; invalid data if anything else is at the end of the file.
    pub fn open(path: &Path, origin: &str) -> io::Result<(Self, Option<String>)> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let length = file.metadata()?.len();
        let begin = length.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(begin))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = end_of_last(&tail);
        let at_its_end = if whole == 0 && begin > 0 {
            Err("there is no checkpoint at its end")
        } else if is_beginning(&tail[whole..], origin) {
            Ok(())
        } else {
            Err("what is at its end is neither a checkpoint nor the beginning of one")
        };
        if let Err(why) = at_its_end {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        file.set_len(begin.saturating_add(whole as u64))?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        if length == 0 {
            let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        let text = String::from_utf8_lossy(&tail[..whole]);
        Ok((Self(file), notes(&text).pop()))
    }

    /// Appends a note, durably.
    ///
    /// # Errors
    /// Those of the operating system: then it is unknown whether the note is in the file.
    pub fn append(&mut self, note: &str) -> io::Result<()> {
        self.0.write_all(format!("{note}\n").as_bytes())?;
        self.0.sync_data()
    }
}

/// Whether bytes are the beginning of a note of this ledger. After a power loss zeros may follow.
fn is_beginning(bytes: &[u8], origin: &str) -> bool {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let bytes = &bytes[..bytes.len().saturating_sub(zeros)];
    let first = format!("{origin}\n");
    if !bytes.starts_with(first.as_bytes()) {
        return first.as_bytes().starts_with(bytes);
    }
    let Some(at) = memchr::memmem::find(bytes, EMPTY_LINE.as_bytes()) else {
        return true;
    };
    let signatures = &bytes[at.saturating_add(EMPTY_LINE.len())..];
    let prefix = SIGNATURE.as_bytes();
    match signatures.strip_prefix(prefix) {
        Some(rest) => {
            let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
            !rest.iter().any(u8::is_ascii_control)
        }
        None => prefix.starts_with(signatures),
    }
}

/// The end of the last complete note, with the empty line behind it.
fn end_of_last(bytes: &[u8]) -> usize {
    let mut end = bytes.len();
    while let Some(at) = memchr::memmem::rfind(&bytes[..end], EMPTY_LINE.as_bytes()) {
        let begin =
            memchr::memmem::rfind(&bytes[..at], EMPTY_LINE.as_bytes()).map_or(0, |at| at + 2);
        if bytes[begin..at].starts_with(SIGNATURE.as_bytes()) {
            return at + 2;
        }
        end = at + 1;
    }
    0
}
