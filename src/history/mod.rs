//! Time travel: past states, built from the nearest snapshot and the entries after it.
//!
//! A past state is the fold up to its moment, independent of compaction, archiving and restarts since. The cost of a
//! query is bounded by the entries that it may replay, by the queries that are processed at the same time, and by the
//! states that are cached. Principals take turns.

mod past;
mod simulate;
#[cfg(test)]
mod tests;

pub(crate) use simulate::{Question, Unsimulated};

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use past::Past;
use quota_core::{
    event::Sequence,
    state::State,
    time::{Period, report::Entries},
};
use quota_journal::{FileReader, Reader as _};
use quota_ledger::{
    period::Fold,
    replay::{self, Until},
};
use quota_semantics::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    fairness::{AMOUNTS_AT_ONCE, Permit, Turn},
    metrics::{self, Limit},
    problem::{Problem, Reason},
};

/// Most points of a series.
pub const POINTS_MAX: usize = 2000;

/// Why a query of the past fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The entries were compacted and not archived.
    #[error(
        "the ledger is kept from sequence {kept_from} on: older states cannot be folded any more{}",
        since.map_or_else(String::new, |since| format!("; a period can begin at {since}"))
    )]
    Compacted {
        /// The first sequence whose state is available.
        kept_from: Sequence,
        /// The first time at which a period can begin, if a period was requested.
        since: Option<Timestamp>,
    },
    /// The requested moment is in the ledger's future.
    #[error("the ledger is at sequence {durable}")]
    Future {
        /// The last durable sequence.
        durable: Sequence,
    },
    /// Too many entries lie between the nearest snapshot and the requested position.
    #[error(
        "more than {limit} entries would have to be replayed (limits.replay_entries); \
         `quotactl ledger {offline}` has no such bound"
    )]
    TooFar {
        /// Most entries that may be replayed.
        limit: u64,
        /// The offline command that does the same.
        offline: &'static str,
    },
    /// Too many queries wait.
    #[error("too many questions about the past are waiting")]
    Overloaded,
    /// The ledger could not be read.
    #[error(transparent)]
    Replay(#[from] replay::Error),
}

impl From<quota_journal::Error> for Error {
    fn from(error: quota_journal::Error) -> Self {
        Self::Replay(error.into())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Compacted { .. } => Self::new(Reason::Compacted, detail),
            Error::Future { .. } => Self::new(Reason::Malformed, detail),
            Error::TooFar { .. } => Self::new(Reason::TooFarBack, detail),
            Error::Overloaded => Self::new(Reason::Overloaded, detail),
            Error::Replay(replay::Error::Journal(error)) => error.into(),
            Error::Replay(error) => Self::internal(&error),
        }
    }
}

impl Error {
    /// The same with the offline command that has no bound.
    pub(crate) fn offline(self, offline: &'static str) -> Self {
        match self {
            Self::TooFar { limit, .. } => Self::TooFar { limit, offline },
            other => other,
        }
    }

    /// Whether stored data is damaged, or cannot be understood: to read it again is of no use.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Replay(replay::Error::Journal(error)) => error.is_damage(),
            Self::Replay(replay::Error::Entries { .. } | replay::Error::Snapshot { .. }) => true,
            Self::Compacted { .. }
            | Self::Future { .. }
            | Self::TooFar { .. }
            | Self::Overloaded => false,
        }
    }
}

/// The state at the durable end of a ledger, built from stored data. Blocks.
///
/// # Errors
/// [`Error`].
pub fn rebuild(reader: FileReader) -> Result<State, Error> {
    let past = Past { reader, replay_entries: u64::MAX };
    past.state(Until::End, &|| ())
}

/// Answers queries of past states. Cheap to clone.
#[derive(Clone)]
pub struct History(Arc<Shared>);

struct Shared {
    past: Past,
    cache: Mutex<Cache>,
    /// Permits for queries that wait or are being processed.
    room: Semaphore,
}

impl Shared {
    /// The state at a moment, from the cache or built.
    fn state(&self, until: Until, turn: &Turn) -> Result<Arc<State>, Error> {
        if let Some(state) = self.cache.lock().get(until) {
            return Ok(state);
        }
        let state = Arc::new(self.past.state(until, &|| turn.pause())?);
        self.cache.lock().put(until, &state);
        Ok(state)
    }
}

impl History {
    /// The past of a ledger. A query may replay `replay_entries` entries, and at most `most` queries may wait or be
    /// processed.
    pub fn new(reader: FileReader, replay_entries: u64, most: usize) -> Self {
        Self(Arc::new(Shared {
            past: Past { reader, replay_entries },
            cache: Mutex::default(),
            room: Semaphore::new(most),
        }))
    }

    /// An answer from a view of the state at a moment. A view may hold large parts of its state, so an answer with many
    /// amounts is made together with the state: what waits holds neither, and the number of queries that are processed
    /// at the same time bounds the states in memory.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn answer<V: Send + 'static, R: Send + 'static>(
        &self,
        permit: &Permit,
        until: Until,
        view: impl Fn(&State) -> V + Send + 'static,
        amounts: impl FnOnce(&V) -> usize,
        make: impl FnOnce(V, &Turn) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let until = self.settled(until)?;
        let cached = self.0.cache.lock().get(until);
        let cached = cached.map(|state| view(&state));
        let cached = cached.map(|view| (amounts(&view), view));
        if let Some((amounts, view)) = cached
            && amounts <= AMOUNTS_AT_ONCE
        {
            return Ok(permit.make(amounts, move |turn| make(view, turn)).await);
        }
        // A view of a cached state is dropped: another one is taken when it is its turn.
        self.work(permit, move |shared, turn| {
            let state = shared.state(until, turn)?;
            Ok(make(view(&state), turn))
        })
        .await
    }

    /// Folds the entries of a period in one replay, and makes an answer from the result and the state at the end.
    /// `begin` gets the state at its first moment.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn period<F: Fold, R: Send + 'static>(
        &self,
        permit: &Permit,
        period: Period,
        begin: impl FnOnce(&State) -> F + Send + 'static,
        make: impl FnOnce(F, &State, Entries, &Turn) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let work = move |shared: &Shared, turn: &Turn| {
            let past = &shared.past;
            let (fold, state, entries) = past.period(period, begin, &|| turn.pause())?;
            Ok(make(fold, &state, entries, turn))
        };
        self.work(permit, work).await
    }

    /// The equivalent point whose state no later entry can change, if there is one.
    fn settled(&self, until: Until) -> Result<Until, Error> {
        let durable = self.0.past.reader.durable();
        match until {
            Until::Sequence(sequence) if sequence > durable.sequence => {
                Err(Error::Future { durable: durable.sequence })
            }
            Until::Time(time) if time < durable.time => Ok(until),
            Until::Time(_) | Until::End => Ok(Until::Sequence(durable.sequence)),
            Until::Sequence(_) => Ok(until),
        }
    }

    /// Works in the turn of the principal, and stops when the caller no longer waits.
    async fn work<R: Send + 'static>(
        &self,
        permit: &Permit,
        question: impl FnOnce(&Shared, &Turn) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let _place = self.place(permit)?;
        let shared = self.0.clone();
        permit.make(usize::MAX, move |turn| question(&shared, turn)).await
    }

    /// A place among the waiting queries. A principal may take at most as many places as stay free, so that one
    /// principal alone leaves half of them to others.
    fn place(&self, permit: &Permit) -> Result<SemaphorePermit<'_>, Error> {
        let room = &self.0.room;
        let place = match permit.waiting() < room.available_permits() {
            true => room.try_acquire().ok(),
            false => None,
        };
        place.ok_or_else(|| {
            metrics::limit_reached(Limit::PastQuestions);
            Error::Overloaded
        })
    }
}

/// Most states that are kept.
const STATES: usize = 4;

/// A larger state is not kept, to save memory for current requests: so many objects, or bytes of ended reservations.
const OBJECTS: u32 = 250_000;
const ENDED_BYTES: usize = 32 * 1024 * 1024;

/// The cached states, most recently used last.
#[derive(Default)]
pub(super) struct Cache(VecDeque<(Until, Arc<State>)>);

impl Cache {
    pub(super) fn get(&mut self, until: Until) -> Option<Arc<State>> {
        let at = self.0.iter().position(|(key, _)| *key == until)?;
        let used = self.0.remove(at)?;
        let state = used.1.clone();
        self.0.push_back(used);
        Some(state)
    }

    pub(super) fn put(&mut self, until: Until, state: &Arc<State>) {
        if state.object_count() > OBJECTS || state.ended_bytes() > ENDED_BYTES {
            return;
        }
        self.0.retain(|(key, _)| *key != until);
        if self.0.len() == STATES {
            self.0.pop_front();
        }
        self.0.push_back((until, state.clone()));
    }
}
