//! Signed checkpoints, which a ledger must extend.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use quota_journal::{
    BatchRef, Damage, Hash, Verified,
    checkpoint::{
        Checkpoint, Series, Stored,
        key::{PrivateKey, PublicKey},
        note as signed, read_all,
    },
};
use serde_json::json;

use crate::{
    args::{Checkpoint as Command, LedgerPath},
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
};

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
