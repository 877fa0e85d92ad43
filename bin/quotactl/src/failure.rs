//! The failure of a command: its message and its exit code.

use std::{fmt, time::Duration};

pub(crate) use quota_client::exit::Exit;
use quota_client::{
    http::{Error, Refusal},
    wire::{FieldProblem, LimitKind, Problem},
};

use crate::{
    figures::{self, Rows},
    table::{self, blank_controls},
};

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The message, one line.
    pub(crate) message: String,
    /// Hints, one line each.
    pub(crate) hints: Vec<String>,
    /// Lines to print after the message: the figures of a denial.
    pub(crate) figures: Option<String>,
    /// The lines for `-o wide`, if there are more.
    pub(crate) wide: Option<String>,
    /// The reason why the same request may succeed later; none if it will not.
    pub(crate) transient: Option<Transient>,
}

/// The reason why the same request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transient {
    /// The daemon could not be reached, or the connection broke: the request may have been carried out.
    Unreachable,
    /// The daemon is busy, and requests this delay before the next attempt.
    Busy(Duration),
}

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with its exit code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            figures: None,
            wide: None,
            transient: None,
        }
    }

    /// A failure without a message: it was printed already, or standard output is closed.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// Whether there is nothing to print.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// A failure that has no exit code of its own.
    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// An invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The same failure with a further hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same failure with all figures.
    pub(crate) fn widened(mut self) -> Self {
        self.figures = self.wide.take().or(self.figures);
        self
    }

    /// The same failure with a prefix that names its subject.
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        if !self.is_silent() {
            self.message = format!("{what}: {}", self.message);
        }
        self
    }
}

/// Messages may contain text from elsewhere, so line ends and other misleading characters are blanked.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", blank_controls(self.message.trim_end()))?;
        for hint in &self.hints {
            write!(f, "\nhint: {}", blank_controls(hint.trim_end()))?;
        }
        if let Some(figures) = &self.figures {
            write!(f, "\n{figures}")?;
        }
        Ok(())
    }
}

/// A closed pipe (`| head`) is no failure, but ends the output. No other writer here is a pipe.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::silent(Exit::Done),
            _ => Self::general(error.to_string()),
        }
    }
}

// Refusals by the daemon: problem details (RFC 9457), turned into an exit code and a message.

/// The failure for an error of the client. `namespace`: the namespace of the request.
pub(crate) fn failure(error: &Error, namespace: Option<&str>) -> Failure {
    let Some(refusal) = error.refusal() else {
        return without_answer(error);
    };
    let problem = &refusal.problem;
    let mut failure = Failure::new(exit(error), refusal.to_string());
    if matches!(error, Error::Denied(_)) {
        let quotas = problem.quotas.as_deref().unwrap_or_default();
        let table = |rows| figures::checked_quotas(quotas, rows).map(|table| table.render(true));
        failure.figures = table(Rows::Failed);
        failure.wide = table(Rows::All);
    } else if problem.errors.len() > 1 {
        failure.message = problem.title.clone().into_owned();
        let line = |error: &FieldProblem| format!("  {}: {}", error.field, error.message);
        let lines: Vec<_> = problem.errors.iter().map(line).collect();
        failure.figures = Some(lines.join("\n"));
    }
    failure.hints = hints(error, refusal, namespace);
    if matches!(error, Error::Busy(_)) {
        let wait = refusal.retry_after.unwrap_or(Duration::from_secs(1));
        failure.transient = Some(Transient::Busy(wait));
    }
    failure
}

fn without_answer(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Server(_) => Failure::usage(format!("--server {message}")),
        Error::PlainToken => Failure::usage(message).hint("use an https:// server"),
        Error::Request(_) => Failure::usage(message),
        Error::Unreachable { .. } => Failure {
            transient: Some(Transient::Unreachable),
            ..Failure::general(message).hint(
                "check that quotad runs there; --server, QUOTACTL_SERVER or a context set the address",
            )
        },
        Error::Answer { .. } => {
            Failure::new(exit(error), message).hint("is this the address of quotad's API?")
        }
        _ => Failure::general(message),
    }
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Denied(_) => Exit::Denied,
        Error::NotFound(_) | Error::Answer { status: 404, .. } => Exit::NotFound,
        Error::Conflict(_) => Exit::Conflict,
        _ => Exit::Failure,
    }
}

/// Hints on how to proceed after a refusal.
fn hints(error: &Error, refusal: &Refusal, namespace: Option<&str>) -> Vec<String> {
    let problem = &refusal.problem;
    let mut hints = Vec::new();
    if let Some(time) = &problem.retry_after {
        let wait = table::left(*time, table::now());
        hints.push(format!("pending reservations expire and make room in {wait}, at {time}"));
    }
    hints.extend(short_of(problem, namespace));
    if !hints.is_empty() {
        return hints;
    }
    let of = namespace.map(|name| format!(" -n {name}")).unwrap_or_default();
    let reason = refusal.reason();
    hints.extend(match (error, refusal.retry_after) {
        (_, Some(wait)) => Some(format!("try again in {}s", wait.as_secs())),
        (Error::Forbidden(_), None) if refusal.status == 401 => {
            Some("authenticate with --token-file, or with --cert and --key".to_owned())
        }
        (Error::Forbidden(_), None) if reason.is_some() => Some(
            "quotactl status shows your principal and its roles".to_owned(),
        ),
        (Error::Denied(_), None) => Some(format!(
            "quotactl get usage{of} shows what is limited, quotactl denials{of} what was denied lately"
        )),
        (Error::NotFound(_), None) if problem.detail.starts_with("quota ") => {
            Some(format!("quotactl get quota{of} lists those that there are"))
        }
        (Error::Conflict(_), None) if problem.detail.contains("has been modified") => {
            Some("read it again, and repeat the change".to_owned())
        }
        (Error::Busy(_), None) if refusal.status == 503 => {
            Some("quotactl status shows what the daemon waits for".to_owned())
        }
        _ => None,
    });
    hints
}

/// A hint that names the commands which show the usage of the exceeded limit.
fn short_of(problem: &Problem, namespace: Option<&str>) -> Option<String> {
    let mut limits = problem.quotas.iter().flatten().flat_map(|quota| {
        let resources = quota.resources.iter();
        resources.map(move |limit| (quota, limit))
    });
    let (quota, limit) = limits.find(|(_, limit)| limit.is_exceeded())?;
    let (resource, name) = (&limit.resource, &quota.name);
    let of = namespace.map(|name| format!(" -n {name}")).unwrap_or_default();
    let is_group = quota.kind == LimitKind::ClusterResourceQuota;
    let describe = match is_group {
        true => format!("quotactl describe group {name}"),
        false => format!("quotactl describe quota {name}{of}"),
    };
    Some(match problem.fits_when_empty {
        Some(false) => format!(
            "{name} would not allow it even if nothing else were there: {describe} shows its limits"
        ),
        // What takes the room may be in other namespaces.
        _ if is_group => format!(
            "{describe} shows which namespaces take the room, \
             quotactl denials{of} what was denied lately"
        ),
        _ => format!(
            "quotactl explain {resource} --quota {name}{of} shows what takes the room, \
             quotactl denials{of} what was denied lately"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let failure = Failure::from(gone).about("standard output");
        assert!(failure.exit == Exit::Done && failure.is_silent());
    }

    #[test]
    fn a_failure_is_one_line_and_a_hint() {
        let failure = Failure::general("no\nroom\u{1b}[31m\u{202e}x").hint("wait");
        assert_eq!(
            failure.about("x.yaml").to_string(),
            "error: x.yaml: no room [31m x\nhint: wait"
        );
        assert!(Failure::silent(Exit::Denied).about("x.yaml").is_silent());
    }

    fn from(status: u16, body: &str) -> Failure {
        let error = Error::of_answer("http://x", status, None, body.as_bytes());
        failure(&error, Some("a"))
    }

    #[test]
    fn statuses_and_reasons_become_exit_codes() {
        let cases = [
            (403, "ExceedsHard", Exit::Denied),
            (403, "MustSpecify", Exit::Denied),
            (403, "Forbidden", Exit::Failure),
            (403, "NotOwner", Exit::Failure),
            (404, "NotFound", Exit::NotFound),
            (409, "AlreadyObserved", Exit::Conflict),
            (410, "ReservationExpired", Exit::Conflict),
            (410, "Compacted", Exit::Failure),
            (412, "Conflict", Exit::Conflict),
            (422, "UidReused", Exit::Conflict),
            (422, "Invalid", Exit::Failure),
            (503, "NotReady", Exit::Failure),
        ];
        for (status, reason, exit) in cases {
            let body = format!(r#"{{"detail":"why","reason":"{reason}"}}"#);
            let failure = from(status, &body);
            assert_eq!((failure.exit, failure.message.as_str()), (exit, "why"), "{reason}");
        }
    }

    #[test]
    fn a_denial_shows_the_figures_and_when_to_come_back() {
        let failure = from(
            403,
            r#"{"detail":"exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
                "reason":"ExceedsHard","retryAfter":"2020-01-01T00:00:00Z",
                "quotas":[{"name":"q","resources":[
                  {"resource":"pods","hard":"2","used":"1","reserved":"1","requested":"1"}]}]}"#,
        );
        assert_eq!(
            failure.to_string(),
            "error: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2\n\
             hint: pending reservations expire and make room in 0s, at 2020-01-01T00:00:00Z\n\
             hint: quotactl explain pods --quota q -n a shows what takes the room, quotactl denials -n a what was denied lately\n\
             QUOTA   RESOURCE   REQUESTED   USED   OF IT RESERVED   HARD   AVAILABLE\n\
             q       pods               1      2                1      2           0"
        );
    }

    #[test]
    fn only_what_has_been_modified_is_to_be_read_again() {
        for (detail, is_stale) in [
            ("quota q has been modified: it is at resourceVersion 3, not 2", true),
            ("quota q comes from the cluster: change it there", false),
        ] {
            let body = format!(r#"{{"detail":"{detail}","reason":"Conflict"}}"#);
            let text = from(409, &body).to_string();
            assert_eq!(text.contains("read it again"), is_stale, "{text}");
        }
    }

    #[test]
    fn what_is_guaranteed_to_others_is_not_left() {
        let failure = from(
            403,
            r#"{"detail":"no","reason":"ExceedsHard","quotas":[{"name":"g","kind":"ClusterResourceQuota","resources":[
                  {"resource":"pods","hard":"9","used":"4","reserved":"1","guaranteedToOthers":"4","requested":"1"}]}]}"#,
        );
        assert_eq!(
            failure.to_string(),
            "error: no\n\
             hint: quotactl describe group g shows which namespaces take the room, quotactl denials -n a what was denied lately\n\
             QUOTA     RESOURCE   REQUESTED   USED   OF IT RESERVED   OF IT FOR OTHERS   HARD   AVAILABLE\n\
             group/g   pods               1      9                1                  4      9           0"
        );
    }

    #[test]
    fn every_denial_says_where_to_look() {
        let looks = "hint: quotactl get usage -n a shows what is limited, quotactl denials -n a what was denied lately";
        for reason in ["InsufficientQuota", "MustSpecify"] {
            let failure =
                from(403, &format!(r#"{{"detail":"no","reason":"{reason}","quotas":[]}}"#));
            assert!(failure.to_string().contains(looks), "{failure}");
        }
        let failure = from(
            403,
            r#"{"detail":"no","reason":"ExceedsHard","fitsWhenEmpty":false,"quotas":[{"name":"q","resources":[
                  {"resource":"pods","hard":"2","used":"0","reserved":"0","requested":"3"}]}]}"#,
        );
        let never = "hint: q would not allow it even if nothing else were there: quotactl describe quota q -n a shows its limits";
        assert!(failure.to_string().contains(never), "{failure}");
    }

    #[test]
    fn every_wrong_field_is_shown() {
        let failure = from(
            422,
            r#"{"title":"not valid","detail":"a: no; b: no","reason":"Invalid",
                "errors":[{"field":"a","message":"no"},{"field":"b","message":"no"}]}"#,
        );
        assert_eq!(failure.to_string(), "error: not valid\n  a: no\n  b: no");
    }

    #[test]
    fn an_answer_from_something_else_is_said_to_be_that() {
        let failure = from(502, "<html>");
        assert_eq!(failure.message, "http://x answers 502 Bad Gateway");
    }
}
