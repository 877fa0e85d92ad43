//! `ledger import`: a data directory from an exported ledger.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use quota_core::{codec, event::Entry};
use quota_journal::{
    Batch, Durable, FileJournal, Hash, Journal as _, MAX_PAYLOAD_BYTES, Options, StoredBatch,
    disk::{Disk, RealDisk},
};
use quota_semantics::quantity::as_written;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    building::Building,
    decoded,
    export::{BatchLine, End, FORMAT, Head, Line, VERSION},
    unread,
};
use crate::{
    failure::{Exit, Failure, Outcome},
    output::Output,
};

/// The maximum length of a line, in bytes: a full batch in base64, or an entry of a batch.
const MAX_LINE_BYTES: u64 = 2 * MAX_PAYLOAD_BYTES as u64;

/// The size in bytes at which batches are made durable together.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Creates a data directory, which appears when it is complete, or not at all.
pub(super) fn run(file: &Path, data_dir: &Path, output: &Output) -> Outcome {
    let building = Building::begin(data_dir)?;
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| Failure::from(error).about(file.display()))?)
    };
    let end =
        import(BufReader::new(source), Arc::new(RealDisk), building.path(), Options::default())?;
    building.hand_over();
    building.finish()?;
    if output.is_structured() {
        return output.value(&end);
    }
    output.line(format!(
        "imported: entries 1 to {}, batches: {}, head: {}",
        end.last_sequence, end.batches, end.hash
    ))
}

/// Reads an exported ledger into a directory of a disk. Returns the last entry and its chain hash.
///
/// # Errors
/// The error in the text with its line, or the error of writing.
pub fn import_from(
    input: impl BufRead,
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
) -> Result<(u64, String), String> {
    match import(input, disk, directory, options) {
        Ok(end) => Ok((end.last_sequence, end.hash)),
        Err(failure) => Err(failure.to_string()),
    }
}

fn import(
    input: impl BufRead,
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
) -> Outcome<End> {
    // The journal is filled step by step, in order.
    let options = Options { background: false, ..options };
    let mut lines = Lines::new(input);
    let head: Head = lines.expect("the head")?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(lines.wrong(format!("not a {FORMAT} of version {VERSION}")));
    }
    if head.first_sequence != 1 {
        let why = format!("the ledger was exported from entry {} on", head.first_sequence);
        return Err(Failure::general(why)
            .hint("only a whole ledger can be imported: export with --archive"));
    }
    if head.previous != Hash::GENESIS.to_string() {
        return Err(lines.wrong("there is no batch before the first entry"));
    }
    let (mut journal, _, _) = FileJournal::open(disk, directory, options).map_err(unread)?;
    let mut end = End { batches: 0, entries: 0, last_sequence: 0, hash: Hash::GENESIS.to_string() };
    let mut position = Durable::NOTHING;
    let mut group = 0;
    loop {
        let batch = match lines.expect::<Line>("a batch or the end")? {
            Line::Batch(batch) => batch,
            Line::End(said) if said == end => break,
            Line::End(_) => return Err(lines.wrong("the end does not say what was before it")),
            Line::Entry(_) => return Err(lines.wrong("an entry without a batch")),
        };
        let stored = lines.batch(batch, &position)?;
        position = Durable {
            sequence: stored.batch.last_sequence(),
            hash: stored.hash,
            time: stored.batch.time,
        };
        end.batches += 1;
        end.entries += u64::from(stored.batch.count);
        end.last_sequence = position.sequence;
        end.hash = position.hash.to_string();
        group += stored.batch.payload.len();
        journal.append(stored.batch).map_err(|error| lines.wrong(error.to_string()))?;
        if group >= GROUP_BYTES {
            group = 0;
            journal.sync().map_err(unread)?;
        }
    }
    lines.end()?;
    let durable = journal.close().map_err(unread)?;
    if durable != position {
        return Err(lines.wrong("what was written is not what was read"));
    }
    Ok(end)
}

/// Numbered lines of JSON.
struct Lines<R> {
    input: R,
    number: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    const fn new(input: R) -> Self {
        Self { input, number: 0, text: Vec::new() }
    }

    fn expect<T: DeserializeOwned>(&mut self, what: &str) -> Outcome<T> {
        self.text.clear();
        self.number += 1;
        let mut limited = self.input.by_ref().take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.text)?;
        if read == 0 {
            return Err(self.wrong(format!("it ends where {what} should be")));
        }
        as_written(|| serde_json::from_slice(&self.text))
            .map_err(|error| self.wrong(format!("not {what}: {error}")))
    }

    fn end(&mut self) -> Outcome {
        self.number += 1;
        match self.input.fill_buf()? {
            [] => Ok(()),
            _ => Err(self.wrong("data after the end line")),
        }
    }

    /// Reads the entries of a batch, and checks all fields of its line.
    fn batch(&mut self, line: BatchLine, position: &Durable) -> Outcome<StoredBatch> {
        let number = self.number;
        let hash = |text: &str| text.parse::<Hash>().map_err(|error| self.wrong(error.to_string()));
        let (previous, hash) = (hash(&line.previous)?, hash(&line.hash)?);
        let payload = STANDARD
            .decode(&line.payload)
            .map_err(|error| self.wrong(format!("the payload: {error}")))?;
        let stored = StoredBatch {
            batch: Batch {
                first_sequence: line.first_sequence,
                count: line.count,
                time: line.time,
                payload,
            },
            hash,
            previous,
        };
        if previous != position.hash || line.first_sequence != position.sequence.saturating_add(1) {
            return Err(self.wrong("the batch does not continue the one before"));
        }
        if stored.computed_hash() != hash {
            return Err(self.wrong("the hash is not that of the batch"));
        }
        let entries = decoded(line.first_sequence, line.count, &stored.batch.payload)
            .map_err(|failure| failure.about(format_args!("line {number}")))?;
        if codec::encode_entries(&entries) != stored.batch.payload {
            return Err(self.wrong("the payload is not written as this version writes it"));
        }
        for entry in &entries {
            self.entry(entry)?;
        }
        Ok(stored)
    }

    fn entry(&mut self, entry: &Entry) -> Outcome {
        let Line::Entry(said) = self.expect::<Line>("an entry")? else {
            return Err(self.wrong("an entry of the batch is missing"));
        };
        let meant: Value =
            serde_json::to_value(entry).map_err(|error| Failure::general(error.to_string()))?;
        if said != meant {
            return Err(self.wrong("the entry is not what the batch holds"));
        }
        Ok(())
    }

    fn wrong(&self, why: impl Into<String>) -> Failure {
        Failure::new(Exit::Damaged, why).about(format_args!("line {}", self.number))
    }
}
