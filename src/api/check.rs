//! Checks whether a request would fit.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use quota_client::wire::{PodsVerdict, Verdict};
use quota_core::{
    decide::{self, Checked, FingerprintedRequest, Fitting, Policy, Refusal, Requester},
    state::{Head, State as LedgerState},
};
use quota_semantics::{Name, Timestamp, object::Traits, uid::Uid};

use super::{
    App, Caller, answer,
    body::ObjectText,
    caller,
    measure::{Operation, measured},
    page::Target,
    problem::Problem,
    reservations::warnings,
    reserve_request::ReserveRequest,
    workload::Pods,
};
use crate::{
    auth::Principal,
    clock,
    fairness::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Turn, make_sized},
    server::warn,
    writer::{DecisionContext, For},
};

/// What is checked.
struct Question {
    request: FingerprintedRequest,
    /// A pod of a workload, and the number of pods that it runs at once.
    pods: Option<(FingerprintedRequest, u64)>,
}

/// The decision on a question.
struct Decided {
    checked: Result<Checked, Refusal>,
    pods: Option<(u64, Fitting)>,
}

impl Question {
    fn read(app: &App, namespace: &Name, text: &ObjectText) -> Result<Self, Problem> {
        // A hypothetical object has no uid.
        let fresh = || Some(Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()));
        let text = text.to_json()?;
        let body = text.read::<ReserveRequest<'_>>()?;
        let request = body.request(app, namespace, clock::now(), fresh())?;
        // A workload that is charged for its pods counts for them itself.
        let is_charged = matches!(request.footprint.traits, Traits::Template { .. });
        let pods = body.object().filter(|_| !is_charged).and_then(Pods::of);
        let pods = pods.map(|Pods { pod, replicas }| {
            let pod = ReserveRequest::of_object(&pod);
            let pod = pod.request(app, namespace, clock::now(), fresh())?;
            Ok::<_, Problem>((pod, replicas))
        });
        Ok(Self { request, pods: pods.transpose()? })
    }

    /// How many amounts the check compares.
    fn amounts(&self, state: &LedgerState) -> usize {
        let pods = self.pods.as_ref().map_or(0, |(pod, replicas)| {
            let steps = (u64::BITS - replicas.leading_zeros()) as usize;
            decide::amounts_to_check(state, pod) * (1 + steps)
        });
        decide::amounts_to_check(state, &self.request) + pods
    }

    fn decide(
        &self,
        state: &LedgerState,
        now: Timestamp,
        by: &Requester,
        policy: &Policy,
    ) -> Decided {
        let pods = self.pods.as_ref().map(|(pod, replicas)| {
            let fitting = decide::fitting(state, now, by, pod, *replicas, policy);
            (*replicas, fitting)
        });
        Decided { checked: decide::check(state, now, by, &self.request, policy), pods }
    }
}

/// `POST /v1/namespaces/{namespace}/check`: writes nothing.
pub(super) async fn check(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    text: ObjectText,
) -> Response {
    let checked = measured(Operation::Check, async {
        let (reading, place) = (app.clone(), namespace.clone());
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let read = move |_: &Turn| Question::read(&reading, &place, &text);
        let question = make_sized(&actor.principal, amounts, read).await??;
        let by = caller::by(&actor, &principal, &namespace);
        let amounts = app.ledger.peek(|state| question.amounts(state));
        let (decided, head) = if amounts <= AMOUNTS_AT_ONCE {
            let decided = |state: &LedgerState| {
                let now = clock::now().max(state.head().time);
                let decided = question.decide(state, now, &by, app.ledger.policy());
                (decided, state.head())
            };
            app.ledger.read(decided).await?
        } else {
            // Beside many limits a check takes as long as a reservation, and is paid for as one.
            let decided = move |context: &mut DecisionContext<'_>, question: &Question| {
                let (state, now) = (context.transaction.state(), context.transaction.now());
                let decided = question.decide(state, now, &by, context.policy);
                (decided, state.head())
            };
            let (ledger, question) = (&app.ledger, Arc::new(question));
            let decided = ledger.decide_about(For::Always(&actor.principal), question, decided);
            decided.await?
        };
        let checked = decided.checked.map(|checked| {
            let warnings = warnings(&namespace, &checked.notices, &checked.warn_of);
            (checked, warnings)
        });
        Ok((checked, decided.pods, head))
    });
    match checked.await {
        Ok((checked, pods, head)) => {
            let amounts = amounts_of(&checked);
            let make = move |turn: &Turn| respond(turn, &app, checked, pods, head);
            let made = make_sized(&actor.principal, amounts, make).await;
            made.unwrap_or_else(Problem::into_response)
        }
        Err(problem) => problem.into_response(),
    }
}

/// How many amounts the verdict lists.
fn amounts_of(checked: &Result<(Checked, Vec<String>), Refusal>) -> usize {
    let quotas = match checked {
        Ok((checked, _)) => &checked.quotas,
        Err(Refusal::Denied(denied)) => &denied.quotas,
        Err(_) => return 1,
    };
    quotas.iter().map(|quota| 1 + quota.resources.len()).sum()
}

fn respond(
    turn: &Turn,
    app: &App,
    checked: Result<(Checked, Vec<String>), Refusal>,
    pods: Option<(u64, Fitting)>,
    head: Head,
) -> Response {
    let (as_of, lagging) = (answer::as_of(head), app.lags());
    let pods = pods.map(|(replicas, Fitting { fit, refusal })| {
        let problem = refusal.map(Problem::from);
        (replicas, fit, problem)
    });
    let pods = pods.as_ref().map(|(replicas, fit, problem)| PodsVerdict {
        replicas: *replicas,
        fit: *fit,
        reason: problem.as_ref().map(|problem| Cow::Borrowed(problem.reason().as_str())),
        detail: problem.as_ref().map(|problem| Cow::Borrowed(problem.detail())),
        quotas: Cow::Borrowed(problem.as_ref().and_then(Problem::quotas).unwrap_or(&[])),
    });
    match checked {
        Ok((checked, warnings)) => {
            let mut response = answer::large(
                turn,
                &Verdict {
                    fits: true,
                    reason: None,
                    detail: None,
                    quotas: Cow::Borrowed(&checked.quotas),
                    unlimited: Cow::Borrowed(&checked.unlimited),
                    warnings: Cow::Borrowed(&warnings),
                    retry_after: None,
                    pods,
                    as_of,
                    lagging,
                },
            );
            warn(response.headers_mut(), &warnings);
            response
        }
        Err(refusal) => {
            let problem = Problem::from(refusal);
            let Some(quotas) = problem.quotas() else {
                return problem.as_of(head).into_response();
            };
            answer::large(
                turn,
                &Verdict {
                    fits: false,
                    reason: Some(Cow::Borrowed(problem.reason().as_str())),
                    detail: Some(Cow::Borrowed(problem.detail())),
                    quotas: Cow::Borrowed(quotas),
                    unlimited: Cow::Borrowed(&[]),
                    warnings: Cow::Borrowed(&[]),
                    retry_after: problem.retry_after(),
                    pods,
                    as_of,
                    lagging,
                },
            )
        }
    }
}
