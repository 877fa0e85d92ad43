//! Replay: the fold over stored batches.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use quota_core::{
    codec::{self, DecodeError},
    event::{Entry, Sequence},
    state::{Image, ImageError, State},
};
use quota_journal::{
    BatchReader, Durable, FileJournal, FileReader, Options, Recovery, SnapshotInfo, Snapshots,
    disk::Disk,
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
    #[must_use]
    pub fn includes(self, entry: &Entry) -> bool {
        match self {
            Self::End => true,
            Self::Sequence(sequence) => entry.sequence <= sequence,
            Self::Time(time) => entry.time <= time,
        }
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
    /// Why an undamaged snapshot was not used.
    pub unusable: Option<Error>,
}

/// Recovers the state from a data directory: opens the journal, or begins one, loads the newest snapshot, and replays
/// the entries behind it. `progress` is called with each replayed entry and the last one to be replayed.
///
/// A snapshot is only an optimisation: if it cannot be read, the state is folded from the beginning, if the beginning
/// is still kept.
///
/// # Errors
/// If the directory is in use, damaged, or cannot be read or written.
pub fn recover(
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
    mut progress: impl FnMut(Sequence, Sequence),
) -> Result<Recovered, Error> {
    let (journal, reader, recovery) = FileJournal::open(disk, directory, options)?;
    let mut unusable = None;
    let mut state = match &recovery.snapshot {
        Some(info) => load(&reader, info).or_else(|error| match reader.kept_from() {
            1 => {
                unusable = Some(error);
                Ok(State::default())
            }
            _ => Err(error),
        })?,
        None => State::default(),
    };
    let loaded = state.head().sequence;
    let mut batches = reader.batches(loaded.saturating_add(1));
    let last = recovery.durable.sequence;
    let seen = |entry: &Entry| progress(entry.sequence, last);
    replay(&mut state, &mut batches, Until::End, seen)?;
    Ok(Recovered {
        state,
        journal,
        reader,
        recovery,
        loaded,
        unusable,
    })
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

/// Folds the entries behind the state's head, up to `until`. `seen` is called with each entry before it is applied.
///
/// # Errors
/// If a batch cannot be read or decoded; the state then is that before the batch.
pub fn replay(
    state: &mut State,
    batches: &mut BatchReader,
    until: Until,
    mut seen: impl FnMut(&Entry),
) -> Result<(), Error> {
    walk(state, batches, |_, entry| {
        if !until.includes(entry) {
            return ControlFlow::Break(());
        }
        seen(entry);
        ControlFlow::Continue(())
    })
}

/// Folds the entries behind the state's head, until `visit` stops. `visit` is called with the state before each entry,
/// and the entry.
///
/// # Errors
/// If a batch cannot be read or decoded; the state then is that before the batch.
pub fn walk(
    state: &mut State,
    batches: &mut BatchReader,
    mut visit: impl FnMut(&State, &Entry) -> ControlFlow<()>,
) -> Result<(), Error> {
    while let Some(batch) = batches.next_batch() {
        let batch = batch?;
        let first = batch.first_sequence;
        let entries = codec::decode_entries(first, batch.count, batch.payload)
            .map_err(|source| Error::Entries { first, source })?;
        for entry in &entries {
            if entry.sequence <= state.head().sequence {
                continue;
            }
            if visit(state, entry).is_break() {
                return Ok(());
            }
            state.apply(entry);
        }
    }
    Ok(())
}
