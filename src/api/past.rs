//! Queries of past states.

use quota_core::{event::Sequence, state, time::Period};
use quota_ledger::replay::Until;
use quota_semantics::{Name, Span, Timestamp};
use serde::Deserialize;

use super::{
    App,
    problem::{Problem, Reason},
};
use crate::{
    clock,
    fairness::{Permit, Turn},
};

/// The moment that a query refers to; none for now.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct When {
    pub(super) at: Option<Timestamp>,
    pub(super) sequence: Option<Sequence>,
}

/// The period of a query: up to now, unless it ends before.
///
/// # Errors
/// `Malformed` if it would end before it begins.
pub(super) fn period(from: Timestamp, to: Option<Timestamp>) -> Result<Period, Problem> {
    let now = clock::now();
    let to = to.map_or(now, |to| to.min(now));
    match from <= to {
        true => Ok(Period { from, to }),
        false => {
            let detail = "from is behind to, or in the future";
            Err(Problem::new(Reason::Malformed, detail))
        }
    }
}

impl When {
    fn until(&self) -> Result<Option<Until>, Problem> {
        match (self.at, self.sequence) {
            (None, None) => Ok(None),
            (None, Some(sequence)) => Ok(Some(Until::Sequence(sequence))),
            (Some(at), None) if at > clock::now() => {
                Err(Problem::new(Reason::Malformed, "at is in the future"))
            }
            // The first entries of a leader have nanoseconds, which responses do not show.
            (Some(at), None) => Ok(Some(Until::Time(at.plus(Span::from_nanoseconds(999))))),
            (Some(_), Some(_)) => {
                let detail = "at and sequence exclude each other";
                Err(Problem::new(Reason::Malformed, detail))
            }
        }
    }
}

/// Makes an answer from a view of the state of a moment. `make` also learns whether the state may lag behind the
/// sources. A past state is not kept for longer than it takes to make the answer: see [`History::answer`].
///
/// [`History::answer`]: crate::history::History::answer
pub(super) async fn answer<V: Send + 'static, R: Send + 'static>(
    app: &App,
    principal: &Name,
    when: &When,
    view: impl Fn(&state::State) -> V + Send + 'static,
    amounts: impl FnOnce(&V) -> usize,
    make: impl FnOnce(V, bool, &Turn) -> R + Send + 'static,
) -> Result<R, Problem> {
    match when.until()? {
        None => {
            let permit = Permit::to_read(principal)?;
            let seen = app.ledger.read(view).await?;
            let (amounts, lagging) = (amounts(&seen), app.lags());
            let make = move |turn: &Turn| make(seen, lagging, turn);
            Ok(permit.make(amounts, make).await)
        }
        Some(until) => {
            let permit = Permit::of_past(principal);
            let make = move |seen, turn: &Turn| make(seen, false, turn);
            let answer = app.past.answer(&permit, until, view, amounts, make);
            Ok(answer.await?)
        }
    }
}
