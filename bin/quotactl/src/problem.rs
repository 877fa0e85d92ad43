//! What the daemon says when it refuses: problem details (RFC 9457), turned into an exit code and a message.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use quota_client::wire::{FieldProblem, Problem};

use super::{
    age,
    failure::{Exit, Failure, Transient},
    figures,
};

/// The failure that an answer with an error status means. `namespace` is the one that was asked about.
pub(crate) fn failure(
    server: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    namespace: Option<&str>,
) -> Failure {
    if let Some(message) = kubernetes_message(body) {
        return Failure::new(exit(status, ""), message);
    }
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        return Failure::new(exit(status, ""), format!("{server} answers {status}"))
            .hint("is this the address of quotad's API?");
    };
    let exit = exit(status, &problem.reason);
    let message = [&problem.detail, &problem.title]
        .into_iter()
        .find(|text| !text.is_empty())
        .cloned()
        .unwrap_or_else(|| format!("{server} answers {status}"));
    let mut failure = Failure::new(exit, message);
    if exit == Exit::Denied {
        failure.figures = problem
            .quotas
            .as_deref()
            .and_then(figures::looked_at)
            .map(|table| table.render(true));
    } else if problem.errors.len() > 1 {
        failure.message.clone_from(&problem.title);
        let line = |error: &FieldProblem| format!("  {}: {}", error.field, error.message);
        failure.figures = Some(
            problem
                .errors
                .iter()
                .map(line)
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    failure.hints = hints(status, headers, &problem, namespace);
    failure.transient = busy(status, headers);
    failure
}

/// What a Kubernetes `Status` says: so answers what speaks to kubectl.
fn kubernetes_message(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Status {
        kind: String,
        message: String,
    }
    let status: Status = serde_json::from_slice(body).ok()?;
    (status.kind == "Status").then_some(status.message)
}

/// Reasons of a 403 that have nothing to do with quotas.
const NOT_ALLOWED: [&str; 4] = ["Forbidden", "Unauthorized", "CrossOrigin", "NotOwner"];

/// The daemon answers 422 to a uid that was used for something else, and 410 to a reservation that has ended by
/// itself: both contradict what the ledger holds.
fn exit(status: StatusCode, reason: &str) -> Exit {
    match status {
        StatusCode::FORBIDDEN if !reason.is_empty() && !NOT_ALLOWED.contains(&reason) => {
            Exit::Denied
        }
        StatusCode::NOT_FOUND => Exit::NotFound,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Exit::Conflict,
        StatusCode::GONE if reason == "ReservationExpired" => Exit::Conflict,
        StatusCode::UNPROCESSABLE_ENTITY if reason == "UidReused" => Exit::Conflict,
        _ => Exit::Failure,
    }
}

/// What could be done about it.
fn hints(
    status: StatusCode,
    headers: &HeaderMap,
    problem: &Problem,
    namespace: Option<&str>,
) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(time) = &problem.retry_after {
        let wait = age::left(*time, age::now());
        hints.push(format!(
            "pending reservations expire and make room in {wait}, at {time}"
        ));
    }
    hints.extend(short_of(problem, namespace));
    if !hints.is_empty() {
        return hints;
    }
    let of = namespace
        .map(|name| format!(" -n {name}"))
        .unwrap_or_default();
    let reason = problem.reason.as_str();
    hints.extend(match (status, retry_after(headers)) {
        (_, Some(seconds)) => Some(format!("try again in {seconds}s")),
        (StatusCode::UNAUTHORIZED, None) => {
            Some("--token-file or --cert and --key say who you are".to_owned())
        }
        (StatusCode::FORBIDDEN, None) if NOT_ALLOWED.contains(&reason) => Some(
            "quotactl status shows who the daemon takes you for, and what you may do".to_owned(),
        ),
        (StatusCode::NOT_FOUND, None) if problem.detail.starts_with("quota ") => {
            Some(format!("quotactl get quota{of} lists those that there are"))
        }
        (StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED, None) if reason == "Conflict" => {
            Some("it has changed in between: read it again, and repeat the change".to_owned())
        }
        (StatusCode::SERVICE_UNAVAILABLE, None) => {
            Some("quotactl status shows what the daemon waits for".to_owned())
        }
        _ => None,
    });
    hints
}

/// Where to look for what takes the room.
fn short_of(problem: &Problem, namespace: Option<&str>) -> Option<String> {
    let mut limits = problem.quotas.iter().flatten().flat_map(|quota| {
        let resources = quota.resources.iter();
        resources.map(|limit| (&quota.name, limit))
    });
    let (quota, limit) = limits.find(|(_, limit)| {
        let left = figures::available(&limit.hard, &limit.used, &limit.reserved);
        !limit.requested.is_zero() && left < limit.requested
    })?;
    let resource = &limit.resource;
    let of = namespace
        .map(|name| format!(" -n {name}"))
        .unwrap_or_default();
    Some(match problem.fits_when_empty {
        Some(false) => format!("{quota} would not allow it even if nothing else were there"),
        _ => format!(
            "quotactl explain {resource} --quota {quota}{of} shows what takes the room, \
             quotactl denials{of} what was denied lately"
        ),
    })
}

/// Seconds after which to come back.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

fn busy(status: StatusCode, headers: &HeaderMap) -> Option<Transient> {
    let busy = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    busy.then(|| Transient::Busy(Duration::from_secs(retry_after(headers).unwrap_or(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(status: u16, body: &str) -> Failure {
        let status = StatusCode::from_u16(status).unwrap();
        failure(
            "http://x",
            status,
            &HeaderMap::new(),
            body.as_bytes(),
            Some("a"),
        )
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
            assert_eq!(
                (failure.exit, failure.message.as_str()),
                (exit, "why"),
                "{reason}"
            );
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
             QUOTA   RESOURCE   REQUESTED   USED   RESERVED   HARD   AVAILABLE\n\
             q       pods               1      1          1      2           0"
        );
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
