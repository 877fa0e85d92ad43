//! A namespace's usage at points in the past.

use axum::{extract::State, response::Response};
use quota_client::wire::{UsageHistory, UsagePoint};
use quota_core::state;
use quota_semantics::{Span, Timestamp};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    page::{Params, Target},
    problem::{FieldProblem, Problem, Reason},
    usage::UsageView,
};
use crate::{
    clock,
    config::Period,
    history::POINTS_MAX,
    large::{Permit, Turn},
};

/// Points of a series if no step is requested.
const POINTS: i64 = 100;

/// Most figures of a series, over all its points.
pub(super) const FIGURES_MAX: usize = 200_000;

/// Selects the points of a series.
#[derive(Debug, Deserialize)]
pub(super) struct SeriesQuery {
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
    pub(super) step: Option<String>,
}

/// `GET /v1/namespaces/{namespace}/usage/history?from=TIME&to=TIME&step=DURATION`
pub(super) async fn series(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<SeriesQuery>,
) -> Result<Response, Problem> {
    let (times, step) = query.times(clock::now())?;
    let head = app.ledger.read(state::State::head).await?;
    let name = namespace.clone();
    let mut figures = 0_usize;
    let sample = move |state: &state::State| {
        // A series that is too large to answer is not kept.
        let seen = (figures <= FIGURES_MAX).then(|| UsageView::of(state, &name))?;
        figures += seen.amounts();
        Some(seen)
    };
    let (past, points) = (app.past.clone(), times.clone());
    let make = move |sampled: Vec<Option<UsageView>>, turn: &Turn| {
        let sampled: Option<Vec<UsageView>> = sampled.into_iter().collect();
        let Some(sampled) = sampled else {
            let why = format!("there are more than {FIGURES_MAX} figures in so many points");
            return Err(FieldProblem::invalid("step", &step, &why).into());
        };
        let points = times.iter().zip(&sampled).map(|(time, seen)| {
            let (resources, quotas) = seen.sums_and_limits(turn);
            UsagePoint {
                time: *time,
                sequence: seen.head.sequence,
                resources,
                quotas,
            }
        });
        Ok(answer::large(
            turn,
            &UsageHistory {
                namespace,
                points: points.collect(),
                step,
                as_of: answer::as_of(head),
                lagging: app.lags(),
            },
        ))
    };
    let permit = Permit::of_past(&actor.principal);
    past.series(&permit, points, sample, make).await?
}

impl SeriesQuery {
    /// The points in time, and the step between them as text.
    pub(super) fn times(&self, now: Timestamp) -> Result<(Vec<Timestamp>, String), Problem> {
        let to = self.to.map_or(now, |to| to.min(now));
        if self.from > to {
            let detail = "from is behind to, or in the future";
            return Err(Problem::new(Reason::Malformed, detail));
        }
        let span = to.since(self.from).nanoseconds();
        let step = match &self.step {
            Some(text) => text
                .parse::<Period>()
                .map_err(|error| FieldProblem::invalid("step", text, &error.to_string()))?,
            None => {
                let step = u32::try_from(span / POINTS / 1_000_000_000).unwrap_or(u32::MAX);
                Period::from_secs(step.max(1))
            }
        };
        let nanoseconds = step.span().nanoseconds();
        let more = span.checked_div(nanoseconds).unwrap_or(i64::MAX);
        let count = usize::try_from(more)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        if nanoseconds <= 0 || count > POINTS_MAX {
            let why = format!("that would be more than {POINTS_MAX} points");
            return Err(FieldProblem::invalid("step", &step.to_string(), &why).into());
        }
        let time = |number: i64| self.from.plus(Span::from_nanoseconds(nanoseconds * number));
        Ok(((0..=more).map(time).collect(), step.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, Problem> {
        let query = SeriesQuery {
            from: from.parse().unwrap(),
            to: Some(to.parse().unwrap()),
            step: step.map(str::to_owned),
        };
        let (times, _) = query.times("2026-01-02T00:00:00Z".parse().unwrap())?;
        Ok(times.iter().map(Timestamp::to_string).collect())
    }

    #[test]
    fn points_are_a_step_apart_and_end_with_the_present() {
        let from = "2026-01-01T23:59:58Z";
        let points = times(from, "2026-01-05T00:00:00Z", Some("1s")).unwrap();
        assert_eq!(
            points,
            [
                "2026-01-01T23:59:58Z",
                "2026-01-01T23:59:59Z",
                "2026-01-02T00:00:00Z"
            ]
        );
        assert_eq!(
            times("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", None)
                .unwrap()
                .len(),
            101
        );
        assert_eq!(times(from, from, Some("1h")).unwrap().len(), 1);
    }

    #[test]
    fn the_number_of_points_is_bounded() {
        let all = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
        assert_eq!(times(all.0, all.1, Some("2s")).unwrap().len(), 1801);
        for step in ["1s", "0s", "1ns", "-1s", "often"] {
            assert_eq!(
                times(all.0, all.1, Some(step)).unwrap_err().reason(),
                Reason::Invalid,
                "{step}"
            );
        }
        assert_eq!(
            times(all.1, all.0, None).unwrap_err().reason(),
            Reason::Malformed
        );
    }
}
