//! The file of checkpoints: signed notes, each followed by an empty line. Only ever appended to.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use super::note::SIGNATURE;

/// How many bytes before the end the last note is searched.
pub(super) const TAIL_BYTES: u64 = 64 * 1024;

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

/// The content of a file of checkpoints.
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
