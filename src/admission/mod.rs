//! The admission webhook: `POST /admit` speaks `admission.k8s.io/v1` with a kube-apiserver.
//!
//! Reads the parts of a review that matter to quotas, has the writer decide, and answers with the same uid. A request
//! that does not count (deletions, status, ignored kinds, namespaces without quotas) is allowed without a call to the
//! writer.
//!
//! A review that is too large or cannot be parsed, or for which other requests leave no memory, cannot be decided. It is
//! denied wherever quotas limit anything: an
//! error would let it pass wherever the webhook's `failurePolicy` is `Ignore`, and the author of the review controls
//! its content. Only a body without a readable review uid is answered with an error.
//!
//! When no decision is possible (the ledger lags behind its sources, its queue is full, the deadline has passed), the
//! answer is 503 without `Retry-After`: the API server then applies the webhook's `failurePolicy` at once instead of
//! calling again.

pub mod audit;
mod request;
mod skeleton;
mod wire;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, HttpBody as _},
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, header, request::Parts};
use http_body_util::BodyExt as _;
use quota_core::{
    decide::{self, Audience, Refusal, Requester, Review},
    event::{Actor, Sequence},
};
use quota_semantics::{
    Name,
    admission::{Charging, CheckedLimit, CheckedQuota, wrap_forbidden},
    object::{GroupResource, Object},
    syntax::MAX_SUBDOMAIN,
};
use serde::Deserialize;

use audit::{AnnotationKey, Hold, Plugin};
use request::{DecisionRequest, Fault};
use skeleton::Skeleton;
use wire::{Answer, Details, Status};

use crate::{
    auth::{self, Access::Role, Principal, Role::Reserve, Scope::Everywhere, refuse_foreign_page},
    config::Period,
    denials,
    intake::Sources,
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, Decision, Operation},
    now,
    problem::{self, Problem, Reason, of_refusal},
    routes::{BodyLimit, Route, post},
    server::{
        body::{is_not_kept, not_arrived},
        bounded,
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
        // The digest is computed here, not on the decider thread, which all other jobs wait for; the review is freed
        // here, too.
        if review.holds {
            review.request.digest();
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

// Turns a decision into the response to a review.

/// Longest message of a denial, in bytes. With it, with bounded warnings and with bounded annotations an answer is a
/// small body, for which there is always room: a decision must not become an error.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// Longest list of quotas, and of messages, in an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 4096;

/// Denials that are logged in a second.
static DENIED: LogLimiter = LogLimiter::new(10);

/// Allows a request that does not count against quotas.
fn pass(request: &wire::Request<'_>) -> Response {
    send(&Answer {
        uid: &request.uid,
        allowed: true,
        status: None,
        warnings: Vec::new(),
        audit_annotations: BTreeMap::new(),
    })
}

/// The answer to a review that cannot be decided: denied, whatever the webhook's `failurePolicy`.
fn undecidable(request: &wire::Request<'_>, fault: &Fault) -> Response {
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
fn respond(
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
