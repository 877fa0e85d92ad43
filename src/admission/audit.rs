//! The API server's audit webhook: `POST /audit` takes `audit.k8s.io/v1` EventLists.
//!
//! The answer to a creation bears a sealed annotation that names the reservation it made. The audit event of the
//! request carries this annotation, together with the outcome of the request. If the request failed, the object will
//! never exist, and its reservation is released at once instead of when it expires.
//!
//! A reservation is released only if the request has certainly failed. Only creations are considered: each has a uid of
//! its own, so no other request relies on the same reservation. After a server error or a timeout the object may be
//! stored nevertheless, so the reservation stays.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use quota_core::{
    decide,
    event::{Actor, Sequence},
};
use quota_semantics::{Name, Span, Timestamp, uid::Uid};
use quota_service::health::Health;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Hook, USER_BYTES_MAX, actor, is_json, not_json};
use crate::{
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, AuditEvent},
    now,
    problem::{Problem, Reason},
    server::body::whole_body,
    writer::{DecisionContext, Unavailable},
};

/// The path that receives audit events.
pub(crate) const ROUTE: &str = quota_client::AUDIT;

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
        let items = items(&body).map_err(|why| Problem::new(Reason::Malformed, why))?;
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

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "EventList";

/// How a request to the Kubernetes API ended: the used fields of an item of an `EventList`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow)]
    user: User<'a>,
    #[serde(borrow)]
    object_ref: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    response_status: Option<Status<'a>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User<'a> {
    #[serde(borrow)]
    username: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectRef<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    code: u16,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

impl Event<'_> {
    /// The values of the annotations of this name, from any webhook.
    fn annotations_named(&self, name: &str) -> impl Iterator<Item = &str> {
        let all = self.annotations.iter().flatten();
        all.filter(move |(key, _)| key.rsplit('/').next() == Some(name)).map(|(_, value)| &**value)
    }

    fn namespace(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.namespace)
    }

    /// The user on whose behalf the request was made.
    fn user(&self) -> &str {
        &self.user.username
    }

    /// The status code of the response; 0 if absent.
    fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }

    /// Whether the event reports the end of the creation of an object.
    fn is_over(&self) -> bool {
        self.stage == "ResponseComplete" && self.verb == "create"
    }

    /// Whether the request was refused, so that nothing was stored. After a server error or a timeout the object may
    /// have been stored.
    fn has_certainly_failed(&self) -> bool {
        matches!(self.code(), 400..=499) && !matches!(self.code(), 408 | 499)
    }

    /// Whether the API server's own quota plugin refused the request, in the words of Kubernetes. A webhook's refusal
    /// may have the same words, but begins with the webhook's name.
    fn is_refused_by_plugin(&self) -> bool {
        const WORDS: [&str; 3] =
            ["exceeded quota: ", "failed quota: ", "insufficient quota to consume: "];
        let message = self.response_status.as_ref().map_or("", |status| &status.message);
        let (object, words) = message.split_once(" is forbidden: ").unwrap_or_default();
        let is_of_webhook = object.starts_with("admission webhook ");
        self.code() == 403 && !is_of_webhook && WORDS.iter().any(|begin| words.starts_with(begin))
    }
}

/// Splits a list into its events without reading them; or says what is wrong with the list.
fn items(body: &[u8]) -> Result<Vec<&RawValue>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        #[serde(default, borrow)]
        api_version: Cow<'a, str>,
        #[serde(default, borrow)]
        kind: Cow<'a, str>,
        #[serde(default, borrow)]
        items: Vec<&'a RawValue>,
    }
    let list: List<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("cannot read the audit events: {error}"))?;
    if list.kind != KIND || list.api_version != API_VERSION {
        let List { api_version, kind, .. } = list;
        return Err(format!(
            "only {KIND} of {API_VERSION} is taken, not {kind:?} of {api_version:?}"
        ));
    }
    Ok(list.items)
}

/// How long after its last denial the plugin is reported.
const REPORTED_FOR: Span = Span::from_seconds(3600);

/// Shortest interval between two log lines.
const LOGGED_EVERY: Span = Span::from_seconds(600);

/// The API server's own quota plugin, as seen in its audit events: its denials, and the quotas that it shares.
///
/// The plugin decides after the webhook, on its own usage numbers, which lag behind. Where both enforce the same limit,
/// the plugin refuses requests that the webhook has admitted, and neither limit can be used up.
#[derive(Default)]
pub(in crate::admission) struct Plugin(Mutex<PluginState>);

#[derive(Default)]
struct PluginState {
    /// Adopted quotas, which the plugin enforces as well.
    shared: usize,
    /// Denials by the plugin since the start.
    denials: Denials,
}

#[derive(Default)]
struct Denials {
    count: u64,
    last: Option<Timestamp>,
    logged: Option<Timestamp>,
}

impl Plugin {
    /// Records that the plugin has denied a creation that the webhooks had admitted before.
    fn denied(&self, now: Timestamp, namespace: &str) {
        metrics::plugin_denied();
        let denials = &mut self.0.lock().denials;
        denials.count += 1;
        denials.last = Some(now);
        let is_logged = denials.logged.is_some_and(|time| now.since(time) < LOGGED_EVERY);
        if !is_logged {
            denials.logged = Some(now);
            let count = denials.count;
            tracing::warn!(
                namespace,
                count,
                "the API server's own quota plugin refuses what the webhook admits: docs/webhook.md says how to avoid that"
            );
        }
    }

    /// Records how many adopted quotas the plugin enforces as well.
    fn shares(&self, quotas: usize) {
        metrics::quotas_enforced_twice(quotas);
        let before = std::mem::replace(&mut self.0.lock().shared, quotas);
        if before == 0 && quotas > 0 {
            tracing::warn!(
                quotas,
                "adopted quotas are enforced by the API server's own quota plugin as well, unless it is off \
                 (quotas.plugin_is_off): docs/webhook.md says what follows"
            );
        }
    }

    fn health(&self, now: Timestamp) -> Health {
        let state = self.0.lock();
        let Denials { count, last, .. } = state.denials;
        match (last, state.shared) {
            (Some(last), _) if now.since(last) < REPORTED_FOR => Health::Lagging(format!(
                "the API server's own quota plugin has refused {count} creations that the webhook admits, the last one {}s ago",
                now.since(last).nanoseconds() / 1_000_000_000,
            )),
            (_, 0) => Health::Passed,
            (_, shared) => Health::Lagging(format!(
                "{shared} adopted quotas are enforced by the API server's own quota plugin as well, unless it is off (quotas.plugin_is_off)"
            )),
        }
    }
}

/// A reservation that the creation of an object made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Hold {
    pub(in crate::admission) namespace: Name,
    pub(in crate::admission) uid: Uid,
    /// The entry that granted it.
    pub(in crate::admission) entry: Sequence,
}

/// Authenticates annotations that name reservations, by a MAC that no other party can forge. The key is made anew at
/// each start, so annotations of an earlier process are not accepted.
pub(in crate::admission) struct AnnotationKey([u8; 32]);

impl AnnotationKey {
    /// A random key.
    pub(in crate::admission) fn new() -> Self {
        let mut key = [0; 32];
        let (left, right) = key.split_at_mut(16);
        left.copy_from_slice(Uuid::new_v4().as_bytes());
        right.copy_from_slice(Uuid::new_v4().as_bytes());
        Self(key)
    }

    /// Writes the annotation: entry, MAC, namespace, uid. The uid comes last, since it may hold any character.
    pub(in crate::admission) fn close(&self, hold: &Hold) -> String {
        let Hold { namespace, uid, entry } = hold;
        let text = format!("{namespace} {uid}");
        let mac = self.mac(*entry, &text);
        format!("{entry} {} {text}", mac.to_hex())
    }

    /// Reads an annotation; none if this process did not write it.
    pub(in crate::admission) fn open(&self, annotation: &str) -> Option<Hold> {
        let (entry, rest) = annotation.split_once(' ')?;
        let (mac, text) = rest.split_once(' ')?;
        let (namespace, uid) = text.split_once(' ')?;
        let entry = entry.parse().ok()?;
        let mac = blake3::Hash::from_hex(mac).ok()?;
        // Compared in constant time.
        (mac == self.mac(entry, text)).then_some(Hold {
            namespace: namespace.into(),
            uid: Uid::new(uid).ok()?,
            entry,
        })
    }

    fn mac(&self, entry: Sequence, text: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.0, format!("{entry} {text}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_denials_are_reported_for_an_hour() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let plugin = Plugin::default();
        assert_eq!(plugin.health(at(0)), Health::Passed);
        plugin.denied(at(10), "team-a");
        plugin.denied(at(20), "team-a");
        let Health::Lagging(why) = plugin.health(at(50)) else {
            panic!("it is not reported");
        };
        assert!(why.contains("refused 2 creations") && why.contains(" 30s ago"), "{why}");
        assert_eq!(plugin.health(at(3620)), Health::Passed);
    }

    #[test]
    fn quotas_that_it_has_as_well_are_reported_until_there_are_none() {
        let plugin = Plugin::default();
        plugin.shares(2);
        let health = plugin.health(Timestamp::EPOCH);
        assert!(matches!(&health, Health::Lagging(why) if why.starts_with("2 adopted quotas")));
        plugin.denied(Timestamp::EPOCH, "team-a");
        let health = plugin.health(Timestamp::EPOCH);
        assert!(matches!(&health, Health::Lagging(why) if why.contains("refused 1 creations")));
        let later = Timestamp::EPOCH.plus(REPORTED_FOR);
        assert!(matches!(plugin.health(later), Health::Lagging(_)));
        plugin.shares(0);
        assert_eq!(plugin.health(later), Health::Passed);
    }

    #[test]
    fn only_what_was_sealed_here_can_be_opened() {
        let key = AnnotationKey::new();
        let hold = Hold {
            namespace: "team-a".into(),
            uid: Uid::new("e6ac1374-d5f5-43cf-87af-714fdd58dd3d").unwrap(),
            entry: 17,
        };
        let annotation = key.close(&hold);
        assert_eq!(key.open(&annotation), Some(hold.clone()));
        assert_eq!(AnnotationKey::new().open(&annotation), None);
        for place in 0..annotation.len() {
            let mut other = annotation.clone().into_bytes();
            other[place] = if other[place] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(key.open(&other), None, "{other}");
        }
        assert_eq!(key.open(""), None);
        assert_eq!(key.open("17 x team-a u"), None);
    }
}
