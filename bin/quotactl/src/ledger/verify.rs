//! `ledger verify`: all checks of a ledger.
//!
//! First the bytes: checksums, the hash chain, offsets, seals, snapshots, archive files, and that every batch holds
//! entries. Then the meaning: the entries are folded, and each snapshot must hold the state that the fold has there. Each
//! grant is decided again; one that does not follow from the limits of its time is no damage, but it is reported.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use parking_lot::Mutex;
use quota_core::{audit::Naive, codec, event::Entry, simulate::Decided, state::State};
use quota_journal::{BatchRef, Damage, Observer, Offline, SnapshotInfo, Verified, disk::RealDisk};
use quota_ledger::replay::{self as fold, Until};
use serde_json::{Value, json};

use super::{
    REPAIR, checkpoints::Claims, damage_as_json, is_repairable, replay, unfolded, unopened, unread,
};
use crate::{
    args::{Jobs, LedgerPath},
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
    progress::Progress,
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
