//! Folds over a period of the past.

use std::ops::ControlFlow;

use quota_core::{
    event::{Entry, Sequence},
    state::State,
    suggest::Suggesting,
    time::{
        Period,
        report::{self, Report},
    },
};
use quota_journal::BatchReader;
use quota_semantics::Span;

use crate::replay::{self, Error, Until};

/// A fold over the entries of a period.
pub trait Fold {
    /// An entry, and the state before it.
    fn before(&mut self, state: &State, entry: &Entry);

    /// The state behind the last entry; called at least once for each.
    fn after(&mut self, state: &State);
}

impl Fold for Report {
    fn before(&mut self, state: &State, entry: &Entry) {
        Self::before(self, state, entry);
    }

    fn after(&mut self, state: &State) {
        Self::after(self, state);
    }
}

impl Fold for Suggesting {
    fn before(&mut self, state: &State, entry: &Entry) {
        Self::before(self, state, entry);
    }

    fn after(&mut self, state: &State) {
        Self::after(self, state);
    }
}

/// The first and the last entry of a period; none: it has none.
pub type Ends = Option<(Sequence, Sequence)>;

/// The moment to which a state must be folded at most so that a period can begin with it: right before the period.
pub const fn before(period: Period) -> Until {
    Until::Time(period.from.minus(Span::from_nanoseconds(1)))
}

/// Folds the entries of a period, beginning with a state of before it. `begin` gets the state at its first moment;
/// `visit` each entry that is read, until it stops.
///
/// # Errors
/// If a batch cannot be read or decoded.
pub fn fold<F: Fold>(
    state: &mut State,
    batches: &mut BatchReader,
    period: Period,
    begin: impl FnOnce(&State) -> F,
    mut visit: impl FnMut(&Entry) -> ControlFlow<()>,
) -> Result<(F, Ends), Error> {
    let mut begin = Some(begin);
    let mut fold = None;
    let mut first = None;
    let until = Until::Time(period.to.minus(Span::from_nanoseconds(1)));
    replay::walk(state, batches, until, |state, entry| {
        visit(entry)?;
        if entry.time < period.from {
            return ControlFlow::Continue(());
        }
        if let Some(begin) = begin.take() {
            fold = Some(begin(state));
            first = Some(entry.sequence);
        }
        if let Some(fold) = &mut fold {
            fold.after(state);
            fold.before(state, entry);
        }
        ControlFlow::Continue(())
    })?;
    let mut fold = match (fold, begin) {
        (Some(fold), _) => fold,
        (None, Some(begin)) => begin(state),
        (None, None) => unreachable!("the fold is kept once it has begun"),
    };
    fold.after(state);
    Ok((fold, first.map(|first| (first, state.head().sequence))))
}

/// The entries of a period with the chain hashes of their batches. `hash` finds that of the batch with an entry.
///
/// # Errors
/// Those of `hash`.
pub fn entries<E>(
    ends: Ends,
    mut hash: impl FnMut(Sequence) -> Result<Option<String>, E>,
) -> Result<report::Entries, E> {
    let Some((first, last)) = ends else {
        return Ok(report::Entries::default());
    };
    let hashes = hash(first)?.zip(hash(last)?);
    Ok(report::Entries { sequences: ends, hashes })
}
