//! Turns a decision into the response to a review.

use std::collections::BTreeMap;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::header;
use quota_core::decide::{self, Audience, Refusal};
use quota_semantics::{
    admission::{CheckedLimit, CheckedQuota, wrap_forbidden},
    object::GroupResource,
    syntax::MAX_SUBDOMAIN,
};

use super::{
    Decided, Rules,
    audit::{self, AnnotationKey},
    request::Fault,
    wire::{self, Answer, Details, Status},
};
use crate::{
    denials,
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, Decision},
    problem::{Reason, of_refusal},
    server::bounded,
};

/// Longest message of a denial, in bytes. With it, with bounded warnings and with bounded annotations an answer is a
/// small body, for which there is always room: a decision must not become an error.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// Longest list of quotas, and of messages, in an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 4096;

/// Denials that are logged in a second.
static DENIED: LogLimiter = LogLimiter::new(10);

/// Allows a request that does not count against quotas.
pub(super) fn pass(request: &wire::Request<'_>) -> Response {
    send(&Answer {
        uid: &request.uid,
        allowed: true,
        status: None,
        warnings: Vec::new(),
        audit_annotations: BTreeMap::new(),
    })
}

/// The answer to a review that cannot be decided: denied, whatever the webhook's `failurePolicy`.
pub(super) fn undecidable(request: &wire::Request<'_>, fault: &Fault) -> Response {
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    let why = format!("it cannot be checked against quotas: {}", shortened(&fault.detail));
    // Its own length may be why it is refused.
    let name = cut(&request.name, MAX_SUBDOMAIN);
    let (code, reason) = match fault.reason {
        Reason::TooLarge => (413, "RequestEntityTooLarge"),
        Reason::Overloaded => (429, "TooManyRequests"),
        _ => (400, "BadRequest"),
    };
    send(&Answer {
        uid: &request.uid,
        allowed: false,
        status: Some(Status {
            status: "Failure",
            code,
            reason,
            message: wrap_forbidden(&kind, name, &why),
            details: details(request, name),
        }),
        warnings: Vec::new(),
        audit_annotations: BTreeMap::from([("reason", fault.reason.as_str().to_owned())]),
    })
}

/// The answer to a review that was decided. `name` is the object's name in messages; `behind` says that the ledger has
/// not caught up with the sources of events.
pub(super) fn respond(
    request: &wire::Request<'_>,
    name: &str,
    behind: bool,
    decided: &Decided,
    rules: &Rules,
    annotation_key: &AnnotationKey,
) -> Response {
    let mut annotations = BTreeMap::from([("sequence", decided.sequence.to_string())]);
    let mut warnings = Vec::new();
    if behind {
        warnings.push("quotas were checked against usage that is not complete yet".to_owned());
        annotations.insert("behind", "true".to_owned());
    }
    let status = match &decided.outcome {
        Ok(admitted) => {
            count(admitted);
            if let Some(sequence) = admitted.replayed {
                annotations.insert("sequence", sequence.to_string());
            }
            if let Some(hold) = &decided.hold {
                annotations.insert(audit::ANNOTATION, annotation_key.close(hold));
            }
            annotate(&mut annotations, &admitted.charged);
            let unlimited = decide::warning_of_unlimited(&request.namespace, &admitted.unlimited);
            warnings.extend(unlimited);
            for notice in &admitted.notices {
                match notice.audience {
                    Audience::Caller => warnings.push(notice.message.clone()),
                    Audience::Auditors => {
                        // A dry run records nothing, so it passes no limit.
                        if admitted.replayed.is_none() && !admitted.events.is_empty() {
                            metrics::limit_passed();
                        }
                        let passed = annotations.entry("passed").or_default();
                        let room = ANNOTATION_BYTES_MAX.saturating_sub(passed.len());
                        if room > 0 {
                            passed.push_str(cut(&notice.message, room));
                            passed.push('\n');
                        }
                    }
                }
            }
            // Last, since only so many warnings are sent: there may be one for each limit.
            warnings.extend(about_admitted(admitted, rules.warn_ratio));
            None
        }
        Err(refusal) => {
            metrics::refused(refusal);
            let reason = of_refusal(refusal);
            annotations.insert("reason", reason.as_str().to_owned());
            if let Refusal::Denied(denied) = refusal {
                annotate(&mut annotations, &denied.quotas);
                warnings.extend(denied.reserved.as_deref().map(about_reservations));
            }
            Some(status(request, name, refusal))
        }
    };
    log(request, name, decided);
    send(&Answer {
        uid: &request.uid,
        allowed: status.is_none(),
        status,
        warnings: bounded(&warnings),
        audit_annotations: annotations,
    })
}

fn count(admitted: &decide::Decision) {
    let decision = match admitted.replayed {
        Some(_) => Decision::Replayed,
        None => Decision::Granted,
    };
    metrics::decisions(decision, None);
}

fn annotate(annotations: &mut BTreeMap<&'static str, String>, quotas: &[CheckedQuota]) {
    let mut names = String::new();
    for quota in quotas {
        if names.len() + quota.name.len() >= ANNOTATION_BYTES_MAX {
            break;
        }
        if !names.is_empty() {
            names.push(',');
        }
        names.push_str(&quota.name);
    }
    if !names.is_empty() {
        annotations.insert("quotas", names);
    }
}

/// Warnings about limits that are close, among the limits that the request counts against.
fn about_admitted(admitted: &decide::Decision, ratio: f64) -> Vec<String> {
    if admitted.unmeasured {
        let text =
            "the workload is not charged for its pods: they are checked when they are created";
        return vec![text.to_owned()];
    }
    let mut warnings = Vec::new();
    let limits = admitted
        .charged
        .iter()
        .flat_map(|quota| quota.resources.iter().map(|limit| (&quota.name, limit)));
    for (quota, limit) in limits {
        if let Some(used) = closeness(limit, ratio) {
            warnings.push(format!("quota {quota}: {used}"));
        }
    }
    warnings
}

fn closeness(limit: &CheckedLimit, ratio: f64) -> Option<String> {
    // A soft limit sets its own threshold for warnings.
    if limit.soft.is_some() {
        return None;
    }
    let mut used = limit.counted();
    used.add_assign(&limit.requested);
    let share = used.to_f64() / limit.hard.to_f64();
    (share >= ratio).then(|| {
        let (resource, hard) = (&limit.resource, &limit.hard);
        format!("{resource} is at {:.0}% of its limit ({used} of {hard})", share * 100.0)
    })
}

/// Kubernetes' message has no notion of reservations, so the reservations behind a denial are named beside it.
fn about_reservations(reserved: &str) -> String {
    format!("part of what is used is only reserved yet: {reserved}")
}

fn status<'a>(request: &'a wire::Request<'_>, name: &'a str, refusal: &Refusal) -> Status<'a> {
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    let forbidden = |text: &str| wrap_forbidden(&kind, name, text);
    let (code, reason, message) = match refusal {
        Refusal::Denied(denied) => {
            let denial = &denied.denial;
            let message = denial.message(&kind, name);
            (denial.code(), denial.kubernetes_reason(), message)
        }
        Refusal::TooManyPending { .. } => (429, "TooManyRequests", forbidden(&refusal.to_string())),
        Refusal::NotReady { .. } => (503, "ServiceUnavailable", forbidden(&refusal.to_string())),
        other => (409, "Conflict", forbidden(&other.to_string())),
    };
    Status {
        status: "Failure",
        code,
        reason,
        message: cut(&message, MESSAGE_BYTES_MAX).to_owned(),
        details: details(request, name),
    }
}

fn details<'a>(request: &'a wire::Request<'_>, name: &'a str) -> Details<'a> {
    Details { name, group: &request.resource.group, kind: &request.resource.resource }
}

fn log(request: &wire::Request<'_>, name: &str, decided: &Decided) {
    let (namespace, resource) = (&*request.namespace, &*request.resource.resource);
    let sequence = decided.sequence;
    match &decided.outcome {
        Ok(admitted) => {
            let entries = admitted.events.len();
            tracing::debug!(namespace, resource, name, sequence, entries, "admitted");
        }
        Err(refusal) => {
            let denied = denials::Denied { namespace, resource, name, sequence };
            denied.log(&DENIED, refusal);
        }
    }
}

fn send(answer: &Answer<'_>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, Body::from(wire::write(answer))).into_response()
}
