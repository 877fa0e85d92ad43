//! The real daemon, and requests to it.

use std::path::Path;

use serde_json::Value;

use super::support::quotad::{self, REQUEST, agent};

/// `quotad`; killed when dropped.
pub(crate) struct Quotad(quotad::Quotad);

impl Quotad {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::try_start(directory, arguments).expect("the daemon serves")
    }

    /// The exit code, if it ends before it serves.
    pub(crate) fn try_start(directory: &Path, arguments: &[&str]) -> Result<Self, Option<i32>> {
        let mut command = quotad::command(directory);
        match quotad::Quotad::try_start(directory, command.args(arguments)) {
            Ok(quotad) => Ok(Self(quotad)),
            Err(ended) => Err(ended.status.code()),
        }
    }

    /// Stops it in order.
    pub(crate) fn stop(self) {
        assert_eq!(self.0.stop().code(), Some(0));
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.api
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        answer(
            agent(REQUEST)
                .get(format!("{}{path}", self.0.api))
                .call()
                .unwrap(),
        )
    }

    pub(crate) fn get_admin(&self, path: &str) -> (u16, Value) {
        answer(
            agent(REQUEST)
                .get(format!("{}{path}", self.0.admin))
                .call()
                .unwrap(),
        )
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let request = agent(REQUEST).post(format!("{}{path}", self.0.api));
        let request = request.header("content-type", "application/json");
        answer(request.header("x-request-id", "r-1").send(body).unwrap())
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> (u16, Value) {
        let request = agent(REQUEST).put(format!("{}{path}", self.0.api));
        answer(
            request
                .header("content-type", "application/json")
                .send(body)
                .unwrap(),
        )
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}
