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
mod failure;
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
use http::{Method, request::Parts};
use quota_core::{
    event::{Actor, Sequence},
    state::State,
};
use tokio_util::sync::CancellationToken;

use changes::Changes;
use failure::Result;
use object::Object;
use resource::View;

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
    routes::{Refused, Route, delete, get, patch, post, put},
    writer::Ledger,
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
