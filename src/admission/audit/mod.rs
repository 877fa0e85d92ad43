//! The API server's audit webhook: `POST /audit` takes `audit.k8s.io/v1` EventLists.
//!
//! The answer to a creation bears a sealed annotation that names the reservation it made. The audit event of the
//! request carries this annotation, together with the outcome of the request. If the request failed, the object will
//! never exist, and its reservation is released at once instead of when it expires.
//!
//! A reservation is released only if the request has certainly failed. Only creations are considered: each has a uid of
//! its own, so no other request relies on the same reservation. After a server error or a timeout the object may be
//! stored nevertheless, so the reservation stays.

mod annotation_mac;
mod plugin;
mod wire;

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use quota_core::{decide, event::Actor};
use quota_semantics::Name;
use quota_service::health::Health;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub(super) use annotation_mac::{AnnotationKey, Hold};
pub(super) use plugin::Plugin;

use self::wire::Event;
use super::{Hook, USER_BYTES_MAX, actor, is_json, not_json};
use crate::{
    clock::now,
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, AuditEvent},
    problem::{Problem, Reason},
    whole_body::whole_body,
    writer::{DecisionContext, Unavailable},
};

/// The path that receives audit events.
pub(crate) const ROUTE: &str = quota_client::paths::AUDIT;

/// The key of the annotation, after the webhook's name.
pub(super) const ANNOTATION: &str = "hold";

/// How often adopted quotas are counted.
const LOOK: Duration = Duration::from_secs(10);

/// Rejected event lists that are logged per second.
static REFUSED: LogLimiter = LogLimiter::new(10);

/// The outcome for a list of events.
#[derive(Debug, Default, Serialize)]
struct AuditResponse {
    /// Events received.
    events: usize,
    /// Reservations released.
    released: usize,
}

/// A reservation whose object will never exist.
struct Failed {
    hold: Hold,
    actor: Arc<Actor>,
}

pub(super) async fn audit(State(hook): State<Hook>, request: Request) -> Response {
    let answered = hook.record(request).await;
    match answered {
        Ok(answer) => Json(answer).into_response(),
        Err(problem) => {
            let (reason, detail) = (problem.reason(), shortened(problem.detail()));
            if let Some(held_back) = REFUSED.pass() {
                let reason = reason.as_str();
                tracing::warn!(reason, detail, held_back, "audit events were rejected");
            }
            Problem::new(reason, detail).into_response()
        }
    }
}

impl Hook {
    async fn record(&self, request: Request) -> Result<AuditResponse, Problem> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(not_json());
        }
        let body = whole_body(body).await?;
        let items = wire::items(&body).map_err(|why| Problem::new(Reason::Malformed, why))?;
        let caller = actor(&parts, "")?;
        let mut failed = Vec::new();
        for item in &items {
            match self.failed_with(item.get(), &caller) {
                Ok(one) => failed.push(one),
                Err(why) => metrics::audit_events(why, 1),
            }
        }
        let released = self.release(failed).await?;
        Ok(AuditResponse { events: items.len(), released })
    }

    /// The reservation that a failed request had made; or else how its event is counted.
    fn failed_with(&self, text: &str, caller: &Actor) -> Result<Failed, AuditEvent> {
        let event: Event<'_> = serde_json::from_str(text).map_err(|_| AuditEvent::Unreadable)?;
        if event.is_over() && event.is_refused_by_plugin() {
            self.0.plugin.denied(now(), event.namespace());
        }
        let sealed = event.annotations_named(ANNOTATION);
        let mut is_ours = false;
        let holds = sealed.filter_map(|text| {
            is_ours = true;
            self.0.annotation_key.open(text)
        });
        let hold = holds.last();
        let Some(hold) = hold else {
            return Err(match is_ours {
                true => AuditEvent::Foreign,
                false => AuditEvent::Unconcerned,
            });
        };
        if event.namespace() != &*hold.namespace || !event.is_over() {
            return Err(AuditEvent::Foreign);
        }
        if !event.has_certainly_failed() {
            return Err(AuditEvent::Kept);
        }
        let user = Name::from(cut(event.user(), USER_BYTES_MAX));
        let reason = format!("the API server answered {}", event.code());
        let actor = Actor {
            user: Some(user).filter(|user| !user.is_empty()),
            reason: Some(reason.into()),
            ..caller.clone()
        };
        Ok(Failed { hold, actor: Arc::new(actor) })
    }

    /// Counts the adopted quotas, which the API server's quota plugin enforces as well, at intervals until `stop`.
    pub(crate) async fn detect_shared_quotas(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.0.plugin.shares(self.shared_quotas());
        }
    }

    fn shared_quotas(&self) -> usize {
        let ledger = &self.0.ledger;
        let mut after = Name::default();
        let mut found = 0;
        // The state is locked for one namespace at a time.
        while let Some((namespace, adopted)) = ledger.peek(|state| {
            let namespace = state.namespaces(&after).next()?;
            let records = state.quota_records(namespace);
            let adopted = records.filter(|record| decide::is_adopted(state, record));
            Some((namespace.clone(), adopted.count()))
        }) {
            after = namespace;
            found += adopted;
        }
        found
    }

    /// Whether the API server's own quota plugin refuses requests that webhooks admit.
    #[must_use]
    pub(crate) fn plugin_health(&self) -> Health {
        self.0.plugin.health(now())
    }

    /// Releases these reservations. Answers how many of them were still held.
    async fn release(&self, failed: Vec<Failed>) -> Result<usize, Unavailable> {
        if failed.is_empty() {
            return Ok(0);
        }
        let all = failed.len();
        let decision = move |context: &mut DecisionContext<'_>| {
            let transaction = &mut context.transaction;
            let mut released = 0;
            for Failed { hold, actor } in &failed {
                let Hold { namespace, uid, entry } = hold;
                if let Some(event) = decide::fail(transaction.state(), namespace, uid, *entry) {
                    transaction.record(actor, [event]);
                    released += 1;
                }
            }
            released
        };
        let released = self.0.ledger.decide(decision).await?;
        metrics::audit_events(AuditEvent::Released, released);
        metrics::audit_events(AuditEvent::Ended, all - released);
        Ok(released)
    }
}
