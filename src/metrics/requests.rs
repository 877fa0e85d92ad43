//! Metrics of requests: the busiest ones, so each thread remembers its series.

use std::{cell::RefCell, time::Duration};

use ::metrics::{Counter, Histogram, counter, histogram};
use http::Method;

use super::{Decision, OTHER, Operation, StateLock, record::pair, table};
use crate::reason::Reason;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Few series, so looked through in order: their names and labels need not be hashed.
struct Few<K, M>(Vec<(K, M)>);

/// The series of one route.
struct Route {
    duration: Histogram,
    /// By method and status code.
    answers: Few<(&'static str, u16), Counter>,
}

thread_local! {
    /// By route. As many as the router has.
    static ROUTES: RefCell<Few<String, Route>> = RefCell::default();
    static DECISIONS: RefCell<Few<(Decision, Option<Reason>), Counter>> = RefCell::default();
    static DURATIONS: RefCell<Few<Operation, Histogram>> = RefCell::default();
    static LOCKS: RefCell<Few<StateLock, Histogram>> = RefCell::default();
}

/// Counts a decision; with no reason, what was requested was granted.
pub fn decisions(decision: Decision, reason: Option<Reason>) {
    let make = || counter!(table::DECISIONS.name, &[pair(decision), pair(reason)]);
    DECISIONS.with_borrow_mut(|series| series.of((decision, reason), make).increment(1));
}

/// How long a command took, from its arrival to its answer.
pub fn decision_duration(operation: Operation, took: Duration) {
    let make = || histogram!(table::DECISION_DURATION.name, &[pair(operation)]);
    DURATIONS.with_borrow_mut(|series| series.of(operation, make).record(took));
}

/// How long the state was held.
pub fn state_lock(by: StateLock, held: Duration) {
    let make = || histogram!(table::STATE_LOCK.name, &[pair(by)]);
    LOCKS.with_borrow_mut(|series| series.of(by, make).record(held));
}

/// A request was answered. The route is the matched one, so that the number of series is bounded.
pub fn http_request(route: &str, method: &Method, code: u16, took: Duration) {
    let method = METHODS
        .into_iter()
        .find(|known| *known == method.as_str())
        .unwrap_or(OTHER);
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
        let known = self.0.iter().position(|(known, _)| *known == key);
        let place = known.unwrap_or_else(|| {
            self.0.push((key.into(), make()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl Route {
    fn new(route: &str) -> Self {
        let duration = histogram!(
            table::HTTP_REQUEST_DURATION.name,
            "route" => route.to_owned(),
        );
        Self {
            duration,
            answers: Few::default(),
        }
    }

    fn answered(&mut self, route: &str, method: &'static str, code: u16, took: Duration) {
        self.duration.record(took);
        let make = || {
            counter!(
                table::HTTP_REQUESTS.name,
                "route" => route.to_owned(), "method" => method, "code" => code.to_string(),
            )
        };
        self.answers.of((method, code), make).increment(1);
    }
}
