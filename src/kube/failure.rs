//! Failures in Kubernetes' format and wording.

use http::StatusCode;
use quota_core::decide::Refusal;
use quota_semantics::field::{self, FieldError};

use super::resource::Kind;
use crate::{
    metrics::{Limit, limit_reached},
    problem::{Failure, StatusCause, Undecided, log_failure},
    writer::Unavailable,
};

pub(super) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// There is no such object.
    pub(super) fn not_found(kind: Kind, name: &str) -> Self {
        let resource = kind.resource();
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{resource} {name:?} not found"))
            .about(&resource, name)
    }

    /// The namespace's name is not valid, so it cannot exist.
    pub(super) fn no_such_namespace(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("namespaces {name:?} not found"))
            .about("namespaces", name)
    }

    /// There is an object of that name already.
    pub(super) fn already_exists(kind: Kind, name: &str) -> Self {
        let resource = kind.resource();
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(&resource, name)
    }

    /// The object was changed concurrently.
    pub(super) fn modified(kind: Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object is not in the state that the request expects.
    pub(super) fn conflict(kind: Kind, name: &str, why: &str) -> Self {
        let resource = kind.resource();
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(&resource, name)
    }

    /// Other managers own fields that were applied.
    pub(super) fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let cause = |(message, field)| StatusCause {
            reason: "FieldManagerConflict".to_owned(),
            message,
            field: Some(field),
        };
        let causes = causes.into_iter().map(cause).collect();
        Self::new(StatusCode::CONFLICT, "Conflict", message).because(causes)
    }

    /// Fields of the object are not valid.
    pub(super) fn invalid(kind: Kind, name: &str, errors: &[FieldError]) -> Self {
        let cause = |error: FieldError| {
            let message = error.message();
            (error.kind.reason(), error.field, message)
        };
        let errors = field::bounded(errors.iter().cloned());
        let causes = errors.into_iter().map(cause).collect();
        Self::unprocessable(&kind.qualified_name(), name, causes)
    }

    /// Fields of the object, or of the request's options, are not valid: reasons, fields and messages.
    pub(super) fn unprocessable(
        kind: &str,
        name: &str,
        causes: Vec<(&str, String, String)>,
    ) -> Self {
        let said: Vec<_> = causes.iter().map(|(_, field, why)| format!("{field}: {why}")).collect();
        let said = match said.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let cause = |(reason, field, message): (&str, String, String)| StatusCause {
            reason: reason.to_owned(),
            message,
            field: Some(field),
        };
        let causes = causes.into_iter().map(cause).collect();
        let name = field::shown(name, field::SHOWN_BYTES_MAX);
        let message = format!("{kind} {name:?} is invalid: {said}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .about(kind, &name)
            .because(causes)
    }

    /// One field of the object, or of the request's options, is not valid.
    pub(super) fn wrong_field(
        kind: &str,
        name: &str,
        reason: &str,
        field: &str,
        why: String,
    ) -> Self {
        Self::unprocessable(kind, name, vec![(reason, field.to_owned(), why)])
    }

    /// The ledger has refused a write.
    pub(super) fn refused(kind: Kind, name: &str, refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Invalid(errors) => Self::invalid(kind, name, errors),
            Refusal::NotFound(_) => Self::not_found(kind, name),
            Refusal::LimitReached { .. } => {
                Limit::hit_by(refusal).into_iter().for_each(limit_reached);
                Self::forbidden(refusal.to_string())
            }
            Refusal::Adopted { .. } => Self::conflict(kind, name, &refusal.to_string()),
            other => Self::internal(other),
        }
    }

    /// The request cannot be read.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The patch is readable, but cannot be applied to this object.
    pub(super) fn unpatchable(why: String) -> Self {
        let message = "the server rejected our request due to an error in our request";
        let cause = StatusCause {
            reason: "UnexpectedServerResponse".to_owned(),
            message: why,
            field: None,
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).because(vec![cause])
    }

    /// The request is not allowed.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// The path exists, but not with this method.
    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut failure = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        failure.details();
        failure
    }

    /// None of the types that the caller accepts is offered.
    pub(super) fn not_acceptable(offered: &str) -> Self {
        let message = format!("only the following media types are accepted: {offered}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The media type of the body is not supported.
    pub(super) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The body is too large.
    pub(super) fn too_large() -> Self {
        let message = "the body of the request is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Changes after that version are no longer recorded.
    pub(super) fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The ledger has not reached that version.
    pub(super) fn not_yet(version: u64, head: u64) -> Self {
        let message = format!("Too large resource version: {version}, current: {head}");
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: None,
        };
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
            .because(vec![cause])
            .retry_after(1)
    }

    /// A limit on requests is reached.
    pub(super) fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).retry_after(1)
    }

    /// An internal error: the log has the details.
    pub(super) fn internal(error: &dyn std::fmt::Display) -> Self {
        log_failure(error, "request failed");
        let message = "Internal error occurred: the log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The same for a request of several decisions, of which some may be made, as [`Unavailable::with_part_made`].
    pub(super) fn with_part_made(self, is_part_made: bool) -> Self {
        match is_part_made && self.is_not_decided() {
            true => Unavailable::OutcomeUnknown.into(),
            false => self,
        }
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.reason() == "NotFound"
    }

    pub(super) fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        let message = unavailable.to_string();
        let code = StatusCode::SERVICE_UNAVAILABLE;
        let not_served = |message| Self::new(code, "ServiceUnavailable", message).retry_after(1);
        match unavailable {
            Unavailable::Overloaded => Self::too_many(message),
            Unavailable::NotLeader => not_served(message).undecided(Undecided::All),
            Unavailable::OutcomeUnknown => not_served(message).undecided(Undecided::Part),
            Unavailable::DiskLow | Unavailable::Stopped => not_served(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_decided_may_be_decided_by_the_next_leader() {
        let undecided =
            |failure: Failure| failure.into_response().extensions().get::<Undecided>().copied();
        let not_leader = || Failure::from(Unavailable::NotLeader);
        let status = not_leader().into_response().status();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(undecided(not_leader()), Some(Undecided::All));
        assert_eq!(undecided(Failure::from(Unavailable::Stopped)), None);
        let not_made = not_leader().with_part_made(false);
        assert_eq!(undecided(not_made), Some(Undecided::All));
        let part_made = not_leader().with_part_made(true);
        assert_eq!(undecided(part_made), Some(Undecided::Part));
    }

    #[test]
    fn failures_are_worded_as_kubernetes_words_them() {
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "resourcequotas \"nosuch\" not found", "reason": "NotFound",
            "details": {"name": "nosuch", "kind": "resourcequotas"}, "code": 404,
        });
        assert_eq!(Failure::not_found(Kind::Quota, "nosuch").to_json(), expected);
        let manifest =
            br#"{"metadata":{"name":"bad","namespace":"wire"},"spec":{"hard":{"pods":"-1"}}}"#;
        let manifest = quota_semantics::quota::Manifest::from_json(manifest).unwrap();
        let errors = quota_semantics::quota::validation::validate_create(&manifest);
        let invalid = Failure::invalid(Kind::Quota, "bad", &errors).to_json();
        let why = "Invalid value: \"-1\": must be greater than or equal to 0";
        assert_eq!(
            invalid["message"],
            format!("ResourceQuota \"bad\" is invalid: spec.hard[pods]: {why}")
        );
        let cause =
            json!({"reason": "FieldValueInvalid", "message": why, "field": "spec.hard[pods]"});
        assert_eq!(invalid["details"]["causes"], json!([cause]));
    }
}
