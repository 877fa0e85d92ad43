//! What the daemon's recovery and the check of a ledger at rest say of it.

use std::{fmt, path::Path, sync::Arc};

use quota_core::{audit::Naive, codec, state::State};
use quota_journal::checkpoint::Extends;
use quota_journal::{
    BatchRef, Damage, Error, FileJournal, FileReader, Observer, Offline, Reader as _,
    disk::RealDisk,
};
use quota_ledger::replay::{self, Until};

use super::ledger::{ARCHIVE, DATA, Ledger, options};

/// What became of a ledger that was tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Everything is as it was.
    Repaired,
    /// Damage was reported, with its place.
    Reported,
    /// Only the signed checkpoint tells.
    Checkpoint,
}

/// What one of the two found.
pub(crate) enum Found {
    Same,
    Damage(String),
    /// An earlier ledger, whole in itself, which does not extend the last checkpoint.
    Earlier,
    /// Something that must not be.
    Wrong(String),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("all is as it was"),
            Self::Damage(what) => write!(f, "damage: {what}"),
            Self::Earlier => f.write_str("an earlier ledger"),
            Self::Wrong(why) => write!(f, "wrong: {why}"),
        }
    }
}

/// Damage has to name a place in this ledger.
fn place(directory: &Path, damage: &Damage) -> Found {
    let named = damage.file.starts_with(directory) && !damage.why.is_empty();
    match named {
        true => Found::Damage(damage.to_string()),
        false => Found::Wrong(format!("no place is named: {damage}")),
    }
}

fn error(directory: &Path, error: &Error) -> Found {
    match error {
        Error::Damaged(damage) => place(directory, damage),
        error => Found::Wrong(format!("no damage, but: {error}")),
    }
}

fn unfolded(directory: &Path, wrong: &replay::Error) -> Found {
    match wrong {
        replay::Error::Journal(wrong) => error(directory, wrong),
        // They name the entry.
        wrong => Found::Damage(wrong.to_string()),
    }
}

/// Compares what can be read with what was written.
fn compare(ledger: &Ledger, directory: &Path, reader: &FileReader, state: &State) -> Found {
    let durable = reader.durable();
    if reader.first_sequence() != 1 {
        return Found::Wrong(format!("begins with {}", reader.first_sequence()));
    }
    let mut chain = Vec::new();
    for batch in reader.read(1) {
        match batch {
            Ok(batch) => chain.push((batch.batch.last_sequence(), batch.hash)),
            Err(wrong) => return error(directory, &wrong),
        }
    }
    if durable == ledger.durable && chain == ledger.chain && state.digest() == ledger.digest {
        return Found::Same;
    }
    let earlier = ledger.chain.starts_with(&chain)
        && chain.last() == Some(&(durable.sequence, durable.hash))
        && state.head().sequence == durable.sequence;
    match ledger.checkpoint.is_extended_by(reader) {
        Ok(Extends::TooShort { .. }) if earlier => Found::Earlier,
        extends => Found::Wrong(format!(
            "silently at {} with {} instead of {}; {extends:?}",
            durable.sequence, durable.hash, ledger.durable.sequence
        )),
    }
}

/// Opens it as the daemon does.
pub(crate) fn open(ledger: &Ledger, directory: &Path) -> Found {
    let data = directory.join(DATA);
    let opened = FileJournal::open(Arc::new(RealDisk), &data, options(directory));
    let (journal, reader, recovery) = match opened {
        Ok(opened) => opened,
        Err(wrong) => return error(directory, &wrong),
    };
    let mut state = State::default();
    if let Some(info) = &recovery.snapshot {
        match replay::load(&reader, info) {
            Ok(loaded) => state = loaded,
            Err(wrong) => return unfolded(directory, &wrong),
        }
    }
    let mut batches = reader.batches(state.head().sequence + 1);
    if let Err(wrong) = replay::replay(&mut state, &mut batches, Until::End, |_| {}) {
        return unfolded(directory, &wrong);
    }
    if let Some(damage) = &recovery.missing_archive {
        return match compare(ledger, directory, &reader, &state) {
            Found::Wrong(_) | Found::Same => place(directory, damage),
            found => found,
        };
    }
    let found = compare(ledger, directory, &reader, &state);
    if !matches!(found, Found::Same) {
        return found;
    }
    // What was repaired has to be good for going on.
    while match journal.work() {
        Ok(more) => more,
        Err(wrong) => return Found::Wrong(format!("cannot go on: {wrong}")),
    } {}
    match journal.close() {
        Ok(durable) if durable == ledger.durable => Found::Same,
        other => Found::Wrong(format!("closed: {other:?}")),
    }
}

/// Looks into every batch.
struct Entries;

impl Observer for Entries {
    fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
        codec::decode_entries(batch.first_sequence, batch.count, batch.payload)
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// Checks it as `ledger verify` does.
pub(crate) fn verify(ledger: &Ledger, directory: &Path) -> Found {
    let (data, archive) = (directory.join(DATA), directory.join(ARCHIVE));
    let found = quota_journal::verify(Arc::new(RealDisk), &data, Some(&archive), 1, &Entries);
    let found = match found {
        Ok(found) => found,
        Err(wrong) => return error(directory, &wrong),
    };
    for damage in &found.damages {
        let found = place(directory, damage);
        if matches!(found, Found::Wrong(_)) {
            return found;
        }
    }
    if let Some(damage) = found.damages.first() {
        return Found::Damage(damage.to_string());
    }
    let offline = match Offline::open(Arc::new(RealDisk), &data, Some(&archive)) {
        Ok(Offline::Data(offline)) => offline,
        Ok(_) => return Found::Wrong("an archive".to_owned()),
        Err(wrong) => return error(directory, &wrong),
    };
    let reader = offline.reader();
    let (mut state, mut naive) = (State::default(), Naive::default());
    let (snapshots, _) = reader.snapshots().list().unwrap();
    for info in snapshots {
        let until = Until::Sequence(info.position.sequence);
        let mut batches = reader.batches(state.head().sequence + 1);
        let folded = replay::replay(&mut state, &mut batches, until, |entry| naive.apply(entry));
        if let Err(wrong) = folded {
            return unfolded(directory, &wrong);
        }
        match replay::load(reader, &info) {
            Ok(loaded) if loaded.digest() == state.digest() => {}
            Ok(_) => return Found::Damage(format!("{}: another state", info.path.display())),
            Err(wrong) => return unfolded(directory, &wrong),
        }
    }
    let mut batches = reader.batches(state.head().sequence + 1);
    let folded = replay::replay(&mut state, &mut batches, Until::End, |entry| {
        naive.apply(entry);
    });
    if let Err(wrong) = folded {
        return unfolded(directory, &wrong);
    }
    if found.last != Some(reader.durable()) || !naive.differences(&state).is_empty() {
        return Found::Wrong(format!("it found {:?}", found.last));
    }
    compare(ledger, directory, reader, &state)
}
