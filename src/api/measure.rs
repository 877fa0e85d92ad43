//! Metrics of decisions.

use std::{future::Future, time::Instant};

use futures::FutureExt as _;
use quota_core::{decide::Request, event::Sequence};

pub(super) use crate::metrics::Operation;

use super::problem::{Problem, Reason};
use crate::{
    denials::Denied,
    log_limiter::LogLimiter,
    metrics::{self, Decision},
};

/// Denials that are logged per second.
static DENIED: LogLimiter = LogLimiter::new(10);

/// Runs an operation, and records its duration and the limit that it hit.
pub(super) fn measured<T>(
    operation: Operation,
    work: impl Future<Output = Result<T, Problem>>,
) -> impl Future<Output = Result<T, Problem>> {
    let began = Instant::now();
    work.inspect(move |done| {
        metrics::decision_duration(operation, began.elapsed());
        done.as_ref().err().into_iter().for_each(limited);
    })
}

/// Counts the limit that a problem is about, if any.
pub(super) fn limited(problem: &Problem) {
    if let Some(limit) = problem.limit() {
        metrics::limit_reached(limit);
    }
}

/// Counts the decision on one request.
pub(super) fn decided(problem: Option<&Problem>, replayed: bool) {
    let decision = match problem {
        None if replayed => Decision::Replayed,
        None => Decision::Granted,
        Some(problem) if problem.is_refusal() || problem.reason() == Reason::Forbidden => {
            Decision::Denied
        }
        Some(_) => Decision::Error,
    };
    metrics::decisions(decision, problem.map(Problem::reason));
}

/// Logs a denied request as the webhook does.
pub(super) fn log_denied(request: &Request, problem: &Problem, sequence: Sequence) {
    if !problem.is_refusal() {
        return;
    }
    let denied = Denied {
        namespace: &request.namespace,
        resource: &request.resource.resource,
        name: &request.name,
        sequence,
    };
    denied.log(&DENIED, &problem.detail());
}
