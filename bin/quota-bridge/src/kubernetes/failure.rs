//! Failures of requests to an API server.

use std::{error::Error, fmt::Write as _, time::Duration};

use bytes::Bytes;
use http::{StatusCode, header, response::Parts};
use kube::client::AuthError;
use serde::Deserialize;

/// The maximum length of what an `exec` program says when it fails, in characters.
const SAID_MAX_CHARS: usize = 1000;

/// The failure of a request, or of a response that is being read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server returned an error status.
    #[error("{code} {reason}: {message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// Kubernetes' reason, such as `Expired`; may be empty.
        reason: String,
        /// The message of the server.
        message: String,
        /// The delay before the next request, if the server requested one.
        retry_after: Option<Duration>,
    },
    /// The server is unreachable, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// The response cannot be parsed.
    #[error("{0}")]
    Unreadable(String),
    /// The response is longer than this many bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// No data arrived on a watch for too long.
    #[error("silent for too long")]
    Silent,
}

/// A Kubernetes `Status` object, from a response or a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u32,
}

impl Failure {
    /// The HTTP status, or the kind of failure, as in metrics.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Status { code, .. } => return code.to_string(),
            Self::Unreachable(_) => "unreachable",
            Self::Unreadable(_) => "unreadable",
            Self::TooLong(_) => "too_long",
            Self::Silent => "silent",
        }
        .to_owned()
    }

    /// The failure of a request or body that did not come through.
    pub(super) fn of_connection(error: &kube::Error) -> Self {
        match error {
            kube::Error::Service(error) => Self::Unreachable(causes(error.as_ref())),
            error => Self::Unreachable(causes(error)),
        }
    }

    /// The failure for a response with an error status.
    pub(super) fn of_answer(head: &Parts, body: &Bytes) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let seconds = head.headers.get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
        Self::of_status(status, head.status, seconds)
    }

    /// The failure for an `ERROR` event of a watch.
    #[must_use]
    pub fn of_event(object: &str) -> Self {
        match serde_json::from_str::<Status>(object) {
            Ok(status) => Self::of_status(status, StatusCode::INTERNAL_SERVER_ERROR, None),
            Err(error) => Self::Unreadable(format!("an ERROR event without a status: {error}")),
        }
    }

    fn of_status(status: Status, http: StatusCode, retry_after: Option<u32>) -> Self {
        let in_body = status.details.map(|details| details.retry_after_seconds);
        let seconds = retry_after.or(in_body).filter(|seconds| *seconds > 0);
        Self::Status {
            code: if status.code == 0 { http.as_u16() } else { status.code },
            reason: status.reason,
            message: status.message,
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }

    /// The HTTP status code, if the server returned an error status.
    #[must_use]
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server no longer has the version or the page of the request.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Status { code, reason, .. } if *code == 410 || reason == "Expired" || reason == "Gone")
    }
}

/// An error with its causes, of which those of libraries often repeat the next one.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = message(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = message(error);
        if !text.ends_with(&why) {
            let _ = write!(text, ": {why}");
        }
        cause = error.source();
    }
    text
}

/// The text of an error. That of kube for an `exec` program has the program's environment and output, which may be secret.
fn message(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(AuthError::AuthExecRun { out, .. }) => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(SAID_MAX_CHARS).collect();
            format!("the exec program ended with {}: {said}", out.status)
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_a_watch_says_what_is_wrong() {
        let expired = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
        let failure = Failure::of_event(expired);
        assert!(failure.is_expired());
        assert_eq!(failure.to_string(), "410 Expired: too old");
        let busy = r#"{"code":429,"details":{"retryAfterSeconds":7}}"#;
        let Failure::Status { retry_after, .. } = Failure::of_event(busy) else {
            panic!("a status");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(7)));
        assert!(matches!(Failure::of_event("nothing"), Failure::Unreadable(_)));
    }
}
