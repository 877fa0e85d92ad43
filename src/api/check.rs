//! Checks whether a request would fit.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use quota_client::wire::{PodsVerdict, Verdict};
use quota_core::{
    decide::{self, Checked, Fitting, Policy, Refusal, Request, Requester},
    state::{Head, State as LedgerState},
};
use quota_semantics::{Name, Timestamp, object::Traits, uid::Uid};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    App, Caller, ObjectText, Target,
    problem::Problem,
    reservations::{Operation, ReserveRequest, measured, warnings},
};
use crate::{
    auth::{Principal, requester},
    fairness::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Turn, make_sized},
    server::warn,
    writer::{DecisionContext, For},
};

/// What is checked.
struct Question {
    request: Request,
    /// A pod of a workload, and the number of pods that it runs at once.
    pods: Option<(Request, u64)>,
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
        let request = body.request(app, namespace, crate::now(), fresh())?;
        // A workload that is charged for its pods counts for them itself.
        let is_charged = matches!(request.footprint.traits, Traits::Template { .. });
        let pods = body.object().filter(|_| !is_charged).and_then(Pods::of);
        let pods = pods.map(|Pods { pod, replicas }| {
            let pod = ReserveRequest::of_object(&pod);
            let pod = pod.request(app, namespace, crate::now(), fresh())?;
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
        let by = requester(&actor, &principal, &namespace);
        let amounts = app.ledger.peek(|state| question.amounts(state));
        let (decided, head) = if amounts <= AMOUNTS_AT_ONCE {
            let decided = |state: &LedgerState| {
                let now = crate::now().max(state.head().time);
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
    let (as_of, lagging) = (super::as_of(head), app.lags());
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
            let mut response = super::large(
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
            super::large(
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

/// The pods that a workload runs at once.
pub(super) struct Pods {
    /// A pod, as made from the template of the workload.
    pub(super) pod: Box<RawValue>,
    pub(super) replicas: u64,
}

/// The fields of all workloads that say what pods they run.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Workload<'a> {
    kind: &'a str,
    api_version: &'a str,
    #[serde(borrow)]
    spec: Option<Spec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    replicas: Option<u64>,
    parallelism: Option<u64>,
    completions: Option<u64>,
    #[serde(borrow)]
    template: Option<Template<'a>>,
    #[serde(borrow)]
    job_template: Option<JobTemplate<'a>>,
}

#[derive(Deserialize)]
struct JobTemplate<'a> {
    #[serde(borrow, default)]
    spec: Option<Box<Spec<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template<'a> {
    #[serde(borrow)]
    metadata: Option<TemplateMetadata<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: &'a RawValue,
}

#[derive(serde::Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
}

impl Pods {
    /// The pods of a Deployment, ReplicaSet, StatefulSet, ReplicationController, Job or CronJob; none for other objects,
    /// and for what cannot be read.
    pub(super) fn of(object: &str) -> Option<Self> {
        let workload: Workload<'_> = serde_json::from_str(object).ok()?;
        let group = workload.api_version.split_once('/').map_or("", |(group, _)| group);
        let spec = workload.spec?;
        let (spec, replicas) = match (group, workload.kind) {
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("", "ReplicationController") => {
                let replicas = spec.replicas.unwrap_or(1);
                (spec, replicas)
            }
            ("batch", "Job") => at_once(spec),
            ("batch", "CronJob") => at_once(*spec.job_template?.spec?),
            _ => return None,
        };
        let template = spec.template?;
        let pod = Pod {
            api_version: "v1",
            kind: "Pod",
            metadata: Metadata { labels: template.metadata.unwrap_or_default().labels },
            spec: template.spec?,
        };
        Some(Self { pod: to_raw_value(&pod).ok()?, replicas })
    }
}

/// The pods that a job runs at once: no more than it has to complete.
fn at_once(spec: Spec<'_>) -> (Spec<'_>, u64) {
    let parallelism = spec.parallelism.unwrap_or(1);
    let most = spec.completions.map_or(parallelism, |count| parallelism.min(count));
    (spec, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(object: &str) -> Option<u64> {
        Pods::of(object).map(|pods| pods.replicas)
    }

    #[test]
    fn each_kind_of_workload_says_how_many_pods_it_runs_at_once() {
        let template =
            r#""template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}"#;
        for (kind, fields, expected) in [
            ("apps/v1/Deployment", r#""replicas":3,"#, Some(3)),
            ("apps/v1/StatefulSet", "", Some(1)),
            ("v1/ReplicationController", r#""replicas":null,"#, Some(1)),
            ("batch/v1/Job", r#""parallelism":4,"completions":2,"#, Some(2)),
            ("batch/v1/Job", r#""parallelism":4,"#, Some(4)),
            ("apps/v1/DaemonSet", "", None),
            ("example.com/v1/Deployment", "", None),
        ] {
            let (version, kind) = kind.rsplit_once('/').unwrap();
            let object = format!(
                r#"{{"apiVersion":"{version}","kind":"{kind}","spec":{{{fields}{template}}}}}"#
            );
            assert_eq!(replicas(&object), expected, "{object}");
        }
        let pod = Pods::of(&format!(
            r#"{{"apiVersion":"batch/v1","kind":"CronJob","spec":{{"jobTemplate":{{"spec":{{{template}}}}}}}}}"#
        ));
        assert_eq!(
            pod.unwrap().pod.get(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}"#
        );
        for other in ["{}", "[]", r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#] {
            assert_eq!(replicas(other), None);
        }
    }
}
