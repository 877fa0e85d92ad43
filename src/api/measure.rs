//! Metrics of decisions.

use std::{future::Future, time::Instant};

pub(super) use crate::metrics::Operation;

use super::problem::{Problem, Reason};
use crate::metrics::{self, Decision, Limit, Reason as Label};

/// Carries out an operation, and records how long it took.
pub(super) async fn measured<T>(
    operation: Operation,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let began = Instant::now();
    let result = work.await;
    metrics::decision_duration(operation, began.elapsed());
    result
}

/// Counts the decision on one wish.
pub(super) fn decided(problem: Option<&Problem>, replayed: bool) {
    let Some(problem) = problem else {
        let decision = if replayed {
            Decision::Replayed
        } else {
            Decision::Granted
        };
        return metrics::decisions(decision, Label::None);
    };
    let (decision, label) = match problem.reason() {
        Reason::ExceedsHard => (Decision::Denied, Label::ExceedsHard),
        Reason::MustSpecify => (Decision::Denied, Label::MustSpecify),
        Reason::StatusUnknown => (Decision::Denied, Label::StatusUnknown),
        Reason::InsufficientQuota => (Decision::Denied, Label::InsufficientQuota),
        Reason::UncoveredScopes => (Decision::Denied, Label::UncoveredScopes),
        Reason::NegativeUsage => (Decision::Denied, Label::NegativeUsage),
        Reason::NoPreviousVersion => (Decision::Denied, Label::NoPreviousVersion),
        Reason::BrokenSelector => (Decision::Denied, Label::BrokenSelector),
        Reason::TooManyReservations => {
            metrics::limit_reached(Limit::MaxPending);
            (Decision::Denied, Label::TooManyPending)
        }
        Reason::UidReused => (Decision::Error, Label::UidReused),
        Reason::Forbidden => (Decision::Denied, Label::Forbidden),
        Reason::CrossOrigin => (Decision::Error, Label::Forbidden),
        Reason::NotReady => (Decision::Error, Label::Behind),
        Reason::Overloaded => (Decision::Error, Label::Overloaded),
        Reason::Stopped => (Decision::Error, Label::Stopped),
        _ => (Decision::Error, Label::Invalid),
    };
    metrics::decisions(decision, label);
}
