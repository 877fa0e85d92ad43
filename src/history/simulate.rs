//! Simulations of other limits over a period of the past.

use std::ops::ControlFlow;

use quota_core::{
    decide::{GroupBounds, Refusal},
    simulate::{self, Candidates, Outcome, PastDenial, Simulation},
};
use quota_journal::Reader as _;
use quota_ledger::replay::{self, Until};
use quota_semantics::{Span, Timestamp};

use super::{
    Error, History, Permit, Turn,
    past::{Past, pause_behind},
};

/// A question about other limits.
pub(crate) struct Question {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) candidates: Candidates,
    /// Remembered denials of the period, oldest first.
    pub(crate) denials: Vec<PastDenial>,
    pub(crate) bounds: GroupBounds,
}

/// Why nothing can be simulated, although the past can be read.
pub(crate) enum Unsimulated {
    /// Candidates cannot be set.
    Candidates(Vec<(usize, Refusal)>),
    /// The period does not allow it.
    Period(simulate::Unsimulated),
}

impl History {
    /// Simulates other limits in a period, and makes an answer of it.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn simulate<R: Send + 'static>(
        &self,
        permit: &Permit,
        question: Question,
        make: impl FnOnce(Result<Outcome, Unsimulated>, &Turn) -> R + Send + 'static,
    ) -> Result<R, Error> {
        self.work(permit, move |shared, turn| {
            let past = &shared.past;
            let simulated = past.simulate(question, &|| turn.pause());
            let simulated =
                simulated.map_err(|error| past.about_period(error).offline("simulate"))?;
            Ok(make(simulated, turn))
        })
        .await
    }
}

/// The state right before a time: a period is `[from, to)`.
const fn before(time: Timestamp) -> Until {
    Until::Time(time.minus(Span::from_nanoseconds(1)))
}

impl Past {
    fn simulate(
        &self,
        question: Question,
        pause: &dyn Fn(),
    ) -> Result<Result<Outcome, Unsimulated>, Error> {
        let Question { from, to, candidates, denials, bounds } = question;
        let state = self.state(before(from), pause)?;
        let first = state.head().sequence;
        let durable = self.reader.durable();
        if to >= durable.time {
            self.bound(first, durable.sequence)?;
        }
        let mut simulation = match Simulation::begin(state, from, candidates, denials, &bounds) {
            Ok(simulation) => simulation,
            Err(refused) => return Ok(Err(Unsimulated::Candidates(refused))),
        };
        let (mut failed, mut differs) = (None, None);
        let mut batches = self.reader.batches(first + 1);
        replay::entries(&mut batches, first, before(to), |entry| {
            pause_behind(&entry, pause);
            if let Err(error) = self.bound(first, entry.sequence) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            if let Err(error) = simulation.step(entry) {
                differs = Some(error);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let outcome = match differs {
            None => simulation.finish(to),
            Some(error) => Err(error.into()),
        };
        Ok(outcome.map_err(Unsimulated::Period))
    }
}
