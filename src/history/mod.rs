//! Time travel: the state as it was, from the nearest snapshot and the entries behind it.
//!
//! A state of the past is the fold up to there, whatever has been compacted, archived or restarted since. What a
//! question costs is bounded: by the entries that may be replayed for it, by the questions that are worked on at
//! the same time, and by the states that are kept for the next one.

mod cache;
mod past;
#[cfg(test)]
mod tests;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use quota_core::{event::Sequence, state::State};
use quota_journal::{FileReader, Reader as _};
use quota_ledger::replay::{self, Until};
use quota_semantics::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics::{self, Limit};
use cache::Cache;
use past::Past;

/// Questions that are worked on at the same time: each holds a state of its own in memory.
const AT_ONCE: usize = 2;

/// Most points of a series.
pub const POINTS_MAX: usize = 2000;

/// Why a question about the past has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The entries are not kept any more, and not archived.
    #[error(
        "the ledger is kept from sequence {kept_from} on: what was before cannot be folded any more"
    )]
    Compacted {
        /// The first sequence whose state can be had.
        kept_from: Sequence,
    },
    /// The ledger has not come so far.
    #[error("the ledger is at sequence {durable}")]
    Future {
        /// How far it is durable.
        durable: Sequence,
    },
    /// Too many entries lie between the nearest snapshot and what was asked for.
    #[error(
        "more than {limit} entries would have to be replayed (limits.replay_entries); \
         `quotactl ledger replay` has no such bound"
    )]
    TooFar {
        /// How many may be.
        limit: u64,
    },
    /// Too many questions wait.
    #[error("too many questions about the past are waiting")]
    Overloaded,
    /// Nobody waits for the answer any more.
    #[error("given up")]
    GivenUp,
    /// The ledger could not be read.
    #[error(transparent)]
    Replay(#[from] replay::Error),
}

impl From<quota_journal::Error> for Error {
    fn from(error: quota_journal::Error) -> Self {
        Self::Replay(error.into())
    }
}

/// The state at the durable end of a ledger, from what is stored. Blocks.
///
/// # Errors
/// [`Error`].
pub fn rebuild(reader: FileReader) -> Result<State, Error> {
    let past = Past {
        reader,
        replay_entries: u64::MAX,
    };
    past.state(Until::End, &AtomicBool::new(false))
}

/// Answers questions about the past. Cheap to clone.
#[derive(Clone)]
pub struct History(Arc<Shared>);

struct Shared {
    past: Past,
    cache: Mutex<Cache>,
    working: Semaphore,
    waiting: Semaphore,
}

impl History {
    /// The past of a ledger; a question may replay `replay_entries` entries, and `waiting` of them may wait.
    #[must_use]
    pub fn new(reader: FileReader, replay_entries: u64, waiting: usize) -> Self {
        Self(Arc::new(Shared {
            past: Past {
                reader,
                replay_entries,
            },
            cache: Mutex::default(),
            working: Semaphore::new(AT_ONCE),
            waiting: Semaphore::new(waiting),
        }))
    }

    /// The state as it was.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn state(&self, until: Until) -> Result<Arc<State>, Error> {
        let until = self.settled(until)?;
        if let Some(state) = self.0.cache.lock().get(until) {
            return Ok(state);
        }
        self.work(move |shared, given_up| {
            // Somebody else may have asked for the same in the meantime.
            if let Some(state) = shared.cache.lock().get(until) {
                return Ok(state);
            }
            let state = Arc::new(shared.past.state(until, given_up)?);
            shared.cache.lock().put(until, &state);
            Ok(state)
        })
        .await
    }

    /// What `sample` says of the state at each of the points, which have to ascend: one replay for all of them.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn series<R: Send + 'static>(
        &self,
        points: Vec<Timestamp>,
        sample: impl FnMut(&State) -> R + Send + 'static,
    ) -> Result<Vec<R>, Error> {
        self.work(move |shared, given_up| shared.past.series(&points, sample, given_up))
            .await
    }

    /// A point that no later entry can change the state at, where there is one.
    fn settled(&self, until: Until) -> Result<Until, Error> {
        let durable = self.0.past.reader.durable();
        match until {
            Until::Sequence(sequence) if sequence > durable.sequence => Err(Error::Future {
                durable: durable.sequence,
            }),
            Until::Time(time) if time < durable.time => Ok(until),
            Until::Time(_) | Until::End => Ok(Until::Sequence(durable.sequence)),
            Until::Sequence(_) => Ok(until),
        }
    }

    /// Works on a blocking thread, when it is its turn, and as long as somebody waits for the answer.
    async fn work<R: Send + 'static>(
        &self,
        question: impl FnOnce(&Shared, &AtomicBool) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let given_up = GiveUp(Arc::default());
        let permit = self.turn().await?;
        // The thread holds its place until it ends, also if nobody waits for it any more.
        permit.forget();
        let (shared, flag) = (self.0.clone(), given_up.0.clone());
        let work = tokio::task::spawn_blocking(move || {
            let _place = Permit(&shared.working);
            question(&shared, &flag)
        });
        work.await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Error> {
        let Ok(_waiting) = self.0.waiting.try_acquire() else {
            metrics::limit_reached(Limit::PastQuestions);
            return Err(Error::Overloaded);
        };
        self.0
            .working
            .acquire()
            .await
            .map_err(|_| Error::Overloaded)
    }
}

/// A place among those that are worked on; given back when dropped.
struct Permit<'a>(&'a Semaphore);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// Signals the thread on drop that nobody waits any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
