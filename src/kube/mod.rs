//! The Kubernetes-style API: everything that an unmodified `kubectl` needs to work with quotas and groups.
//!
//! # Versions
//! A version (`resourceVersion`) is a sequence of the ledger.
//! * The version of a list is the ledger's sequence when the list was read.
//! * The version of a quota is the last entry that changed its spec, its metadata, or anything in its namespace that
//!   its figures may depend on. So the version moves with `used` and `reserved`, and a watch can show them. The version
//!   of a group moves with the figures of any namespace. A watch sends a quota at most four times a second, a group at
//!   most once a second, and only if it looks different.
//! * A write with a version succeeds unless spec or metadata were changed after that version (409 `Conflict`). Changed
//!   figures do not conflict, since no client writes them.
//! * A watch from a version sends all later changes, merged: of several changes of a quota only the newest. Versions
//!   before the daemon's start, or too many changes ago, are `410 Gone`, and the client lists again.
//!
//! # Where it differs from Kubernetes
//! `status` is computed: it cannot be written, and has `reserved` and `reservations` beside `hard` and `used`. Every
//! namespace exists implicitly. Responses are JSON, even if the client prefers protobuf.

mod changes;
mod derived;
mod discovery;
mod fields;
mod object;
mod openapi;
mod patch;
mod protobuf;
mod read;
mod request;
mod resource;
mod reviews;
mod watch;
mod write;

#[cfg(test)]
mod laws;

use std::sync::Arc;

use axum::{
    extract::FromRequestParts,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, request::Parts};
use quota_core::{
    decide::Refusal,
    event::{Actor, Sequence},
    state::State,
};
use quota_semantics::field::{self, FieldError};
use tokio_util::sync::CancellationToken;

use changes::Changes;
use object::Object;
use resource::{Kind, View};

pub(super) use crate::problem::Failure;
use crate::{
    auth::{
        Access::{Authenticated, Role},
        Principal,
        Role::{Admin, Read},
        Scope::{Everywhere, Path, Readable},
        is_of_kubernetes,
    },
    config::Config,
    fairness::{WatchLimits, Watches},
    metrics::{Limit, limit_reached},
    problem::{StatusCause, Undecided, log_failure},
    routes::{Refused, Route, delete, get, patch, post, put},
    writer::{Ledger, Unavailable},
};

/// The release of Kubernetes whose API this follows.
const RELEASE: &str = "v1.36.0";

const VERSION: &str = quota_semantics::quota::manifest::API_VERSION;
const NAMESPACE_KIND: &str = "Namespace";
const NAMESPACES: &str = "namespaces";

/// Limits on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Quotas that are read while the state is locked once.
    pub page: usize,
    /// Limits on open watches.
    pub watch_streams: WatchLimits,
    /// Most bytes of deleted quotas that are kept for watches.
    pub quota_changes_bytes: usize,
}

impl From<&Config> for Limits {
    fn from(config: &Config) -> Self {
        let limits = &config.limits;
        Self {
            page: limits.page.get(),
            watch_streams: WatchLimits {
                all: limits.watch_streams.get(),
                of_principal: limits.watch_streams_per_principal.get(),
            },
            quota_changes_bytes: limits.quota_changes_bytes.as_usize(),
        }
    }
}

/// The state of this API. Cheap to clone.
#[derive(Clone)]
pub struct Kube(Arc<Shared>);

struct Shared {
    ledger: Ledger,
    limits: Limits,
    changes: Arc<Changes>,
    watches: Arc<Watches>,
    stop: CancellationToken,
}

impl Kube {
    /// Follows the ledger until `stop`, which also ends the watches. Needs a tokio runtime.
    pub fn start(ledger: Ledger, limits: Limits, stop: CancellationToken) -> Self {
        let changes = Changes::follow(&ledger, limits.quota_changes_bytes, stop.clone());
        let watches = Watches::new(limits.watch_streams);
        Self(Arc::new(Shared { ledger, limits, changes, watches, stop }))
    }

    fn chunk(&self) -> usize {
        self.0.limits.page.max(1)
    }

    /// Reads the state, and its head.
    async fn read<R>(&self, question: impl FnOnce(&State) -> R) -> Result<(R, Sequence)> {
        let read = self.0.ledger.read(|state| (question(state), state.head().sequence)).await;
        let (answer, head) = read.map_err(Failure::from)?;
        self.0.changes.reach(head).await;
        Ok((answer, head))
    }

    /// The version of the object of a view of a state at `head`.
    fn version(&self, view: &View, head: Sequence) -> Sequence {
        let changes = &self.0.changes;
        match view {
            View::Quota(quota) => changes.version(&quota.record.namespace, quota.entry, head),
            View::Group(group) => changes.version_of_group(group.view.entry, head),
        }
    }

    /// The API object for a view of a state at `head`.
    fn object(&self, view: View, head: Sequence) -> Object {
        let version = self.version(&view, head);
        Object::new(view, version, self.0.ledger.enforcement())
    }
}

/// The caller of a request, in the form that entries record.
struct Caller(Arc<Actor>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let actor = crate::auth::actor(&parts.headers, Principal::actor_of(&parts.extensions));
        actor.map(Self).map_err(|problem| Failure::bad_request(problem.detail()))
    }
}

// The routes of the Kubernetes-style API.

const QUOTAS: &str = "/api/v1/namespaces/{namespace}/resourcequotas";
const QUOTA: &str = "/api/v1/namespaces/{namespace}/resourcequotas/{name}";
const QUOTA_STATUS: &str = "/api/v1/namespaces/{namespace}/resourcequotas/{name}/status";

const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";
const GROUP: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas/{name}";
const GROUP_STATUS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas/{name}/status";
const APPLIED: &str =
    "/apis/quota.openshift.io/v1/namespaces/{namespace}/appliedclusterresourcequotas";
const APPLIED_GROUP: &str =
    "/apis/quota.openshift.io/v1/namespaces/{namespace}/appliedclusterresourcequotas/{name}";

/// The routes of this API.
pub fn routes() -> Vec<Route<Kube>> {
    vec![
        get("/version", Authenticated, discovery::version)
            .about("the Kubernetes version that this API follows"),
        get("/api", Authenticated, discovery::versions).about("the versions of the core group"),
        get("/apis", Authenticated, discovery::groups).about("the other API groups"),
        get(
            "/apis/quota.openshift.io/v1",
            Authenticated,
            discovery::quota_resources,
        )
        .about("the resources of this API group"),
        get(
            "/apis/authorization.k8s.io/v1",
            Authenticated,
            discovery::authorization_resources,
        )
        .about("the resources of this API group"),
        get(
            "/apis/authentication.k8s.io/v1",
            Authenticated,
            discovery::authentication_resources,
        )
        .about("the resources of this API group"),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            Authenticated,
            reviews::access,
        )
        .about("201: whether the caller may do something, for `kubectl auth can-i`"),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            Authenticated,
            reviews::rules,
        )
        .about("201: what the caller may do, for `kubectl auth can-i --list`"),
        post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            Authenticated,
            reviews::subject,
        )
        .about("201: who the caller is, for `kubectl auth whoami`"),
        get("/api/v1", Authenticated, discovery::core_resources).about("the resources of the core group"),
        get("/openapi/v2", Authenticated, openapi::v2).about("OpenAPI schemas of the kinds, for kubectl"),
        get("/openapi/v3", Authenticated, openapi::index).about("index of the OpenAPI v3 documents"),
        get("/openapi/v3/api/v1", Authenticated, openapi::v3)
            .about("OpenAPI schemas of the kinds, for kubectl"),
        get(
            "/openapi/v3/apis/quota.openshift.io/v1",
            Authenticated,
            openapi::v3_groups,
        )
        .about("OpenAPI schemas of the kinds, for kubectl"),
        get(
            "/api/v1/resourcequotas",
            Role(&[Read], Readable),
            read::list,
        )
        .about("list or watch of the quotas of all namespaces"),
        get(QUOTAS, Role(&[Read], Path), read::list).about("list or watch of quotas"),
        post(QUOTAS, Role(&[Admin], Path), write::create).about("201: the quota"),
        delete(QUOTAS, Role(&[Admin], Path), write::delete_collection)
            .about("list of the deleted quotas"),
        get(QUOTA, Role(&[Read], Path), read::get).about("the quota"),
        put(QUOTA, Role(&[Admin], Path), write::replace).about("the quota"),
        patch(QUOTA, Role(&[Admin], Path), write::patch)
            .about("the quota; JSON, merge and strategic merge patches, server-side apply"),
        delete(QUOTA, Role(&[Admin], Path), write::delete).about("the deleted quota"),
        get(QUOTA_STATUS, Role(&[Read], Path), read::get).about("the quota"),
        get("/api/v1/events", Role(&[Read], Readable), derived::list_all_events)
            .about("list of the latest denials and of pending reservations, of all namespaces, as Events"),
        get("/api/v1/namespaces/{namespace}/events", Role(&[Read], Path), derived::list_events)
            .about("the same of the namespace"),
        get("/api/v1/services", Authenticated, discovery::services)
            .about("an empty list, for `kubectl cluster-info`"),
        get(
            "/api/v1/namespaces/{namespace}/services",
            Role(&[Read], Path),
            discovery::services,
        )
        .about("the same"),
        get(GROUPS, Role(&[Read], Readable), read::list).about("list or watch of groups"),
        post(GROUPS, Role(&[Admin], Everywhere), write::create).about("201: the group"),
        delete(GROUPS, Role(&[Admin], Everywhere), write::delete_collection)
            .about("list of the deleted groups"),
        get(GROUP, Role(&[Read], Readable), read::get).about("the group"),
        put(GROUP, Role(&[Admin], Everywhere), write::replace).about("the group"),
        patch(GROUP, Role(&[Admin], Everywhere), write::patch)
            .about("the group; JSON, merge and strategic merge patches, server-side apply"),
        delete(GROUP, Role(&[Admin], Everywhere), write::delete).about("the deleted group"),
        get(GROUP_STATUS, Role(&[Read], Readable), read::get).about("the group"),
        get(APPLIED, Role(&[Read], Path), derived::list_applied)
            .about("list of the groups that count the namespace, with the members that the caller may read"),
        get(APPLIED_GROUP, Role(&[Read], Path), derived::get_applied)
            .about("one of them"),
        get(
            "/api/v1/namespaces",
            Role(&[Read], Readable),
            derived::list_namespaces,
        )
        .about("list of the namespaces that the ledger knows"),
        get(
            "/api/v1/namespaces/{namespace}",
            Role(&[Read], Path),
            derived::get_namespace,
        )
        .about("the namespace"),
    ]
}

/// The response to a request without a handler, in the format that clients of this path expect.
pub fn refused(refused: Refused, method: &Method, path: &str) -> Response {
    match refused {
        Refused::NoMethod if is_of_kubernetes(path) => {
            Failure::method_not_allowed().into_response()
        }
        _ => refused.as_problem(method, path),
    }
}

// Failures in Kubernetes' format and wording.

type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// There is no such object.
    fn not_found(kind: Kind, name: &str) -> Self {
        let resource = kind.resource();
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{resource} {name:?} not found"))
            .about(&resource, name)
    }

    /// The namespace's name is not valid, so it cannot exist.
    fn no_such_namespace(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("namespaces {name:?} not found"))
            .about("namespaces", name)
    }

    /// There is an object of that name already.
    fn already_exists(kind: Kind, name: &str) -> Self {
        let resource = kind.resource();
        let message = format!("{resource} {name:?} already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(&resource, name)
    }

    /// The object was changed concurrently.
    fn modified(kind: Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object is not in the state that the request expects.
    fn conflict(kind: Kind, name: &str, why: &str) -> Self {
        let resource = kind.resource();
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(&resource, name)
    }

    /// Other managers own fields that were applied.
    fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let cause = |(message, field)| StatusCause {
            reason: "FieldManagerConflict".to_owned(),
            message,
            field: Some(field),
        };
        let causes = causes.into_iter().map(cause).collect();
        Self::new(StatusCode::CONFLICT, "Conflict", message).because(causes)
    }

    /// Fields of the object are not valid.
    fn invalid(kind: Kind, name: &str, errors: &[FieldError]) -> Self {
        let cause = |error: FieldError| {
            let message = error.message();
            (error.kind.reason(), error.field, message)
        };
        let errors = field::bounded(errors.iter().cloned());
        let causes = errors.into_iter().map(cause).collect();
        Self::unprocessable(&kind.qualified_name(), name, causes)
    }

    /// Fields of the object, or of the request's options, are not valid: reasons, fields and messages.
    fn unprocessable(kind: &str, name: &str, causes: Vec<(&str, String, String)>) -> Self {
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
    fn wrong_field(kind: &str, name: &str, reason: &str, field: &str, why: String) -> Self {
        Self::unprocessable(kind, name, vec![(reason, field.to_owned(), why)])
    }

    /// The ledger has refused a write.
    fn refused(kind: Kind, name: &str, refusal: &Refusal) -> Self {
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
    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The patch is readable, but cannot be applied to this object.
    fn unpatchable(why: String) -> Self {
        let message = "the server rejected our request due to an error in our request";
        let cause = StatusCause {
            reason: "UnexpectedServerResponse".to_owned(),
            message: why,
            field: None,
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).because(vec![cause])
    }

    /// The request is not allowed.
    fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// The path exists, but not with this method.
    fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut failure = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        failure.details();
        failure
    }

    /// None of the types that the caller accepts is offered.
    fn not_acceptable(offered: &str) -> Self {
        let message = format!("only the following media types are accepted: {offered}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The media type of the body is not supported.
    fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The body is too large.
    fn too_large() -> Self {
        let message = "the body of the request is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Changes after that version are no longer recorded.
    fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The ledger has not reached that version.
    fn not_yet(version: u64, head: u64) -> Self {
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
    fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).retry_after(1)
    }

    /// An internal error: the log has the details.
    fn internal(error: &dyn std::fmt::Display) -> Self {
        log_failure(error, "request failed");
        let message = "Internal error occurred: the log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The same for a request of several decisions, of which some may be made, as [`Unavailable::with_part_made`].
    fn with_part_made(self, is_part_made: bool) -> Self {
        match is_part_made && self.is_not_decided() {
            true => Unavailable::OutcomeUnknown.into(),
            false => self,
        }
    }

    fn is_not_found(&self) -> bool {
        self.reason() == "NotFound"
    }

    fn is_already_exists(&self) -> bool {
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
