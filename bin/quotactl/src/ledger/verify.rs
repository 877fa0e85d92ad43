//! `ledger verify`: all checks of a ledger; and `ledger repair`.
//!
//! First the bytes: checksums, the hash chain, offsets, seals, snapshots, archive files, and that every batch holds
//! entries. Then the meaning: the entries are folded, and each snapshot must hold the state that the fold has there. Each
//! grant is decided again; one that does not follow from the limits of its time is no damage, but it is reported.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Write as _},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use quota_core::{audit::Naive, codec, event::Entry, simulate::Decided, state::State};
use quota_journal::{
    BatchRef, Damage, Hash, Observer, Offline, Remade, Repair, SnapshotInfo, Verified,
    checkpoint::{self as signed, Checkpoint, PrivateKey, PublicKey, Series, Stored, read_all},
    disk::RealDisk,
};
use quota_ledger::replay::{self as fold, Until};
use serde_json::{Value, json};

use super::{
    REPAIR, copies::hand_over, damage_as_json, is_repairable, replay, unfolded, unopened, unread,
};
use crate::{
    args::{Checkpoint as Command, Jobs, LedgerPath},
    failure::{Exit, Failure, Outcome},
    output::{Output, Progress, note},
};

/// Checks a ledger; fails with [`Exit::Damaged`] if it is damaged.
pub(super) fn run(place: &LedgerPath, claims: Claims, jobs: &Jobs, output: &Output) -> Outcome {
    let found = check(place, claims, jobs)?;
    if output.is_structured() {
        output.value(&as_json(&found))?;
    } else if found.damages.is_empty() {
        output.line(summary(&found))?;
    }
    refuse_damage(&found)
}

/// Checks a ledger, and reports findings that are no damage.
pub(crate) fn check(place: &LedgerPath, claims: Claims, jobs: &Jobs) -> Outcome<Verified> {
    let directory = &place.data_dir;
    let archive = place.archive.as_deref();
    let bytes = Bytes { progress: Progress::of_bytes("checking"), claims: Mutex::new(claims) };
    let disk = Arc::new(RealDisk);
    let mut found = quota_journal::verify(disk, directory, archive, jobs.get(), &bytes)
        .map_err(|error| unopened(error, directory))?;
    drop(bytes.progress);
    bytes.claims.into_inner().finish(&mut found);
    if found.damages.is_empty() {
        let ledger = Offline::open(Arc::new(RealDisk), directory, archive)
            .map_err(|error| unopened(error, directory))?;
        found.damages = wrong_states(&ledger, &mut found.notes)?;
    }
    for what in &found.notes {
        note(format!("note: {what}"));
    }
    Ok(found)
}

/// Reports all damage; fails if there is any.
pub(super) fn refuse_damage(found: &Verified) -> Outcome {
    for damage in &found.damages {
        let failure = quota_journal::Error::Damaged(damage.clone()).to_string();
        note(Failure::general(failure).to_string());
    }
    if found.damages.iter().any(is_repairable) {
        note(format!("hint: {REPAIR}"));
    }
    if found.damages.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Damaged)) }
}

/// The observer of the check of the bytes.
struct Bytes {
    progress: Progress,
    claims: Mutex<Claims>,
}

impl Observer for Bytes {
    fn progress(&self, _part: &str, checked: u64, total: u64) {
        self.progress.set(checked, total);
    }

    fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
        let entries = codec::decode_entries(batch.first_sequence, batch.count, batch.payload)
            .map_err(|error| error.to_string())?;
        match entries.last() {
            Some(last) if last.time == batch.time => {
                self.claims.lock().see(&batch);
                Ok(())
            }
            _ => Err("its time is not that of its last entry".to_owned()),
        }
    }
}

/// Snapshots whose state differs from the fold of the entries, checked in two ways: with the daemon's fold, and with a
/// second, naive fold that keeps no sums.
fn wrong_states(ledger: &Offline, notes: &mut Vec<String>) -> Outcome<Vec<Damage>> {
    if matches!(ledger, Offline::Archive(_)) && ledger.first_sequence() > 1 {
        note("note: a part of an archive cannot be replayed without the entries before it");
        return Ok(Vec::new());
    }
    let mut folds = Folds::new(replay::beginning(ledger, ledger.first_sequence(), Until::End)?);
    let mut damages = Vec::new();
    for info in ahead(ledger, folds.state())? {
        let until = Until::Sequence(info.position.sequence);
        folds.advance(ledger, until)?;
        damages.extend(folds.disagreement(&info.path));
        damages.extend(compare(ledger, &info, folds.state())?);
    }
    folds.advance(ledger, Until::End)?;
    damages.extend(folds.disagreement(Path::new("the state at the end")));
    notes.extend(folds.wrong);
    Ok(damages)
}

/// The daemon's fold, with each grant decided again, and the naive one.
struct Folds {
    decided: Decided,
    naive: Naive,
    /// The first grant that does not follow from the limits of its time.
    wrong: Option<String>,
}

impl Folds {
    fn new(state: State) -> Self {
        Self { naive: Naive::beginning_with(&state), decided: Decided::new(state), wrong: None }
    }

    fn state(&self) -> &State {
        self.decided.state()
    }

    fn advance(&mut self, ledger: &Offline, until: Until) -> Outcome {
        let Self { decided, naive, wrong } = self;
        let after = decided.state().head().sequence;
        let progress = Progress::over("replaying", after + 1, ledger.last_sequence());
        let mut batches = ledger.batches(after + 1);
        let mut step = |entry: Option<Entry>| {
            if let Err(error) = decided.step(entry) {
                wrong.get_or_insert_with(|| error.to_string());
            }
        };
        fold::entries(&mut batches, after, until, |entry| {
            progress.at(entry.sequence);
            naive.apply(&entry);
            step(Some(entry));
            ControlFlow::Continue(())
        })
        .map_err(unfolded)?;
        step(None);
        Ok(())
    }

    /// The differences between the two folds. They are no damage of stored data: one of the folds is wrong.
    fn disagreement(&self, place: &Path) -> Option<Damage> {
        let differences = self.naive.differences(self.state());
        (!differences.is_empty()).then(|| {
            let differences = differences.join("; ");
            let why = format!("the sums are not those of a recount: {differences}");
            Damage::new(place, why).at_sequence(self.state().head().sequence)
        })
    }
}

/// The snapshots after the state's head.
fn ahead(ledger: &Offline, state: &State) -> Outcome<Vec<SnapshotInfo>> {
    let Offline::Data(data) = ledger else {
        return Ok(Vec::new());
    };
    let (mut snapshots, _) = data.reader().snapshots().list().map_err(unread)?;
    snapshots.retain(|info| info.position.sequence > state.head().sequence);
    Ok(snapshots)
}

fn compare(ledger: &Offline, info: &SnapshotInfo, folded: &State) -> Outcome<Option<Damage>> {
    let Offline::Data(data) = ledger else {
        return Ok(None);
    };
    let why = match fold::load(data.reader(), info) {
        Ok(stored) if stored.digest() == folded.digest() => return Ok(None),
        Ok(_) => "its state is not what the entries up to it amount to".to_owned(),
        Err(fold::Error::Snapshot { source, .. }) => source.to_string(),
        Err(error) => return Err(unfolded(error)),
    };
    Ok(Some(Damage::new(&info.path, why).at_sequence(info.position.sequence)))
}

fn summary(found: &Verified) -> String {
    match &found.last {
        Some(last) => format!(
            "whole: entries {} to {}, batches: {}, snapshots: {}, head: {}",
            found.first_sequence, last.sequence, found.batches, found.snapshots, last.hash
        ),
        None => "whole: no entries".to_owned(),
    }
}

fn as_json(found: &Verified) -> Value {
    json!({
        "whole": found.damages.is_empty(),
        "damages": found.damages.iter().map(damage_as_json).collect::<Vec<_>>(),
        "notes": found.notes,
        "firstSequence": found.first_sequence,
        "lastSequence": found.last.map_or(0, |last| last.sequence),
        "head": found.last.map(|last| last.hash.to_string()),
        "batches": found.batches,
        "entries": found.entries,
        "snapshots": found.snapshots,
    })
}

// Signed checkpoints, which a ledger must extend.

/// The claims of checkpoints about a ledger, and the results of checking them.
#[derive(Default)]
pub(crate) struct Claims {
    series: Series,
    /// The file of each checkpoint, by sequence.
    files: BTreeMap<u64, PathBuf>,
    /// The chain hashes that were not compared with a batch yet, by sequence.
    open: BTreeMap<u64, Hash>,
    /// The first given file or directory; none: no proof is requested.
    place: Option<PathBuf>,
    proven: usize,
    wrong: Vec<Damage>,
}

impl Claims {
    /// Reads files of checkpoints, and directories of such files. All checkpoints have to be signed by the key, and to
    /// agree.
    pub(crate) fn load(places: &[PathBuf], public_key: &Path) -> Outcome<Self> {
        let key = std::fs::read_to_string(public_key);
        let key = key.map_err(|error| unusable(public_key, &error))?;
        let key: PublicKey = key.parse().map_err(|error| unusable(public_key, &error))?;
        let mut claims = Self { place: places.first().cloned(), ..Self::default() };
        for place in places {
            for file in files(place)? {
                claims.take(&file, &key)?;
            }
        }
        let signed = claims.series.iter();
        claims.open = signed.map(|signed| (signed.sequence, signed.hash)).collect();
        Ok(claims)
    }

    fn take(&mut self, file: &Path, key: &PublicKey) -> Outcome {
        let stored = stored(file)?;
        self.series.begin_file();
        for text in stored.notes {
            let checkpoint = match signed::verify(&text, key) {
                Ok(checkpoint) => checkpoint,
                Err(error) => {
                    self.find(file, None, error.to_string());
                    continue;
                }
            };
            let sequence = checkpoint.sequence;
            let place = self.files.entry(sequence);
            place.or_insert_with(|| file.to_path_buf());
            if let Err(contradiction) = self.series.add(checkpoint) {
                self.find(file, Some(sequence), contradiction.to_string());
            }
        }
        if stored.is_cut_off {
            self.find(file, None, "its last checkpoint is cut off".to_owned());
        }
        Ok(())
    }

    /// The checkpoints, in the order of their sequences.
    pub(crate) fn signed(
        &self,
    ) -> impl ExactSizeIterator<Item = &Checkpoint> + DoubleEndedIterator {
        self.series.iter()
    }

    /// The errors that were found, independent of the ledger.
    pub(crate) fn into_wrong(self) -> Vec<Damage> {
        self.wrong
    }

    /// Compares a batch with the checkpoint at its last entry.
    pub(super) fn see(&mut self, batch: &BatchRef<'_>) {
        let sequence = batch.last_sequence();
        match self.open.remove(&sequence) {
            Some(hash) if hash == batch.hash => self.proven += 1,
            Some(hash) => {
                let why = format!("the chain hash is {}, but {hash} was signed", batch.hash);
                self.refute(sequence, why);
            }
            None => {}
        }
    }

    /// Adds the refuted claims to `found`, once the whole ledger was read.
    pub(super) fn finish(mut self, found: &mut Verified) {
        let last = found.last.map_or(0, |last| last.sequence);
        for sequence in std::mem::take(&mut self.open).into_keys() {
            if sequence > last {
                self.refute(sequence, format!("the ledger ends with sequence {last}"));
            } else if sequence < found.first_sequence {
                let what = format!(
                    "the checkpoint of sequence {sequence} is about entries that are not here"
                );
                found.notes.push(what);
            } else {
                self.refute(sequence, "no batch ends there".to_owned());
            }
        }
        found.damages.append(&mut self.wrong);
        if self.proven > 0 {
            found.notes.push(format!("the ledger extends {} checkpoints", self.proven));
        } else if found.damages.is_empty() && self.place.is_some() {
            let why = "none of the checkpoints is about the entries that are here".to_owned();
            self.refute(0, why);
            found.damages.append(&mut self.wrong);
        }
    }

    fn refute(&mut self, sequence: u64, why: String) {
        let file = self.files.get(&sequence).or(self.place.as_ref());
        let file = file.cloned().unwrap_or_default();
        let why = format!("the ledger does not extend the checkpoint: {why}");
        self.find(&file, Some(sequence), why);
    }

    fn find(&mut self, file: &Path, sequence: Option<u64>, why: String) {
        self.wrong.push(Damage::new(file, why).at_sequence(sequence));
    }
}

/// The files of a directory without hidden ones, sorted by name; or the file itself.
fn files(place: &Path) -> Outcome<Vec<PathBuf>> {
    if !place.is_dir() {
        return Ok(vec![place.to_path_buf()]);
    }
    let failed = |error: io::Error| unusable(place, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(place).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    if files.is_empty() {
        return Err(no_proof(place, &"it holds no checkpoint"));
    }
    files.sort();
    Ok(files)
}

/// The notes in a file. Fails if the file is missing, empty or of another format, since it proves nothing.
fn stored(file: &Path) -> Outcome<Stored> {
    use io::ErrorKind::{InvalidData, NotFound};
    match read_all(file) {
        Ok(stored) if stored.notes.is_empty() => Err(no_proof(
            file,
            &match stored.is_cut_off {
                true => "its only checkpoint is cut off",
                false => "it holds no checkpoint",
            },
        )),
        Ok(stored) => Ok(stored),
        Err(error) if matches!(error.kind(), InvalidData | NotFound) => Err(no_proof(file, &error)),
        Err(error) => Err(unusable(file, &error)),
    }
}

fn no_proof(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Damaged, why.to_string()).about(file.display())
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::general(why.to_string()).about(file.display())
}

/// Creates a key pair: `FILE` is the private key, `FILE.pub` the public one.
pub(super) fn keygen(file: &Path, origin: &str, output: &Output) -> Outcome {
    let key = PrivateKey::generate(origin).map_err(|error| Failure::usage(error.to_string()))?;
    let mut public_file = file.as_os_str().to_owned();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    let write = |path: &Path, text: String, mode: u32| -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(format!("{text}\n").as_bytes())?;
        file.sync_all()
    };
    let public = key.public().to_string();
    // First: a public key of another pair, which is there already, shall not stay beside a new private key.
    write(&public_file, public.clone(), 0o644).map_err(|error| unusable(&public_file, &error))?;
    if let Err(error) = write(file, key.to_secret_text(), 0o600) {
        _ = std::fs::remove_file(&public_file);
        return Err(unusable(file, &error));
    }
    note(format!("wrote {} and {}", file.display(), public_file.display()));
    output.line(public)
}

/// Runs a `checkpoint` command.
pub(crate) fn verify_checkpoints(command: &Command, output: &Output) -> Outcome {
    let Command::Verify { files, public_key, ledger, archive, jobs } = command;
    let claims = Claims::load(files, public_key)?;
    let (first, count) = (claims.signed().next(), claims.signed().len());
    let origin = first.map_or_else(String::new, |first| first.origin.clone());
    let first = first.map_or(0, |first| first.sequence);
    let last = claims.signed().next_back();
    let last = last.map_or(0, |last| last.sequence);
    let wrong = match ledger {
        Some(directory) => {
            let place = LedgerPath { data_dir: directory.clone(), archive: archive.clone() };
            super::check(&place, claims, jobs)?.damages
        }
        None => claims.into_wrong(),
    };
    if output.is_structured() {
        output.value(&json!({
            "consistent": wrong.is_empty(),
            "origin": origin,
            "checkpoints": count,
            "firstSequence": first,
            "lastSequence": last,
            "ledger": ledger,
            "damages": wrong.iter().map(super::damage_as_json).collect::<Vec<_>>(),
        }))?;
    } else if wrong.is_empty() {
        let extended = match ledger {
            Some(_) => "; the ledger extends them",
            None => "",
        };
        output.line(format!(
            "consistent: {count} checkpoints of {origin}, sequences {first} to {last}{extended}"
        ))?;
    }
    for damage in &wrong {
        note(Failure::general(damage.to_string()).to_string());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent(Exit::Damaged)),
    }
}

/// Rebuilds damaged epochs of a data directory from an archive, a backup or a copy; fails with [`Exit::Damaged`] if
/// damage is left.
pub(super) fn repair(data_dir: &Path, from: Option<&Path>, output: &Output) -> Outcome {
    let repair = quota_journal::repair(Arc::new(RealDisk), data_dir, from)
        .map_err(|error| unopened(error, data_dir))?;
    hand_over(data_dir, &[data_dir]);
    match output.is_structured() {
        true => output.value(&repaired_as_json(&repair))?,
        false => print(&repair, output)?,
    }
    for damage in &repair.left {
        note(format!("error: not repaired: {damage}"));
    }
    if repair.left.is_empty() {
        return Ok(());
    }
    let hint = match from {
        Some(from) => format!(
            "hint: {} does not hold these entries; try another archive or backup",
            from.display()
        ),
        None => "hint: --from ARCHIVE|BACKUP says where they are".to_owned(),
    };
    note(hint);
    Err(Failure::silent(Exit::Damaged))
}

fn print(repair: &Repair, output: &Output) -> Outcome {
    if repair.made.is_empty() && repair.left.is_empty() {
        return output.line("no sealed epoch is damaged; `ledger verify` checks everything else");
    }
    repair.made.iter().try_for_each(|made| {
        let Remade { first_sequence, last_sequence, from, aside, .. } = made;
        let aside: Vec<_> = aside.iter().map(|path| path.display().to_string()).collect();
        output.line(format!(
            "entries {first_sequence} to {last_sequence}: made again from {}; set aside: {}",
            from.display(),
            match aside.is_empty() {
                true => "nothing".to_owned(),
                false => aside.join(", "),
            }
        ))
    })
}

fn repaired_as_json(repair: &Repair) -> serde_json::Value {
    let made = |made: &Remade| {
        json!({
            "firstSequence": made.first_sequence,
            "lastSequence": made.last_sequence,
            "damage": damage_as_json(&made.damage),
            "from": made.from,
            "setAside": made.aside,
        })
    };
    json!({
        "repaired": repair.made.iter().map(made).collect::<Vec<_>>(),
        "left": repair.left.iter().map(damage_as_json).collect::<Vec<_>>(),
    })
}
