//! The Kubernetes-style API: what an unmodified `kubectl` needs to work with quotas and groups.
//!
//! # Versions
//! A version (`resourceVersion`) is a sequence of the ledger.
//! * That of a list is how far the ledger was when the list was read.
//! * That of a quota is the last entry that changed it: its spec, its metadata, or something in its namespace that its
//!   figures may depend on. So it moves with `used` and `reserved`, and a watch can show them. That of a group moves with
//!   the figures of any namespace; a watch sends a group at most once a second, and only if it looks different.
//! * A write that names a version is carried out unless spec or metadata were changed after it (409 `Conflict`).
//!   Figures that have changed since do not stand in the way: nobody writes them.
//! * A watch from a version sends everything after it, merged: of several changes of a quota only the newest.
//!   What was before the daemon's start, or too many changes ago, is `410 Gone`, and the client lists again.
//!
//! # Where it differs from Kubernetes
//! `status` is computed: it cannot be written, and has `reserved` and `reservations` beside `hard` and `used`. Namespaces
//! are there as soon as they are named. Answers are JSON, also to those who would rather have protobuf.

mod accept;
mod applied;
mod body;
mod changes;
mod discovery;
mod field_selector;
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
mod request;
mod resource;
mod reviews;
mod routes;
mod services;
mod status;
mod table;
mod watch;
mod write;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use quota_core::{
    event::{Actor, Sequence},
    state::State,
};
use tokio_util::sync::CancellationToken;

pub use routes::{refused, routes};

use self::{changes::Changes, kind::Kind, object::Object, resource::View, status::Failure};
use crate::{
    auth::Principal,
    config::Config,
    watches::{WatchLimits, Watches},
    writer::Ledger,
};

/// The release of Kubernetes whose API this is.
const RELEASE: &str = "v1.36.0";

const VERSION: &str = quota_semantics::quota::manifest::API_VERSION;
const NAMESPACE_KIND: &str = "Namespace";
const NAMESPACES: &str = "namespaces";

/// What callers may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Quotas that are read from the state at once.
    pub page: usize,
    /// Open watches.
    pub watch_streams: WatchLimits,
    /// Bytes of quotas that came and went, which are remembered for watches.
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
        Self(Arc::new(Shared {
            ledger,
            limits,
            changes,
            watches,
            stop,
        }))
    }

    fn chunk(&self) -> usize {
        self.0.limits.page.max(1)
    }

    /// Reads the state, with how far it was.
    async fn read<R>(&self, question: impl FnOnce(&State) -> R) -> status::Result<(R, Sequence)> {
        let read = self
            .0
            .ledger
            .read(|state| (question(state), state.head().sequence))
            .await;
        let (answer, head) = read.map_err(Failure::from)?;
        self.0.changes.reach(head).await;
        Ok((answer, head))
    }

    /// What is seen of an object, from a state that had come to `head`, as an object of the API.
    fn object(&self, view: View, head: Sequence) -> Object {
        let (changes, key) = (&self.0.changes, view.key());
        let version = match key.kind {
            Kind::Quota => changes.version(&key.namespace, view.entry(), head),
            Kind::Group => changes.version_of_group(view.entry(), head),
        };
        Object::new(view, version, self.0.ledger.coverage())
    }
}

/// Who sent a request, as the entries that it causes name it.
struct Caller(Arc<Actor>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> status::Result<Self> {
        let actor = crate::api::actor(&parts.headers, Principal::actor_of(&parts.extensions));
        actor
            .map(Self)
            .map_err(|problem| Failure::bad_request(problem.detail()))
    }
}
