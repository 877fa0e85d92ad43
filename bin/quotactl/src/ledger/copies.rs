//! `ledger import`, `restore` and `export`: a data directory from an exported ledger or from a backup, and a ledger as
//! text.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use quota_core::{codec, event::Entry};
use quota_journal::{
    BackedUp, Batch, Durable, FileJournal, Hash, Journal as _, MAX_PAYLOAD_BYTES, Offline, Options,
    StoredBatch,
    disk::{Disk, RealDisk},
};
use quota_semantics::{Timestamp, quantity::as_written};
use rustix::{
    fd::{AsFd, BorrowedFd},
    fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, chownat, fchown, openat},
    io::Errno,
    process::geteuid,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    decoded, entries, open, unread,
    verify::{self, Claims},
};
use crate::{
    args::{Jobs, LedgerPath},
    failure::{Exit, Failure, Outcome},
    output::{Output, Progress, note},
    table::one_line,
};

/// The maximum length of a line, in bytes: a full batch in base64, or an entry of a batch.
const MAX_LINE_BYTES: u64 = 2 * MAX_PAYLOAD_BYTES as u64;

/// The size in bytes at which batches are made durable together.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Creates a data directory, which appears when it is complete, or not at all.
pub(super) fn import(file: &Path, data_dir: &Path, output: &Output) -> Outcome {
    let building = Building::begin(data_dir)?;
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| Failure::from(error).about(file.display()))?)
    };
    let end = import_text(
        BufReader::new(source),
        Arc::new(RealDisk),
        building.path(),
        Options::default(),
    )?;
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
    match import_text(input, disk, directory, options) {
        Ok(end) => Ok((end.last_sequence, end.hash)),
        Err(failure) => Err(failure.to_string()),
    }
}

fn import_text(
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

// A data directory under construction: it appears when it is complete, or not at all.

/// The suffix of a directory under construction.
const ENDING: &str = ".partial";

/// A directory under construction, beside its final path. An unfinished one is removed when it is dropped.
pub(crate) struct Building {
    path: PathBuf,
    directory: PathBuf,
    finished: bool,
}

impl Building {
    /// Begins a directory, which must not exist, or be empty.
    pub(crate) fn begin(directory: &Path) -> Outcome<Self> {
        refuse_what_is_there(directory)?;
        let named = directory.file_name();
        let mut name = named
            .ok_or_else(|| Failure::usage(format!("{}: no name", directory.display())))?
            .to_owned();
        name.push(ENDING);
        let path = directory.with_file_name(name);
        fs::create_dir(&path).map_err(|error| {
            let failure = Failure::from(error).about(path.display());
            failure.hint("an interrupted run leaves such a directory: remove it")
        })?;
        Ok(Self { path, directory: directory.to_path_buf(), finished: false })
    }

    /// The path of the directory under construction.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As root, changes the owner to that of the directory that is replaced, or of the parent directory, so that the
    /// daemon can open it.
    pub(super) fn hand_over(&self) {
        hand_over(&self.path, &[&self.directory, self.parent()]);
    }

    fn parent(&self) -> &Path {
        let parent = self.directory.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// Renames the directory to its final path, durably. The content has to be durable before.
    pub(crate) fn finish(mut self) -> Outcome {
        let named = fs::rename(&self.path, &self.directory);
        named.map_err(|error| Failure::from(error).about(self.directory.display()))?;
        self.finished = true;
        RealDisk.sync_directory(self.parent()).map_err(unread)
    }

    /// As [`finish`](Self::finish), for a copy of a ledger; prints the content of the directory.
    pub(crate) fn finish_copy(self, made: &BackedUp, output: &Output) -> Outcome {
        let directory = self.directory.clone();
        self.finish()?;
        let (last, hash) = (made.last.sequence, made.last.hash.to_string());
        if output.is_structured() {
            return output.value(&json!({
                "directory": directory,
                "firstSequence": made.first_sequence,
                "lastSequence": last,
                "head": hash,
                "snapshots": made.snapshots,
            }));
        }
        output.line(format!(
            "{}: entries {} to {last}, snapshots: {}, head: {hash}",
            directory.display(),
            made.first_sequence,
            made.snapshots,
        ))
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.finished {
            // Why it was not finished is what matters.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn refuse_what_is_there(directory: &Path) -> Outcome {
    match fs::read_dir(directory) {
        Ok(mut found) => match found.next() {
            None => Ok(()),
            Some(_) => Err(Failure::new(Exit::Conflict, "the directory is not empty")
                .about(directory.display())
                .hint("a ledger needs a directory of its own")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).about(directory.display())),
    }
}

/// As root, gives a directory and its content to the owner of the first of these places that is not root's. The content
/// is complete in any case, so a failure is only a warning.
pub(super) fn hand_over(directory: &Path, places: &[&Path]) {
    if !geteuid().is_root() {
        return;
    }
    let mut owners = places.iter().filter_map(|place| fs::metadata(place).ok());
    let Some(owner) = owners.find(|owner| owner.uid() != 0) else {
        return;
    };
    let owner = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
    let given = openat(CWD, directory, OPENED, Mode::empty())
        .and_then(|directory| give(directory.as_fd(), owner));
    if let Err(error) = given {
        let (user, group) = (owner.0.as_raw(), owner.1.as_raw());
        note(format!(
            "warning: {}: not given to user {user} and group {group}: {error}",
            directory.display()
        ));
    }
}

/// The flags for opening directories. The owner may replace the content meanwhile, so no link is followed, and no path
/// is looked up twice.
const OPENED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn give(directory: BorrowedFd<'_>, owner: (Uid, Gid)) -> rustix::io::Result<()> {
    let (user, group) = (Some(owner.0), Some(owner.1));
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let flags = OPENED | OFlags::NOFOLLOW;
        match openat(directory, name, flags, Mode::empty()) {
            Ok(below) => give(below.as_fd(), owner)?,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Err(error) => return Err(error),
        }
    }
    fchown(directory, user, group)
}

/// Verifies the backup, and then copies it; each batch is verified once more.
pub(super) fn restore(
    backup: &Path,
    data_dir: &Path,
    claims: Claims,
    jobs: &Jobs,
    output: &Output,
) -> Outcome {
    let building = Building::begin(data_dir)?;
    let place = LedgerPath { data_dir: backup.to_path_buf(), archive: None };
    verify::refuse_damage(&verify::check(&place, claims, jobs)?)?;
    let made = copy(&place, building.path())?;
    building.hand_over();
    building.finish_copy(&made, output)
}

/// Copies the ledger through a pipe, as from a daemon.
fn copy(from: &LedgerPath, to: &Path) -> Outcome<BackedUp> {
    let Offline::Data(data) = open(from)? else {
        return Err(Failure::new(Exit::NotFound, "it is an archive, no backup")
            .about(from.data_dir.display()));
    };
    let (input, output) = io::pipe()?;
    let (written, read) = thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let mut output = BufWriter::new(output);
            quota_journal::write_backup(data.reader(), &mut output)
        });
        let progress = Progress::counting_bytes("restoring");
        let mut input = BufReader::new(progress.read(input));
        let read = quota_journal::read_backup(&mut input, &from.data_dir, Arc::new(RealDisk), to);
        drop(input);
        (writing.join(), read)
    });
    match (written, read) {
        (_, Ok(made)) => Ok(made),
        // Why it could not be written comes first, unless that is because it was not read.
        (Ok(Err(error @ quota_journal::Error::Damaged(_))), Err(_)) | (_, Err(error)) => {
            Err(unread(error))
        }
    }
}

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

/// Writes the whole ledger to a file, or to standard output, as text.
///
/// One JSON object per line. The first is `{"format":…,"version":…,"firstSequence":…,"previous":…}`. Each batch is a
/// line `{"batch":{…}}` with its place in the hash chain and its bytes, and a line `{"entry":{…}}` for each of its
/// entries. The last is `{"end":{…}}`: without that line the text is incomplete.
///
/// So the chain can be checked without knowing how entries are encoded: a batch's `hash` is the BLAKE3 hash of the
/// text `quota-ledger/1`, the 32 bytes of `previous`, and then little-endian the length of the payload (4 bytes),
/// `count` (4), `firstSequence` (8), `time` in nanoseconds since 1970 (8), and the payload.
pub(super) fn export(ledger: &Offline, file: &Path) -> Outcome {
    if file == Path::new("-") {
        let mut text = Text { out: BufWriter::new(io::stdout().lock()), is_shown: true };
        return export_text(ledger, &mut text).and_then(|()| Ok(text.out.flush()?));
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
    export_text(ledger, &mut text)?;
    let file = text.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

fn export_text(ledger: &Offline, text: &mut Text<impl Write>) -> Outcome {
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
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    fn owner(path: &Path) -> (u32, u32) {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    }

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_directory_above() {
        let home = tempfile::tempdir().unwrap();
        let [above, outside] = ["above", "outside"].map(|name| home.path().join(name));
        let ledger = above.join("ledger");
        fs::create_dir_all(ledger.join("epochs/1")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(ledger.join("epochs/1/SEAL"), "").unwrap();
        fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, ledger.join("link")).unwrap();
        if !geteuid().is_root() {
            let before = owner(&ledger);
            hand_over(&ledger, &[home.path()]);
            assert_eq!(owner(&ledger), before);
            return;
        }
        let before = owner(&outside);
        chown(&above, Some(NOBODY), Some(NOBODY)).unwrap();
        hand_over(&ledger, &[&ledger, &above]);
        for path in ["", "epochs", "epochs/1", "epochs/1/SEAL", "link"] {
            assert_eq!(owner(&ledger.join(path)), (NOBODY, NOBODY), "{path}");
        }
        for path in ["", "file"] {
            assert_eq!(owner(&outside.join(path)), before, "{path}");
        }
    }

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
