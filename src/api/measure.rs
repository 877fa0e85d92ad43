//! Metrics of decisions.

use std::{future::Future, time::Instant};

pub(super) use crate::metrics::Operation;

use super::problem::{Problem, Reason};
use crate::metrics::{self, Decision, Reason as Label};

/// Carries out an operation; records how long it took.
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
        let decision = match replayed {
            true => Decision::Replayed,
            false => Decision::Granted,
        };
        return metrics::decisions(decision, Label::None);
    };
    if let Some((label, limit)) = problem.refusal() {
        metrics::decisions(Decision::Denied, label);
        return limit.into_iter().for_each(metrics::limit_reached);
    }
    let (decision, label) = match problem.reason() {
        Reason::Forbidden => (Decision::Denied, Label::Forbidden),
        Reason::CrossOrigin => (Decision::Error, Label::Forbidden),
        Reason::NotReady => (Decision::Error, Label::Behind),
        Reason::Overloaded => (Decision::Error, Label::Overloaded),
        Reason::DiskLow => (Decision::Error, Label::DiskLow),
        Reason::Stopped => (Decision::Error, Label::Stopped),
        _ => (Decision::Error, Label::Invalid),
    };
    metrics::decisions(decision, label);
}
