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

mod accept;
mod applied;
mod body;
mod changes;
mod copied;
mod discovery;
mod events;
mod fields;
mod kind;
#[cfg(test)]
mod laws;
mod namespaces;
mod object;
mod openapi;
mod page;
mod params;
mod patch;
mod protobuf;
mod read;
mod remove;
mod resource;
mod reviews;
mod routes;
mod scope;
mod status;
mod table;
mod watch;
mod write;
mod write_request;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use quota_core::{
    event::{Actor, Sequence},
    state::State,
};
use tokio_util::sync::CancellationToken;

pub use routes::{refused, routes};

use self::{changes::Changes, object::Object, resource::View, status::Failure};
use crate::{
    auth::Principal,
    config::Config,
    watch_slots::{WatchLimits, Watches},
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
    #[must_use]
    pub fn start(ledger: Ledger, limits: Limits, stop: CancellationToken) -> Self {
        let changes = Changes::follow(&ledger, limits.quota_changes_bytes, stop.clone());
        let watches = Watches::new(limits.watch_streams);
        Self(Arc::new(Shared { ledger, limits, changes, watches, stop }))
    }

    fn chunk(&self) -> usize {
        self.0.limits.page.max(1)
    }

    /// Reads the state, and its head.
    async fn read<R>(&self, question: impl FnOnce(&State) -> R) -> status::Result<(R, Sequence)> {
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

    async fn from_request_parts(parts: &mut Parts, _: &S) -> status::Result<Self> {
        let actor = crate::caller::actor(&parts.headers, Principal::actor_of(&parts.extensions));
        actor.map(Self).map_err(|problem| Failure::bad_request(problem.detail()))
    }
}
