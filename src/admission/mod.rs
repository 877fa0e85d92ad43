//! The admission webhook: `POST /admit` speaks `admission.k8s.io/v1` with a kube-apiserver.
//!
//! Reads the parts of a review that matter to quotas, has the writer decide, and answers with the same uid. A request
//! that does not count (deletions, status, ignored kinds, namespaces without quotas) is allowed without a call to the
//! writer.
//!
//! A review that is too large or cannot be parsed, or for which other requests leave no memory, cannot be decided. It
//! is denied wherever quotas limit anything: an error would let it pass wherever the webhook's `failurePolicy` is
//! `Ignore`, and the author of the review controls its content. Only a body without a readable review uid is answered
//! with an error.
//!
//! When no decision is possible (the ledger lags behind its sources, its queue is full, the deadline has passed), the
//! answer is 503 without `Retry-After`: the API server then applies the webhook's `failurePolicy` at once instead of
//! calling again.

mod answer;
pub mod audit;
mod request;
mod skeleton;
mod wire;

#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, HttpBody as _},
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, request::Parts};
use http_body_util::BodyExt as _;
use quota_core::{
    decide::{self, Refusal, Requester, Review},
    event::{Actor, Sequence},
};
use quota_semantics::{
    Name,
    admission::Charging,
    object::{GroupResource, Object},
};
use serde::Deserialize;

use answer::{pass, respond, undecidable};
use audit::{AnnotationKey, Hold, Plugin};
use request::{DecisionRequest, Fault};
use skeleton::Skeleton;

use crate::{
    auth::{self, Access::Role, Principal, Role::Reserve, Scope::Everywhere, refuse_foreign_page},
    config::Period,
    intake::Sources,
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, Decision, Operation},
    now,
    problem::{self, Problem, Reason},
    routes::{BodyLimit, Route, post},
    server::{
        body::{is_not_kept, not_arrived},
        guard::media_type,
    },
    writer::{DecisionContext, For, Ledger, Unavailable},
};

/// The path that receives reviews.
pub(crate) const ROUTE: &str = quota_client::ADMIT;

/// Largest review that is decided. An API server accepts objects of 3 MiB, and the review of an update holds two.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest review that is answered. An object of 3 MiB in the API server's own encoding can take six times that as
/// JSON.
pub const ANSWERED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Undecided reviews that are logged per second.
static UNDECIDED: LogLimiter = LogLimiter::new(10);

/// Subtracted from the API server's timeout, so that the answer arrives in time. Of a short timeout, half is
/// subtracted.
const MARGIN: Duration = Duration::from_millis(250);

/// Longer user names are cut in entries.
const USER_BYTES_MAX: usize = 512;

/// The operator's settings for the webhook.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The workloads that are charged for their pods.
    pub charging: Charging,
    /// The share of a limit from which on an admitted request gets a warning.
    pub warn_ratio: f64,
    /// Decide on the current state even if the ledger has not caught up with the sources.
    pub allow_when_behind: bool,
    /// The longest time to answer a review.
    pub request_timeout: Duration,
}

/// The webhook. Cheap to clone.
#[derive(Clone)]
pub struct Hook(Arc<Shared>);

struct Shared {
    ledger: Ledger,
    sources: Arc<dyn Sources>,
    rules: Rules,
    annotation_key: AnnotationKey,
    plugin: Plugin,
}

impl Hook {
    /// A webhook that decides by these rules.
    pub fn new(ledger: Ledger, sources: Arc<dyn Sources>, rules: Rules) -> Self {
        Self(Arc::new(Shared {
            ledger,
            sources,
            rules,
            annotation_key: AnnotationKey::new(),
            plugin: Plugin::default(),
        }))
    }
}

/// The webhook's routes.
pub fn routes() -> Vec<Route<Hook>> {
    let routes = [
        // A review names its namespace in the body, and one API server sends those of all namespaces.
        post(ROUTE, Role(&[Reserve], Everywhere), admit)
            .body(BodyLimit::Fixed {
                kept: BODY_BYTES_MAX as u64,
                dropped: (ANSWERED_BYTES_MAX - BODY_BYTES_MAX) as u64,
            })
            .without_retry_after()
            .idempotent()
            .about("an AdmissionReview with the decision ([webhook](webhook.md))"),
        // Audit events can release reservations that `/admit` has made, and nothing else.
        post(audit::ROUTE, Role(&[Reserve], Everywhere), audit::audit)
            .body(BodyLimit::Fixed { kept: BODY_BYTES_MAX as u64, dropped: 0 })
            .about("how many reservations of failed requests were given back"),
    ];
    // No web page is an API server.
    routes.map(|route| route.checked(refuse_foreign_page)).into()
}

#[derive(Deserialize)]
struct Parameters {
    timeout: Option<String>,
}

async fn admit(State(hook): State<Hook>, request: Request) -> Response {
    let parameters: Parameters = match problem::query(request.uri()) {
        Ok(parameters) => parameters,
        Err(why) => return Problem::new(Reason::Malformed, why).into_response(),
    };
    let began = Instant::now();
    let deadline = began + hook.time_for(parameters.timeout.as_deref());
    let answered = tokio::time::timeout_at(deadline.into(), hook.answer(request, deadline));
    let answer = answered.await.unwrap_or_else(|_| Err(late()));
    metrics::decision_duration(Operation::Admit, began.elapsed());
    answer.unwrap_or_else(|problem| undecided(&problem))
}

/// The body is not sent as JSON. Pages of other origins cannot send JSON without a CORS preflight.
fn not_json() -> Problem {
    let detail = "reviews and audit events are sent as application/json";
    Problem::new(Reason::UnsupportedMediaType, detail)
}

/// The deadline has passed.
fn late() -> Problem {
    metrics::limit_reached(metrics::Limit::RequestTimeout);
    Problem::new(Reason::Timeout, "there was no time left to decide")
}

/// The response to a review that was not decided.
fn undecided(problem: &Problem) -> Response {
    let (reason, detail) = (problem.reason(), problem.detail());
    metrics::decisions(Decision::Error, Some(reason));
    log_undecided(reason, detail);
    Problem::new(reason, shortened(detail)).into_response()
}

fn log_undecided(reason: Reason, detail: &str) {
    if let Some(held_back) = UNDECIDED.pass() {
        let (reason, detail) = (reason.as_str(), shortened(detail));
        tracing::warn!(reason, detail, held_back, "an admission review was not decided");
    }
}

/// The writer's decision on a review.
struct Decided {
    outcome: Result<decide::Decision, Refusal>,
    /// The ledger's sequence after the entries of the decision.
    sequence: Sequence,
    /// The reservation for an object that is created.
    hold: Option<Hold>,
}

impl Hook {
    fn time_for(&self, requested: Option<&str>) -> Duration {
        let most = self.0.rules.request_timeout;
        let requested = requested.and_then(|text| text.parse::<Period>().ok());
        let time = requested.map_or(most, |requested| requested.get().min(most));
        time - MARGIN.min(time / 2)
    }

    async fn answer(&self, request: Request, deadline: Instant) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(not_json());
        }
        let (body, not_kept) = gather(body).await?;
        let understood = match not_kept {
            None => self.understand(&body),
            Some(fault) => Err(fault),
        };
        let (review, question) = match understood {
            Ok((review, None)) => return Ok(pass(&review)),
            Ok((review, Some(question))) => (review, question),
            Err(fault) => return self.undecidable(&body, fault).await,
        };
        let behind = self.is_behind()?;
        let actor = actor(&parts, review.user())?;
        let DecisionRequest { review: admission, name } = *question;
        let decided = self.decide(&actor, admission, deadline).await?;
        let Shared { rules, annotation_key, .. } = &*self.0;
        Ok(respond(&review, &name, behind, &decided, rules, annotation_key))
    }

    /// The review, and the decision that it needs.
    fn understand<'a>(
        &self,
        body: &'a [u8],
    ) -> Result<(wire::Request<'a>, Option<Box<DecisionRequest>>), Fault> {
        let review = wire::read(body)?;
        let question = request::of(&review, &self.0.rules.charging, now())?;
        Ok((review, question))
    }

    /// Whether the ledger has not caught up with the sources and decides nevertheless.
    fn is_behind(&self) -> Result<bool, Problem> {
        let behind = !self.0.sources.are_caught_up();
        match behind && !self.0.rules.allow_when_behind {
            true => {
                let behind = "the sources of events have not been caught up with";
                Err(Problem::new(Reason::NotReady, behind))
            }
            false => Ok(behind),
        }
    }

    /// The answer to a review that cannot be decided, as far as the request is readable.
    async fn undecidable(&self, body: &[u8], fault: Fault) -> Result<Response, Problem> {
        let Some(unread) = wire::head(body) else {
            return Err(Problem::new(Reason::Malformed, fault.detail));
        };
        let review = unread.request;
        if let Some(field) = unread.repeated {
            let detail = format!("the field {field} occurs twice in the review");
            return Ok(denied_as(&review, &detail.into()));
        }
        if request::is_none_of_ours(&review, &self.0.rules.charging) {
            return Ok(pass(&review));
        }
        // A denial is right whether or not the state is recent. An error would not be: `Ignore` would let the object in.
        if !review.namespace.is_empty() && !self.has_limits(&review.namespace) {
            self.is_behind()?;
            if self.unlimited(&review.namespace).await?.is_some() {
                return Ok(pass(&review));
            }
        }
        Ok(denied_as(&review, &fault))
    }

    /// Whether the state as it is now, which may be old, has limits that apply to a namespace.
    fn has_limits(&self, namespace: &str) -> bool {
        let ledger = &self.0.ledger;
        ledger.peek(|state| !decide::is_unlimited(state, namespace, ledger.policy()))
    }

    /// The ledger's sequence if nothing limits a namespace: then a review needs no decision. It is certain that no other
    /// node can have set a limit before.
    async fn unlimited(&self, namespace: &str) -> Result<Option<Sequence>, Problem> {
        // The writer confirms its own decisions. So only a state without limits has to be confirmed here.
        if self.has_limits(namespace) {
            return Ok(None);
        }
        let ledger = &self.0.ledger;
        let read = ledger.read(|state| {
            let is_unlimited = decide::is_unlimited(state, namespace, ledger.policy());
            (is_unlimited, state.head().sequence)
        });
        let (unlimited, sequence) = read.await?;
        match ledger.decides() {
            true => Ok(unlimited.then_some(sequence)),
            // The state of a follower may be old.
            false => Err(Unavailable::NotLeader.into()),
        }
    }

    async fn decide(
        &self,
        actor: &Arc<Actor>,
        review: Review,
        deadline: Instant,
    ) -> Result<Decided, Problem> {
        let ledger = &self.0.ledger;
        if let Some(sequence) = self.unlimited(&review.request.namespace).await? {
            return Ok(Decided { outcome: Ok(decide::Decision::default()), sequence, hold: None });
        }
        let actor = actor.clone();
        let denials = ledger.denials().cloned();
        let decision = move |context: &mut DecisionContext<'_>, review: &Review| {
            // The caller no longer waits, so no reservation shall be made for it.
            if Instant::now() >= deadline {
                return None;
            }
            let DecisionContext { transaction, policy, .. } = context;
            // The webhook's reservations belong to the webhook alone, whatever other rights its principal has.
            let by = Requester::holder(actor.principal.clone());
            let outcome = transaction.admit(&actor, &by, review, policy);
            let head = transaction.state().head();
            if let (Err(refusal), Some(denials)) = (&outcome, &denials) {
                denials.note(&actor, &review.request, refusal, head);
            }
            // Only the first answer bears the MAC of a reservation.
            let entry = outcome.as_ref().ok().and_then(|admitted| admitted.revocable);
            let hold = entry.map(|entry| Hold {
                namespace: review.request.namespace.clone(),
                uid: review.request.uid.clone(),
                entry,
            });
            Some(Decided { outcome, sequence: head.sequence, hold })
        };
        let decided = ledger.decide_about(For::System, Arc::new(review), decision);
        decided.await?.ok_or_else(late)
    }
}

/// Denies a review that cannot be decided.
fn denied_as(review: &wire::Request<'_>, fault: &Fault) -> Response {
    metrics::decisions(Decision::Denied, Some(fault.reason));
    log_undecided(fault.reason, &fault.detail);
    undecidable(review, fault)
}

/// Reads the body. Of a body above [`BODY_BYTES_MAX`], and of one for which other bodies leave no room, only the
/// skeleton is kept; then also why.
async fn gather(mut body: Body) -> Result<(Vec<u8>, Option<Fault>), Problem> {
    let too_large = || Fault::too_large("the review", BODY_BYTES_MAX);
    let (mut whole, mut skeleton) = (Vec::new(), Skeleton::default());
    let mut not_kept = (body.size_hint().lower() > BODY_BYTES_MAX as u64).then(too_large);
    while let Some(frame) = body.frame().await {
        let bytes = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if is_not_kept(&error) => {
                metrics::limit_reached(metrics::Limit::BodiesBytes);
                not_kept = Some(Fault::no_room());
                Bytes::new()
            }
            // The listener answers a body that arrives too slowly or is far too large.
            Err(error) => return Err(not_arrived(&error)),
        };
        if not_kept.is_none() && whole.len() + bytes.len() > BODY_BYTES_MAX {
            not_kept = Some(too_large());
        }
        if not_kept.is_none() {
            whole.extend_from_slice(&bytes);
            continue;
        }
        skeleton.push(&std::mem::take(&mut whole));
        skeleton.push(&bytes);
    }
    Ok(match not_kept {
        None => (whole, None),
        Some(fault) => (skeleton.into_json(), Some(fault)),
    })
}

/// Reads a review and its object into the types that `/admit` decides on, without a decision. A benchmark measures this
/// as the lower bound.
///
/// # Errors
/// Says what is wrong with the review.
#[doc(hidden)]
pub fn read_review(body: &[u8], charging: &Charging) -> Result<Object, String> {
    let review = wire::read(body)?;
    let kind = GroupResource::new(&review.resource.group, &review.resource.resource);
    let object = review.object.ok_or("the review's request has no object")?;
    let object = charging.read_parts(&kind, object.parts());
    object.map_err(|error| error.to_string())
}

/// The API server, and the user on whose behalf it acts.
fn actor(parts: &Parts, user: &str) -> Result<Arc<Actor>, Problem> {
    let sender = auth::actor(&parts.headers, Principal::actor_of(&parts.extensions))
        .map_err(|problem| Problem::new(Reason::Malformed, problem.detail()))?;
    let user = Name::from(cut(user, USER_BYTES_MAX));
    Ok(Arc::new(Actor { user: Some(user).filter(|user| !user.is_empty()), ..(*sender).clone() }))
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers) == "application/json"
}
