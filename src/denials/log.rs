//! The thread that keeps denials in memory, and in a file with one JSON object per line. The file is rewritten when
//! most of its lines are no longer kept.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use parking_lot::Mutex;
use quota_client::wire::{AsOf, Denial};
use quota_core::event::Actor;
use quota_semantics::{Name, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Bounds, Message, StoredDenial, record,
    store::{Counts, Store},
};
use crate::clock::now;

/// How often expired denials are removed.
const TICK: Duration = Duration::from_secs(60);

/// Lines that the file may have beyond twice the number of kept denials.
const SLACK: usize = 256;

/// Bytes that the file may have beyond twice the size of kept denials.
const SLACK_BYTES: usize = 4 * 1024 * 1024;

/// Longer lines of the file were not written by this program.
const LINE_BYTES: usize = 1024 * 1024;

/// The fields of a line that the log needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredLine {
    id: u64,
    time: Timestamp,
    namespace: Name,
    actor: Actor,
    as_of: AsOf,
}

pub(super) struct DenialLog {
    path: PathBuf,
    bounds: Bounds,
    pub(super) store: Store,
    next: u64,
    file: File,
    lines: usize,
    /// The size of the file.
    bytes: usize,
    failing: bool,
}

impl DenialLog {
    pub(super) fn open(path: &Path, bounds: Bounds, now: Timestamp) -> io::Result<Self> {
        let mut store = Store::default();
        match File::open(path) {
            Ok(file) => read(file, &bounds, &mut store)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let next = store.last().map_or(1, |last| last.saturating_add(1));
        store.forget(&bounds, now);
        let file = write_anew(path, &store)?;
        Ok(Self {
            path: path.to_path_buf(),
            bounds,
            lines: store.len(),
            bytes: store.bytes(),
            store,
            next,
            file,
            failing: false,
        })
    }

    /// Runs until it receives `End`, or every sender is gone.
    pub(super) fn run(mut self, inbox: &Receiver<Message>, counts: &Mutex<Counts>) {
        loop {
            match inbox.recv_timeout(TICK) {
                Ok(Message::Note(noted)) => {
                    counts.lock().add(&noted);
                    self.keep(&noted, now());
                }
                Ok(Message::List(query, answer)) => {
                    self.store.forget(&self.bounds, now());
                    // The caller may have stopped waiting.
                    let _ = answer.send(self.store.list(&query));
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.store.forget(&self.bounds, now());
                    self.tidy();
                }
            }
        }
    }

    pub(super) fn keep(&mut self, noted: &Denial, now: Timestamp) {
        let id = self.next;
        let json = record::to_json(noted, id, now).and_then(RawValue::from_string);
        let Ok(json) = json else {
            return;
        };
        self.next = id.saturating_add(1);
        let line = format!("{json}\n");
        let denial = StoredDenial {
            id,
            sequence: noted.as_of.sequence,
            principal: noted.actor.principal.clone(),
            namespace: noted.namespace.clone(),
            time: now,
            json: json.into(),
        };
        self.store.keep(denial, &self.bounds);
        self.store.forget(&self.bounds, now);
        let written = self.file.write_all(line.as_bytes());
        self.lines += 1;
        self.bytes += line.len();
        self.report(written);
        self.tidy();
    }

    /// Rewrites the file if most of its lines are no longer kept.
    fn tidy(&mut self) {
        let few = self.lines <= self.store.len() * 2 + SLACK;
        if few && self.bytes <= self.store.bytes() * 2 + SLACK_BYTES {
            return;
        }
        (self.lines, self.bytes) = (self.store.len(), self.store.bytes());
        let written = write_anew(&self.path, &self.store).map(|file| self.file = file);
        self.report(written);
    }

    /// Logs the first of consecutive failures: denials can still be answered from memory.
    fn report(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::warn!(%error, file = %self.path.display(), "denials are not stored");
            }
            Err(_) => {}
        }
    }

    #[cfg(test)]
    pub(super) fn line_count(&self) -> usize {
        self.lines
    }
}

/// Skips lines that cannot be read, such as a line that a kill has cut off.
fn read(file: File, bounds: &Bounds, store: &mut Store) -> io::Result<()> {
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        if line.len() > LINE_BYTES {
            continue;
        }
        let Ok(text) = String::from_utf8(line) else {
            continue;
        };
        let Ok(line) = serde_json::from_str::<StoredLine>(&text) else {
            continue;
        };
        let Ok(json) = RawValue::from_string(text) else {
            continue;
        };
        let denial = StoredDenial {
            id: line.id,
            sequence: line.as_of.sequence,
            principal: line.actor.principal,
            namespace: line.namespace,
            time: line.time,
            json: json.into(),
        };
        store.keep(denial, bounds);
    }
    Ok(())
}

fn write_anew(path: &Path, store: &Store) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let temporary = path.with_extension("tmp");
    let mut output = io::BufWriter::new(File::create(&temporary)?);
    for denial in store.iter() {
        writeln!(output, "{}", denial.json)?;
    }
    output.into_inner().map_err(io::IntoInnerError::into_error)?;
    std::fs::rename(&temporary, path)?;
    OpenOptions::new().append(true).open(path)
}
