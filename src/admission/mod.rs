//! The admission webhook: `POST /admit` speaks `admission.k8s.io/v1` with a kube-apiserver.
//!
//! A review is read as far as quotas go, decided by the writer, and answered with the same uid. What does not count
//! (deletions, status, kinds that are ignored, namespaces without quotas) is allowed without asking the writer.
//!
//! When there can be no decision (the ledger is behind, its queue is full, time is up) the answer is 503 without
//! `Retry-After`: the API server then goes by the webhook's `failurePolicy` at once, instead of calling again.

mod answer;
mod question;
mod wire;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Query, Request, State},
    response::Response,
    routing::post,
};
use http::{HeaderMap, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use quota_core::{
    decide::{self, Admitted, Policy, Refusal, Review},
    event::{Actor, Sequence},
};
use quota_semantics::{Name, admission::Charging};
use serde::Deserialize;

use self::{
    answer::Standing,
    question::{Asked, Question},
};
use crate::{
    api,
    auth::Principal,
    config::Period,
    metrics::{self, Decision, Operation},
    reason::Reason,
    server::problem,
    writer::{Ledger, Sitting, Unavailable, now},
};

/// Where reviews are posted to.
pub const ROUTE: &str = "/admit";

/// Largest review. An API server takes objects of 3 MiB, and a review of an update holds two.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Kept back of the time that the API server gives, so that the answer arrives in it. Of short times, half.
const MARGIN: Duration = Duration::from_millis(250);

/// Longer names of users are cut in entries.
const USER_BYTES_MAX: usize = 512;

/// What the operator has set for the webhook.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The rules of all decisions: the same that the writer has.
    pub policy: Policy,
    /// The workloads that are charged for their pods.
    pub charging: Charging,
    /// The share of a limit from which on an admitted request is warned about.
    pub warn_ratio: f64,
    /// Decide on what is known while the sources have not been caught up with.
    pub allow_when_behind: bool,
    /// The longest time that an answer may take.
    pub request_timeout: Duration,
}

/// The webhook. Cheap to clone.
#[derive(Clone)]
pub struct Hook(Arc<Shared>);

struct Shared {
    ledger: Ledger,
    rules: Rules,
}

impl Hook {
    /// A webhook that decides by these rules.
    #[must_use]
    pub fn new(ledger: Ledger, rules: Rules) -> Self {
        Self(Arc::new(Shared { ledger, rules }))
    }
}

/// The webhook's only path. Its bodies need a bound of [`BODY_BYTES_MAX`].
pub fn router(hook: Hook) -> Router {
    Router::new().route(ROUTE, post(admit)).with_state(hook)
}

#[derive(Deserialize)]
struct Parameters {
    timeout: Option<String>,
}

async fn admit(
    State(hook): State<Hook>,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Response {
    let began = Instant::now();
    let deadline = began + hook.time_for(parameters.timeout.as_deref());
    let answered = tokio::time::timeout_at(deadline.into(), hook.answer(request, deadline));
    let answer = answered.await.unwrap_or(Err(Failure::Late));
    metrics::decision_duration(Operation::Admit, began.elapsed());
    answer.unwrap_or_else(Failure::response)
}

/// Why a review gets no decision.
enum Failure {
    /// It cannot be read, or is none.
    Malformed(String),
    /// It is not sent as JSON. Pages of other origins cannot send JSON without being asked first.
    NotJson,
    /// The sources have not been caught up with.
    Behind,
    /// The ledger does not answer.
    Unavailable(Unavailable),
    /// There is no time left.
    Late,
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl Failure {
    /// Never with `Retry-After`.
    fn response(self) -> Response {
        let behind = "the sources of events have not been caught up with";
        let late = "there was no time left to decide";
        let not_json = "a review is sent as application/json";
        let (reason, detail) = match self {
            Self::Malformed(detail) => (Reason::Malformed, detail),
            Self::NotJson => (Reason::UnsupportedMediaType, not_json.to_owned()),
            Self::Behind => (Reason::NotReady, behind.to_owned()),
            Self::Late => {
                metrics::limit_reached(metrics::Limit::RequestTimeout);
                (Reason::Timeout, late.to_owned())
            }
            Self::Unavailable(unavailable) => (unavailable.into(), unavailable.to_string()),
        };
        metrics::decisions(Decision::Error, Some(reason));
        tracing::warn!(
            reason = reason.as_str(),
            detail,
            "an admission review was not decided"
        );
        problem(reason, &detail)
    }
}

/// What the writer made of a review.
struct Decided {
    outcome: Result<Admitted, Refusal>,
    /// Where the ledger stood, with the entries of the decision.
    sequence: Sequence,
}

impl Hook {
    fn time_for(&self, asked: Option<&str>) -> Duration {
        let most = self.0.rules.request_timeout;
        let asked = asked.and_then(|text| text.parse::<Period>().ok());
        let time = asked.map_or(most, |asked| asked.get().min(most));
        time - MARGIN.min(time / 2)
    }

    async fn answer(&self, request: Request, deadline: Instant) -> Result<Response, Failure> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(Failure::NotJson);
        }
        // Of one that is too large or too slow, the listener tells.
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::Malformed(error.to_string()))?;
        let body = body.to_bytes();
        let review = wire::read(&body).map_err(Failure::Malformed)?;
        let question = question::of(&review, &self.0.rules.charging, now());
        let asked = match question.map_err(Failure::Malformed)? {
            Question::None => return Ok(answer::pass(&review)),
            Question::Asked(asked) => asked,
        };
        let behind = !self.0.ledger.watermark().is_known();
        if behind && !self.0.rules.allow_when_behind {
            return Err(Failure::Behind);
        }
        let actor = actor(&parts, review.user())?;
        let Asked { review: wish, name } = *asked;
        let standing = Standing { behind, name };
        let decided = self.decide(&actor, wish, deadline).await?;
        Ok(answer::decided(&review, &decided, &standing, &self.0.rules))
    }

    async fn decide(
        &self,
        actor: &Arc<Actor>,
        review: Review,
        deadline: Instant,
    ) -> Result<Decided, Failure> {
        let Shared { ledger, rules } = &*self.0;
        let (unlimited, sequence) = ledger.peek(|state| {
            let namespace = &review.request.namespace;
            let unlimited = decide::is_unlimited(state, namespace, &rules.policy);
            (unlimited, state.head().sequence)
        });
        if unlimited {
            ledger.wait_durable(sequence).await?;
            let outcome = Ok(Admitted::default());
            return Ok(Decided { outcome, sequence });
        }
        let actor = actor.clone();
        let denials = ledger.denials().cloned();
        let decision = move |sitting: &mut Sitting<'_>| {
            // Nobody waits any more: nothing shall be held for it.
            if Instant::now() >= deadline {
                return None;
            }
            let Sitting { desk, policy, .. } = sitting;
            let outcome = decide::admit(desk.state(), desk.now(), &review, policy);
            let events = outcome.as_ref().map(|admitted| admitted.events.clone());
            if let (Err(refusal), Some(denials)) = (&outcome, &denials) {
                denials.note(&actor, &review.request, refusal, desk.state().head());
            }
            let sequence = desk.record(&actor, events.unwrap_or_default());
            Some(Decided { outcome, sequence })
        };
        ledger.decide(decision).await?.ok_or(Failure::Late)
    }
}

/// The API server, and on whose behalf it acts.
fn actor(parts: &Parts, user: &str) -> Result<Arc<Actor>, Failure> {
    let caller = api::actor(&parts.headers, Principal::actor_of(&parts.extensions))
        .map_err(|problem| Failure::Malformed(problem.detail().to_owned()))?;
    let user = Name::from(cut(user, USER_BYTES_MAX));
    Ok(Arc::new(Actor {
        user: Some(user).filter(|user| !user.is_empty()),
        ..(*caller).clone()
    }))
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
