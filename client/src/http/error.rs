//! Why a call gave no answer.

use std::{fmt, path::Path, time::Duration};

use serde::Deserialize;

use crate::wire::{Problem, Reason};

/// Why a call gave no answer: refusals are distinguished by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's address is no http or https URL.
    #[error("{0}: not a URL such as http://127.0.0.1:8480")]
    Server(String),
    /// A token was to be sent over http to another machine, where everybody on the way could read it.
    #[error("a token is not sent over http to another machine")]
    PlainToken,
    /// A file with a token, a certificate or a key cannot be read.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// What was to be sent cannot be written down.
    #[error("{0}")]
    Request(String),
    /// The daemon cannot be reached, did not answer in time, or the connection broke. It may have carried the call out.
    #[error("{server}: {why}")]
    Unreachable {
        /// The server's address.
        server: String,
        /// What failed.
        why: String,
    },
    /// The answer is not of the API: most likely the address is that of something else.
    #[error("{server} {what}")]
    Answer {
        /// The server's address.
        server: String,
        /// The HTTP status.
        status: u16,
        /// What it answered.
        what: String,
    },
    /// A quota or a group denies it: the caller may do this, but there is no room. `problem.quotas` has the numbers.
    #[error("{0}")]
    Denied(Box<Refusal>),
    /// The caller is not authenticated, or lacks a role; no quota is involved.
    #[error("{0}")]
    Forbidden(Box<Refusal>),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(Box<Refusal>),
    /// It contradicts what the ledger holds, or what somebody has changed in between.
    #[error("{0}")]
    Conflict(Box<Refusal>),
    /// The daemon cannot take it now (429, 503): the same call may succeed later.
    #[error("{0}")]
    Busy(Box<Refusal>),
    /// It is refused for another reason; the same call will be refused again.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

/// What the daemon says when it refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// What it says, as problem details.
    pub problem: Problem,
    /// How long to leave the daemon alone (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The reason; none if its name is unknown: a newer daemon may have more reasons.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Reason::named(&self.problem.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = [&self.problem.detail, &self.problem.title];
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => f.write_str(text),
            None => write!(f, "refused with status {}", self.status),
        }
    }
}

impl Error {
    /// The error that an answer with an error status means.
    #[must_use]
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
        let refusal = Box::new(Refusal {
            status,
            problem,
            retry_after,
        });
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

    /// What the daemon said, if it refused.
    #[must_use]
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

    /// Whether the same call may succeed later without anything being changed.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Busy(_))
    }

    pub(super) fn file(path: &Path, why: impl fmt::Display) -> Self {
        Self::File {
            path: path.display().to_string(),
            why: why.to_string(),
        }
    }
}

/// Problem details, or what a Kubernetes `Status` says: so answers what speaks to kubectl.
fn problem(body: &[u8]) -> Option<Problem> {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        message: String,
    }
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
    {
        return Some(Problem {
            detail: status.message,
            ..Problem::default()
        });
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
