//! Metrics of requests: the busiest ones, so each thread remembers its series.

use std::{cell::RefCell, collections::HashMap, time::Duration};

use ::metrics::{Counter, Histogram, counter, histogram};
use http::Method;

use super::{OTHER, table};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The series of one route.
struct Route {
    duration: Histogram,
    /// By method and status code. Few, so looked through in order.
    answers: Vec<(&'static str, u16, Counter)>,
}

thread_local! {
    /// By route. As many as the router has.
    static ROUTES: RefCell<HashMap<String, Route>> = RefCell::default();
}

/// A request was answered. The route is the matched one, so that the number of series is bounded.
pub fn http_request(route: &str, method: &Method, code: u16, took: Duration) {
    let method = METHODS
        .into_iter()
        .find(|known| *known == method.as_str())
        .unwrap_or(OTHER);
    ROUTES.with_borrow_mut(|routes| {
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), Route::new(route));
        }
        let Some(series) = routes.get_mut(route) else {
            return;
        };
        series.duration.record(took);
        series.answers_of(route, method, code).increment(1);
    });
}

impl Route {
    fn new(route: &str) -> Self {
        let duration = histogram!(
            table::HTTP_REQUEST_DURATION.name,
            "route" => route.to_owned(),
        );
        Self {
            duration,
            answers: Vec::new(),
        }
    }

    fn answers_of(&mut self, route: &str, method: &'static str, code: u16) -> &Counter {
        let known = |answer: &(&str, u16, Counter)| (answer.0, answer.1) == (method, code);
        let place = self.answers.iter().position(known).unwrap_or_else(|| {
            let counter = counter!(
                table::HTTP_REQUESTS.name,
                "route" => route.to_owned(), "method" => method, "code" => code.to_string(),
            );
            self.answers.push((method, code, counter));
            self.answers.len() - 1
        });
        &self.answers[place].2
    }
}
