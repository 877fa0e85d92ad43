//! `ledger export`: the ledger as text.
//!
//! One JSON object per line. The first is `{"format":…,"version":…,"firstSequence":…,"previous":…}`. Each batch is a
//! line `{"batch":{…}}` with its place in the hash chain and its bytes, and a line `{"entry":{…}}` for each of its
//! entries. The last is `{"end":{…}}`: without that line the text is incomplete.
//!
//! So the chain can be checked without knowing how entries are encoded: a batch's `hash` is the BLAKE3 hash of the
//! text `quota-ledger/1`, the 32 bytes of `previous`, and then little-endian the length of the payload (4 bytes),
//! `count` (4), `firstSequence` (8), `time` in nanoseconds since 1970 (8), and the payload.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use quota_core::event::Entry;
use quota_journal::{Hash, Offline};
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{entries, unread};
use crate::{
    failure::{Failure, Outcome},
    progress::Progress,
    terminal_text::one_line,
};

/// The format name in the first line of an exported ledger.
pub(super) const FORMAT: &str = "quota-ledger-export";

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Head {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) first_sequence: u64,
    /// The chain hash before the first batch.
    pub(super) previous: String,
}

/// A line after the first one.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Line<E = Value> {
    Batch(BatchLine),
    Entry(E),
    End(End),
}

/// A batch without its entries.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BatchLine {
    pub(super) first_sequence: u64,
    pub(super) count: u32,
    pub(super) time: Timestamp,
    pub(super) previous: String,
    pub(super) hash: String,
    /// The encoded entries, in base64.
    pub(super) payload: String,
}

/// The last line.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct End {
    pub(super) batches: u64,
    pub(super) entries: u64,
    pub(super) last_sequence: u64,
    pub(super) hash: String,
}

/// Writes the whole ledger to a file, or to standard output.
pub(super) fn run(ledger: &Offline, file: &Path) -> Outcome {
    if file == Path::new("-") {
        let mut text = Text { out: BufWriter::new(io::stdout().lock()), is_shown: true };
        return export(ledger, &mut text).and_then(|()| Ok(text.out.flush()?));
    }
    let about = |error: io::Error| Failure::from(error).about(file.display());
    let created = File::create_new(file).map_err(about)?;
    let exported = export_to(ledger, created).map_err(|failure| failure.about(file.display()));
    if exported.is_err() {
        // It is not whole; that it failed is what matters.
        let _ = fs::remove_file(file);
    }
    exported
}

fn export_to(ledger: &Offline, file: File) -> Outcome {
    let mut text = Text { out: BufWriter::new(file), is_shown: false };
    export(ledger, &mut text)?;
    let file = text.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

fn export(ledger: &Offline, text: &mut Text<impl Write>) -> Outcome {
    let (first, last) = (ledger.first_sequence(), ledger.last_sequence());
    let progress = Progress::over("exporting", first, last);
    let mut end = End { batches: 0, entries: 0, last_sequence: 0, hash: Hash::GENESIS.to_string() };
    let mut begun = false;
    let mut batches = ledger.batches(first);
    while let Some(batch) = batches.next_batch() {
        let batch = batch.map_err(unread)?;
        if !begun {
            text.put(&head(batch.first_sequence, batch.previous))?;
            begun = true;
        }
        let entries = entries(&batch)?;
        text.put(&Line::<Value>::Batch(BatchLine {
            first_sequence: batch.first_sequence,
            count: batch.count,
            time: batch.time,
            previous: batch.previous.to_string(),
            hash: batch.hash.to_string(),
            payload: STANDARD.encode(batch.payload),
        }))?;
        for entry in &entries {
            text.put(&Line::<&Entry>::Entry(entry))?;
        }
        end.batches += 1;
        end.entries += u64::from(batch.count);
        end.last_sequence = batch.last_sequence();
        end.hash = batch.hash.to_string();
        progress.at(batch.last_sequence());
    }
    if !begun {
        text.put(&head(first, Hash::GENESIS))?;
    }
    text.put(&Line::<Value>::End(end))
}

fn head(first_sequence: u64, previous: Hash) -> Head {
    Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        first_sequence,
        previous: previous.to_string(),
    }
}

/// The writer of the lines.
struct Text<W> {
    out: W,
    /// Whether the lines may be printed by a terminal. If so, misleading characters are escaped; the JSON keeps its
    /// meaning.
    is_shown: bool,
}

impl<W: Write> Text<W> {
    fn put(&mut self, line: &impl Serialize) -> Outcome {
        let line = serde_json::to_string(line);
        let line = line.map_err(|error| Failure::general(error.to_string()))?;
        let line = match self.is_shown {
            true => one_line(&line),
            false => line.into(),
        };
        Ok(writeln!(self.out, "{line}")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_the_same_json_as_a_file_holds() {
        let line = "\u{9b}a\u{202e}";
        let texts = [false, true].map(|is_shown| {
            let mut text = Text { out: Vec::new(), is_shown };
            text.put(&line).unwrap();
            String::from_utf8(text.out).unwrap()
        });
        assert_eq!(texts, [format!("\"{line}\"\n"), "\"\\u009ba\\u202e\"\n".to_owned()]);
    }
}
