//! Builds a past state.

use std::ops::ControlFlow;

use quota_core::{
    event::{Entry, Sequence},
    state::State,
    time::{Period, report::Entries},
};
use quota_journal::{FileReader, Reader as _, SnapshotInfo};
use quota_ledger::{
    period::{self, Fold},
    replay::{self, Until},
};
use quota_semantics::{Span, Timestamp};

use super::Error;
use crate::{
    log_limiter::LogLimiter,
    metrics::{self, Limit},
};

/// Unusable snapshots that are logged per second: each query may find them again.
static UNUSABLE: LogLimiter = LogLimiter::new(1);

/// How many entries are replayed between two checks of the time.
const ENTRIES_BETWEEN_PAUSES: u64 = 16;

/// The data that past states are built from, and the limit of a replay.
pub(super) struct Past {
    pub(super) reader: FileReader,
    pub(super) replay_entries: u64,
}

impl Past {
    pub(super) fn state(&self, until: Until, pause: &dyn Fn()) -> Result<State, Error> {
        let mut state = self.base(until)?;
        let begin = state.head().sequence;
        if let Until::Sequence(sequence) = until {
            self.bound(begin, sequence)?;
        }
        let mut failed = None;
        let mut batches = self.reader.batches(begin + 1);
        replay::walk(&mut state, &mut batches, until, |_, entry| {
            pause_behind(entry, pause);
            self.go_on(begin, entry, &mut failed)
        })?;
        failed.map_or(Ok(state), Err)
    }

    /// Folds a period; also the state at its end, and its entries.
    pub(super) fn period<F: Fold>(
        &self,
        period: Period,
        begin: impl FnOnce(&State) -> F,
        pause: &dyn Fn(),
    ) -> Result<(F, State, Entries), Error> {
        let base = self.base(period::before(period));
        let mut state = base.map_err(|error| self.about_period(error))?;
        let first = state.head().sequence;
        let mut failed = None;
        let mut batches = self.reader.batches(first + 1);
        let visit = |entry: &Entry| {
            pause_behind(entry, pause);
            self.go_on(first, entry, &mut failed)
        };
        let (fold, ends) = period::fold(&mut state, &mut batches, period, begin, visit)?;
        if let Some(error) = failed {
            return Err(self.about_period(error));
        }
        let hash = |sequence| match self.reader.batches(sequence).next_batch() {
            Some(batch) => Ok::<_, Error>(Some(batch?.hash.to_string())),
            None => Ok(None),
        };
        Ok((fold, state, period::entries(ends, hash)?))
    }

    /// An error about a period: with the time at which one can begin.
    pub(super) fn about_period(&self, error: Error) -> Error {
        match error {
            Error::Compacted { kept_from, .. } => {
                Error::Compacted { kept_from, since: self.first_period() }
            }
            other => other.offline("report"),
        }
    }

    /// The first time at which a period can begin: right behind the oldest snapshot.
    fn first_period(&self) -> Option<Timestamp> {
        let (snapshots, _) = self.reader.snapshots().list().ok()?;
        let oldest = snapshots.first()?.position.time;
        // As times are shown, in microseconds.
        Some(oldest.whole_microseconds().plus(Span::from_nanoseconds(1000)))
    }

    pub(super) fn go_on(
        &self,
        begin: Sequence,
        entry: &Entry,
        failed: &mut Option<Error>,
    ) -> ControlFlow<()> {
        match self.bound(begin, entry.sequence) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    pub(super) fn bound(&self, begin: Sequence, end: Sequence) -> Result<(), Error> {
        let limit = self.replay_entries;
        if end.saturating_sub(begin) > limit {
            metrics::limit_reached(Limit::ReplayEntries);
            let offline = "replay";
            return Err(Error::TooFar { limit, offline });
        }
        Ok(())
    }

    /// The newest stored state that is not after `until`; the empty state if the beginning is kept.
    fn base(&self, until: Until) -> Result<State, Error> {
        let (snapshots, _) = self.reader.snapshots().list()?;
        let earlier = snapshots.iter().rev().filter(|info| match until {
            Until::Sequence(sequence) => info.position.sequence <= sequence,
            Until::Time(time) => info.position.time <= time,
            Until::End => true,
        });
        for info in earlier {
            match self.load(info) {
                Ok(state) => return Ok(state),
                // Removed meanwhile, or damaged: an older snapshot works as well, only slower.
                Err(error) => {
                    if let Some(held_back) = UNUSABLE.pass() {
                        tracing::warn!(%error, held_back, "a snapshot cannot be used");
                    }
                }
            }
        }
        if self.reader.first_sequence() == 1 {
            return Ok(State::default());
        }
        let oldest = snapshots.first().map(|info| info.position.sequence);
        Err(Error::Compacted {
            kept_from: oldest.unwrap_or_else(|| self.reader.kept_from()),
            since: None,
        })
    }

    fn load(&self, info: &SnapshotInfo) -> Result<State, Error> {
        if let Some(damage) = self.reader.snapshots().verify(info)? {
            return Err(quota_journal::Error::from(damage).into());
        }
        Ok(replay::load(&self.reader, info)?)
    }
}

pub(super) fn pause_behind(entry: &Entry, pause: &dyn Fn()) {
    if entry.sequence.is_multiple_of(ENTRIES_BETWEEN_PAUSES) {
        pause();
    }
}
