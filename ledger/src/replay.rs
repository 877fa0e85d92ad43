//! Replay: the fold over stored batches.

use std::{
    mem,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, SendError, SyncSender},
    },
    thread,
};

use quota_core::{
    codec::{self, DecodeError},
    event::{Entry, Sequence},
    state::{Image, ImageError, State},
};
use quota_journal::{
    BatchReader, Damage, Durable, FileJournal, FileReader, Options, Recovery, SnapshotInfo,
    Snapshots, disk::Disk,
};
use quota_semantics::Timestamp;

/// The end of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The last durable entry.
    End,
    /// This entry.
    Sequence(Sequence),
    /// The last entry that is not later than this time.
    Time(Timestamp),
}

impl Until {
    /// Whether an entry belongs to the replay.
    pub fn includes(self, entry: &Entry) -> bool {
        match self {
            Self::End => true,
            Self::Sequence(sequence) => entry.sequence <= sequence,
            Self::Time(time) => entry.time <= time,
        }
    }

    /// Whether no entry behind this one belongs to the replay, whatever its time.
    const fn ends_with(self, sequence: Sequence) -> bool {
        matches!(self, Self::Sequence(last) if sequence >= last)
    }
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] quota_journal::Error),
    /// An undamaged batch does not hold entries in the format of this version.
    #[error("the batch of entry {first}: {source}")]
    Entries {
        /// Its first entry.
        first: Sequence,
        /// The error.
        source: DecodeError,
    },
    /// An undamaged snapshot does not hold a state in the format of this version.
    #[error("the snapshot of entry {sequence}: {source}")]
    Snapshot {
        /// The last entry that it holds.
        sequence: Sequence,
        /// The error.
        source: ImageError,
    },
}

/// An open ledger, with its state.
pub struct Recovered {
    /// The fold of all durable entries.
    pub state: State,
    /// The writing side.
    pub journal: FileJournal,
    /// The reading side.
    pub reader: FileReader,
    /// The result of opening the journal.
    pub recovery: Recovery,
    /// The last entry that was not replayed, since a snapshot holds it; 0: all entries were replayed.
    pub loaded: Sequence,
    /// Why undamaged snapshots were not used.
    pub unusable: Vec<Error>,
}

/// Recovers the state from a data directory: opens the journal, or begins one, loads the newest snapshot, and replays
/// the entries behind it. `progress` is called with each replayed entry and the last one to be replayed.
///
/// A snapshot is only an optimisation: if it cannot be read, an older one is loaded, and at last the state is folded from
/// the beginning, if that is kept.
///
/// # Errors
/// If the directory is in use, damaged, or cannot be read or written.
pub fn recover(
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
    mut progress: impl FnMut(Sequence, Sequence),
) -> Result<Recovered, Error> {
    let (journal, reader, mut recovery) = FileJournal::open(disk, directory, options)?;
    let mut unusable = Vec::new();
    let mut snapshot = recovery.snapshot.clone();
    let mut state = loop {
        let Some(info) = snapshot else {
            break State::default();
        };
        match load(&reader, &info) {
            Ok(state) => break state,
            Err(error) => {
                let Ok((older, damaged)) = reader.snapshot_before(info.position.sequence) else {
                    return Err(error);
                };
                unusable.push(error);
                recovery.damaged_snapshots.extend(damaged);
                snapshot = older;
            }
        }
    };
    let loaded = state.head().sequence;
    let mut batches = reader.batches(loaded.saturating_add(1));
    let last = recovery.durable.sequence;
    let seen = |entry: &Entry| progress(entry.sequence, last);
    replay(&mut state, &mut batches, Until::End, seen)?;
    let end = state.head().sequence;
    if end != last {
        let why = format!("the entries that can be read end at {end}, and the ledger at {last}");
        return Err(Error::Journal(quota_journal::Error::Damaged(
            Damage::new(directory, why).at_sequence(end.saturating_add(1)),
        )));
    }
    Ok(Recovered { state, journal, reader, recovery, loaded, unusable })
}

/// Stores a snapshot of the state at `position`, the end of a durable batch, and removes surplus ones: see
/// [`Snapshots::thin`].
///
/// # Errors
/// If it cannot be written.
pub fn store(
    snapshots: &Snapshots,
    image: &Image,
    position: Durable,
    keep: usize,
) -> Result<SnapshotInfo, quota_journal::Error> {
    let mut output = snapshots.create(position)?;
    let path = output.path().to_path_buf();
    image.write(&mut output).map_err(|source| {
        quota_journal::Error::io(path, quota_journal::Operation::Write, source)
    })?;
    let info = output.finish()?;
    snapshots.thin(keep)?;
    Ok(info)
}

/// Loads the state from a snapshot.
///
/// # Errors
/// If it cannot be read, or does not match its header.
pub fn load(reader: &FileReader, info: &SnapshotInfo) -> Result<State, Error> {
    let sequence = info.position.sequence;
    let mut content = reader.snapshots().open(info)?;
    let state = State::read(&mut content).map_err(|source| Error::Snapshot { sequence, source })?;
    if state.head().sequence != sequence {
        let why = format!("it holds the state at {}", state.head().sequence);
        let source = ImageError::Decode(DecodeError(why));
        return Err(Error::Snapshot { sequence, source });
    }
    Ok(state)
}

/// Entries that are handed to the fold at once: enough that waking its thread costs nothing beside them.
const GROUP_ENTRIES: usize = 256;

/// Groups of decoded entries that wait for the fold.
const GROUPS_AHEAD: usize = 4;

/// Folds the entries behind the state's head, up to `until`. `seen` is called with each entry before it is applied.
/// Of many entries, another thread reads and decodes ahead, since that takes longer than the fold.
///
/// # Errors
/// If a batch of these entries cannot be read or decoded; the state then is that before the batch.
pub fn replay(
    state: &mut State,
    batches: &mut BatchReader,
    until: Until,
    mut seen: impl FnMut(&Entry),
) -> Result<(), Error> {
    if until.ends_with(state.head().sequence) {
        return Ok(());
    }
    let mut visit = |_: &State, entry: &Entry| {
        seen(entry);
        ControlFlow::Continue(())
    };
    // For few entries a thread would cost more than it saves.
    let mut folded = 0;
    while folded < GROUP_ENTRIES {
        let Some(entries) = decode_next(batches) else {
            return Ok(());
        };
        let entries = entries?;
        if fold(state, &entries, until, &mut visit).is_break() {
            return Ok(());
        }
        folded += entries.len();
    }
    thread::scope(|scope| {
        let (sender, groups) = mpsc::sync_channel(GROUPS_AHEAD);
        scope.spawn(move || decode_ahead(batches, &sender));
        for group in groups {
            for entries in group? {
                if fold(state, &entries, until, &mut visit).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// Folds the entries behind the state's head, up to `until`, or until `visit` stops. `visit` is called with the state
/// before each entry, and the entry. All of it happens in this thread, at the pace of `visit`.
///
/// # Errors
/// As [`replay`].
pub fn walk(
    state: &mut State,
    batches: &mut BatchReader,
    until: Until,
    mut visit: impl FnMut(&State, &Entry) -> ControlFlow<()>,
) -> Result<(), Error> {
    if until.ends_with(state.head().sequence) {
        return Ok(());
    }
    while let Some(entries) = decode_next(batches) {
        if fold(state, &entries?, until, &mut visit).is_break() {
            break;
        }
    }
    Ok(())
}

/// Hands over the entries behind `after`, in order, up to `until` or until `visit` stops, at the pace of `visit`.
///
/// # Errors
/// If a batch of these entries cannot be read or decoded.
pub fn entries(
    batches: &mut BatchReader,
    after: Sequence,
    until: Until,
    mut visit: impl FnMut(Entry) -> ControlFlow<()>,
) -> Result<(), Error> {
    while let Some(entries) = decode_next(batches) {
        for entry in entries? {
            if entry.sequence <= after {
                continue;
            }
            let sequence = entry.sequence;
            if !until.includes(&entry) || visit(entry).is_break() || until.ends_with(sequence) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The entries of several batches, or the error behind the last one.
type Group = Result<Vec<Vec<Entry>>, Error>;

/// Sends groups of decoded entries up to the end, the first error, or the end of the fold, which takes no more then.
fn decode_ahead(
    batches: &mut BatchReader,
    fold: &SyncSender<Group>,
) -> Result<(), SendError<Group>> {
    let (mut group, mut entries) = (Vec::new(), 0);
    while let Some(decoded) = decode_next(batches) {
        match decoded {
            Ok(batch) => {
                entries += batch.len();
                group.push(batch);
            }
            Err(error) => {
                fold.send(Ok(group))?;
                return fold.send(Err(error));
            }
        }
        if entries >= GROUP_ENTRIES {
            fold.send(Ok(mem::take(&mut group)))?;
            entries = 0;
        }
    }
    fold.send(Ok(group))
}

/// The entries of the next batch.
fn decode_next(batches: &mut BatchReader) -> Option<Result<Vec<Entry>, Error>> {
    let batch = match batches.next_batch()? {
        Ok(batch) => batch,
        Err(error) => return Some(Err(error.into())),
    };
    let first = batch.first_sequence;
    let entries = codec::decode_entries(first, batch.count, batch.payload);
    Some(entries.map_err(|source| Error::Entries { first, source }))
}

/// Folds entries, except those that the state holds already; breaks at the end, or where `visit` does.
fn fold(
    state: &mut State,
    entries: &[Entry],
    until: Until,
    visit: &mut impl FnMut(&State, &Entry) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for entry in entries {
        if entry.sequence <= state.head().sequence {
            continue;
        }
        if !until.includes(entry) {
            return ControlFlow::Break(());
        }
        visit(state, entry)?;
        state.apply(entry);
        if until.ends_with(entry.sequence) {
            return ControlFlow::Break(());
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use quota_core::event::{Actor, Event, Observed};
    use quota_journal::{Batch, Journal as _, Reader as _, simulation::SimDisk};
    use quota_semantics::{Name, object::Footprint, uid::Uid};

    use super::*;

    /// A journal with batches of one to three entries each, and behind them one that cannot be decoded.
    fn damaged(batches: u64) -> (FileJournal, FileReader, Sequence) {
        let options = Options { background: false, ..Options::default() };
        let disk = Arc::new(SimDisk::new(1));
        let (mut journal, reader, _) =
            FileJournal::open(disk, Path::new("/data"), options).unwrap();
        let actor = Actor::named("test");
        let mut next = 1;
        for number in 0..=batches {
            let entries: Vec<Entry> = (next..=next + number % 3)
                .map(|sequence| Entry {
                    sequence,
                    time: Timestamp::from_nanoseconds(sequence as i64),
                    actor: actor.clone(),
                    event: Event::WorkloadsCharged { kinds: vec![Name::from("deployments.apps")] },
                })
                .collect();
            let mut payload = codec::encode_entries(&entries);
            if number == batches {
                payload.truncate(3);
            }
            let last = entries.last().unwrap();
            journal
                .append(Batch {
                    first_sequence: next,
                    count: u32::try_from(entries.len()).unwrap(),
                    time: last.time,
                    payload,
                })
                .unwrap();
            next = last.sequence + 1;
        }
        journal.sync().unwrap();
        let undecodable = next - 1 - batches % 3;
        (journal, reader, undecodable)
    }

    #[test]
    fn a_replay_that_reads_ahead_sees_what_a_walk_sees() {
        // Less than a group, and more than all groups that wait.
        for batches in [0, 1, 100, 2000] {
            let (_journal, reader, undecodable) = damaged(batches);
            let mut walked = Vec::new();
            let mut state = State::default();
            let failed = walk(&mut state, &mut reader.batches(1), Until::End, |state, entry| {
                walked.push((state.head().sequence, entry.clone()));
                ControlFlow::Continue(())
            });
            assert!(matches!(failed, Err(Error::Entries { first, .. }) if first == undecodable));
            let (mut replayed, mut folded) = (Vec::new(), State::default());
            let failed = replay(&mut folded, &mut reader.batches(1), Until::End, |entry| {
                replayed.push((entry.sequence - 1, entry.clone()));
            });
            assert!(matches!(failed, Err(Error::Entries { first, .. }) if first == undecodable));
            assert_eq!(walked, replayed);
            assert_eq!(walked.len() as u64 + 1, undecodable);
            assert_eq!(folded.digest(), state.digest());
        }
    }

    #[test]
    fn a_replay_ends_where_it_shall_before_an_error_behind_that() {
        let (_journal, reader, undecodable) = damaged(2000);
        for last in [0, 1, 255, 256, 257, 1500, undecodable - 1] {
            let until = Until::Sequence(last);
            let mut state = State::default();
            replay(&mut state, &mut reader.batches(1), until, |_| {}).unwrap();
            assert_eq!(state.head().sequence, last);
            let mut state = State::default();
            let batches = &mut reader.batches(1);
            walk(&mut state, batches, until, |_, _| ControlFlow::Continue(())).unwrap();
            assert_eq!(state.head().sequence, last);
            // From there on, and not at all.
            let until = Until::Sequence(undecodable - 1);
            for _ in 0..2 {
                let from = state.head().sequence + 1;
                replay(&mut state, &mut reader.batches(from), until, |_| {}).unwrap();
                assert_eq!(state.head().sequence, undecodable - 1);
            }
        }
    }

    /// Whoever can change a snapshot can compute its hashes again: an older one, or the entries, give the state.
    #[test]
    fn a_snapshot_whose_tables_do_not_agree_is_not_used() {
        for has_older in [false, true] {
            let disk = Arc::new(SimDisk::new(1));
            let open = || recover(disk.clone(), Path::new("/data"), Options::default(), |_, _| {});
            let Recovered { mut state, mut journal, reader, .. } = open().unwrap();
            let snapshots = reader.snapshots();
            let last = 4;
            for sequence in 1..=last {
                let entry = Entry {
                    sequence,
                    time: Timestamp::from_nanoseconds(sequence as i64),
                    actor: Actor::named("test"),
                    event: Event::ObjectObserved(Box::new(Observed {
                        uid: Uid::new(&format!("u{sequence}")).unwrap(),
                        namespace: "team-a".into(),
                        resource: "pods".into(),
                        name: "web".into(),
                        version: 1,
                        footprint: Footprint::default(),
                        lapse: None,
                        ends_reservation: false,
                    })),
                };
                journal
                    .append(Batch {
                        first_sequence: sequence,
                        count: 1,
                        time: entry.time,
                        payload: codec::encode_entries(std::slice::from_ref(&entry)),
                    })
                    .unwrap();
                journal.sync().unwrap();
                state.apply(&entry);
                if sequence == 2 && has_older {
                    store(&snapshots, &state.image(), reader.durable(), 9).unwrap();
                }
            }
            let mut image = Vec::new();
            state.image().write(&mut image).unwrap();
            let refused = |bytes: &[u8]| match State::read(&mut &*bytes) {
                Err(ImageError::Decode(error)) => error.0.contains("do not agree"),
                _ => false,
            };
            let mut forged = (0..image.len()).map(|at| {
                let mut forged = image.clone();
                forged[at] ^= 4;
                forged
            });
            let forged = forged.find(|forged| refused(forged)).unwrap();
            let mut output = snapshots.create(reader.durable()).unwrap();
            std::io::Write::write_all(&mut output, &forged).unwrap();
            output.finish().unwrap();
            drop((journal, reader));
            let recovered = open().unwrap();
            assert_eq!(recovered.unusable.len(), 1);
            assert_eq!(recovered.loaded, if has_older { 2 } else { 0 });
            assert_eq!(recovered.state.digest(), state.digest());
        }
    }
}
