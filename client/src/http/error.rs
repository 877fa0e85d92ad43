//! Errors of calls.

use std::{fmt, path::Path, time::Duration};

use serde::Deserialize;

use crate::wire::{Problem, Reason};

/// An error of a call. Refusals are distinguished by the possible reactions of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server is not given as an http or https URL.
    #[error("{0}: not a URL such as http://127.0.0.1:8480")]
    Server(String),
    /// A token would be sent over http to another machine, and could be read on the way.
    #[error("a token is not sent over http to another machine")]
    PlainToken,
    /// A file with a token, a certificate or a key cannot be read.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The error.
        why: String,
    },
    /// The request cannot be built.
    #[error("{0}")]
    Request(String),
    /// The daemon is unreachable, did not answer in time, or the connection broke. The call may have been carried out.
    #[error("{server}: {why}")]
    Unreachable {
        /// The URL of the server.
        server: String,
        /// The error.
        why: String,
    },
    /// The response is not from this API: most likely another server has the address.
    #[error("{server} {what}")]
    Answer {
        /// The URL of the server.
        server: String,
        /// The HTTP status code.
        status: u16,
        /// A description of the response, which continues the server's URL in the error message.
        what: String,
    },
    /// A quota or a group denied the request: the caller has the role, but there is no room. `problem.quotas` has the
    /// numbers.
    #[error("{0}")]
    Denied(Box<Refusal>),
    /// The caller is not authenticated, or lacks a role; no quota is involved.
    #[error("{0}")]
    Forbidden(Box<Refusal>),
    /// The requested item does not exist.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// The request contradicts the ledger, or the item was changed in between.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// The daemon cannot process the request now (429, 503): the same call may succeed later.
    #[error("{0}")]
    Busy(Box<Refusal>),
    /// The request was refused for another reason; the same call will be refused again.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

/// A refusal by the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status code.
    pub status: u16,
    /// The problem details of the response.
    pub problem: Problem,
    /// The delay before the next attempt (`Retry-After`); none if the response has no such header.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The reason; none if the name is unknown, as from a newer daemon.
    pub fn reason(&self) -> Option<Reason> {
        Reason::named(&self.problem.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = [&*self.problem.detail, &*self.problem.title];
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => f.write_str(text),
            None => write!(f, "refused with status {}", self.status),
        }
    }
}

impl Error {
    /// The error for a response with an error status.
    pub fn of_answer(
        server: &str,
        status: u16,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Self {
        let Some(problem) = problem(body) else {
            let name = http::StatusCode::from_u16(status).ok();
            let name = name.map_or_else(|| status.to_string(), |name| name.to_string());
            return Self::Answer {
                server: server.to_owned(),
                status,
                what: format!("answers {name}"),
            };
        };
        let refusal = Box::new(Refusal { status, problem, retry_after });
        let reason = refusal.reason();
        match status {
            _ if reason.is_some_and(Reason::is_denial) => Self::Denied(refusal),
            _ if reason.is_some_and(Reason::is_conflict) => Self::Conflict(refusal),
            // A reason of a newer daemon is one more way in which a quota denies.
            403 if reason.is_none() && !refusal.problem.reason.is_empty() => Self::Denied(refusal),
            401 | 403 => Self::Forbidden(refusal),
            404 => Self::NotFound(refusal),
            409 | 412 => Self::Conflict(refusal),
            429 | 503 => Self::Busy(refusal),
            _ => Self::Refused(refusal),
        }
    }

    /// The refusal, if the daemon refused the call.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Denied(refusal)
            | Self::Forbidden(refusal)
            | Self::NotFound(refusal)
            | Self::Conflict(refusal)
            | Self::Busy(refusal)
            | Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy(_))
    }

    pub(super) fn file(path: &Path, why: impl fmt::Display) -> Self {
        Self::File { path: path.display().to_string(), why: why.to_string() }
    }
}

/// The problem details of a body, or the message of a Kubernetes `Status`, which the paths for kubectl return.
fn problem(body: &[u8]) -> Option<Problem> {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        message: String,
    }
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
    {
        return Some(Problem { detail: status.message, ..Problem::default() });
    }
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, reason: &str) -> Error {
        let body = format!(r#"{{"detail":"why","reason":"{reason}"}}"#);
        Error::of_answer("http://x", status, None, body.as_bytes())
    }

    #[test]
    fn a_denial_is_not_a_lack_of_rights() {
        for reason in Reason::ALL {
            let error = of(reason.status(), reason.as_str());
            let is_right = match &error {
                Error::Denied(_) => reason.is_denial(),
                Error::Forbidden(_) => reason.is_forbidden(),
                Error::Conflict(_) => reason.is_conflict(),
                Error::NotFound(_) => *reason == Reason::NotFound,
                Error::Busy(_) => matches!(reason.status(), 429 | 503),
                Error::Refused(_) => {
                    !reason.is_denial() && !reason.is_forbidden() && !reason.is_conflict()
                }
                _ => false,
            };
            assert!(is_right, "{reason:?}: {error:?}");
            assert_eq!(error.refusal().unwrap().reason(), Some(*reason));
        }
    }

    #[test]
    fn what_newer_daemons_say_is_sorted_by_its_status() {
        assert!(matches!(of(403, "TooExpensive"), Error::Denied(_)));
        assert!(matches!(of(403, ""), Error::Forbidden(_)));
        assert!(matches!(of(409, "Odd"), Error::Conflict(_)));
        assert!(matches!(of(503, "Odd"), Error::Busy(_)));
        assert!(matches!(of(418, "Odd"), Error::Refused(_)));
    }

    #[test]
    fn something_else_than_the_api_is_said_to_be_that() {
        let error = Error::of_answer("http://x", 502, None, b"<html>");
        assert_eq!(error.to_string(), "http://x answers 502 Bad Gateway");
        let status = br#"{"kind":"Status","message":"no","reason":"Forbidden"}"#;
        let error = Error::of_answer("http://x", 403, None, status);
        assert!(matches!(&error, Error::Forbidden(_)), "{error:?}");
        assert_eq!(error.to_string(), "no");
    }
}
