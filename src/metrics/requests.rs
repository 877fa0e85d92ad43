//! Metrics of requests: the most frequent ones, so each thread caches its series.

use std::{cell::RefCell, time::Duration};

use ::metrics::{Counter, Histogram};
use http::Method;
use quota_service::metrics::Label as _;

use super::{Decision, OTHER, Operation, StateLock, labels::DecisionReason, table};
use crate::reason::Reason;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A map of few entries, searched linearly: names and labels need not be hashed.
struct Few<K, M>(Vec<(K, M)>);

/// The series of one route.
struct Route {
    duration: Histogram,
    /// The counters by method and status code.
    answers: Few<(&'static str, u16), Counter>,
}

thread_local! {
    /// The series by route: as many as the router has routes.
    static ROUTES: RefCell<Few<String, Route>> = RefCell::default();
    static DECISIONS: RefCell<Few<(Decision, Option<Reason>), Counter>> = RefCell::default();
    static DURATIONS: RefCell<Few<Operation, Histogram>> = RefCell::default();
    static LOCKS: RefCell<Few<StateLock, Histogram>> = RefCell::default();
}

/// Counts a decision; without a reason the request was granted.
pub fn decisions(decision: Decision, reason: Option<Reason>) {
    let make = || table::DECISIONS.counter([decision.text(), DecisionReason(reason).text()]);
    DECISIONS.with_borrow_mut(|series| series.of((decision, reason), make).increment(1));
}

/// How long a command took, from its arrival to its answer.
pub fn decision_duration(operation: Operation, took: Duration) {
    let make = || table::DECISION_DURATION.histogram([operation.text()]);
    DURATIONS.with_borrow_mut(|series| series.of(operation, make).record(took));
}

/// How long the state's lock was held.
pub fn state_lock(by: StateLock, held: Duration) {
    let make = || table::STATE_LOCK.histogram([by.text()]);
    LOCKS.with_borrow_mut(|series| series.of(by, make).record(held));
}

/// A request was answered. The route is the matched one, so that the number of series is bounded.
pub fn http_request(route: &str, method: &Method, code: u16, took: Duration) {
    let method = METHODS.into_iter().find(|listed| *listed == method.as_str()).unwrap_or(OTHER);
    ROUTES.with_borrow_mut(|routes| {
        let series = routes.of(route, || Route::new(route));
        series.answered(route, method, code, took);
    });
}

impl<K, M> Default for Few<K, M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, M> Few<K, M> {
    fn of<Q>(&mut self, key: Q, make: impl FnOnce() -> M) -> &mut M
    where
        K: PartialEq<Q>,
        Q: Into<K>,
    {
        let existing = self.0.iter().position(|(candidate, _)| *candidate == key);
        let place = existing.unwrap_or_else(|| {
            self.0.push((key.into(), make()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl Route {
    fn new(route: &str) -> Self {
        Self {
            duration: table::HTTP_REQUEST_DURATION.histogram([route.text()]),
            answers: Few::default(),
        }
    }

    fn answered(&mut self, route: &str, method: &'static str, code: u16, took: Duration) {
        self.duration.record(took);
        let make = || {
            let labels = [route.text(), method.into(), code.to_string().into()];
            table::HTTP_REQUESTS.counter(labels)
        };
        self.answers.of((method, code), make).increment(1);
    }
}
