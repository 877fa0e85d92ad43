//! What other limits would have done to the recorded past.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use quota_client::wire::{Denial, LimitKind, LimitName};
use quota_core::{
    decide::Refusal,
    simulate::{self, Candidates, Outcome, PastDenial, Subject},
    time::Period,
};
use quota_semantics::{
    Name, Timestamp,
    candidate::{Candidate, CandidateError},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    App, Caller, answer,
    body::JsonText,
    past,
    problem::{FieldProblem, Problem, Reason, at_most},
};
use crate::{
    auth::{Principal, Role},
    denials::{Denials, Query},
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    history::{Question, Unsimulated},
    metrics::{self, AuthRefusal},
};

/// Most manifests and names of one question.
const LIMITS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body<'a> {
    from: Timestamp,
    to: Option<Timestamp>,
    #[serde(default, borrow)]
    quotas: Vec<&'a RawValue>,
    #[serde(default, borrow)]
    groups: Vec<&'a RawValue>,
    #[serde(default)]
    delete: Vec<LimitName>,
}

/// The question, as far as it can be checked without the past.
struct Asked {
    from: Timestamp,
    to: Timestamp,
    candidates: Candidates,
    /// Where each candidate stands in the body: quotas first, then groups.
    fields: Vec<String>,
}

/// `POST /v1/simulate`. Changes nothing.
pub(super) async fn simulate(
    State(app): State<App>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Result<Response, Problem> {
    let amounts = text.len() / BYTES_PER_AMOUNT;
    let read = move |_: &Turn| read(&principal, &text);
    let asked = make_sized(&actor.principal, amounts, read).await??;
    let (denials, since) = match app.ledger.denials() {
        Some(denials) => remembered(denials, &asked).await,
        None => (Vec::new(), None),
    };
    let Asked { from, to, candidates, fields } = asked;
    let permit = Permit::of_past(&actor.principal);
    let question = Question { from, to, candidates, denials, bounds: app.ledger.policy().groups };
    let make = move |simulated: Result<Outcome, Unsimulated>, turn: &Turn| {
        let mut outcome = simulated.map_err(|unsimulated| refused(unsimulated, &fields))?;
        outcome.denials_since = since;
        Ok(answer::large(turn, &outcome))
    };
    app.past.simulate(&permit, question, make).await?
}

fn read(principal: &Principal, text: &JsonText) -> Result<Asked, Problem> {
    let body: Body<'_> = text.read()?;
    let Period { from, to } = past::period(body.from, body.to)?;
    at_most("quotas", body.quotas.len(), LIMITS_MAX, "quotas")?;
    at_most("groups", body.groups.len(), LIMITS_MAX, "groups")?;
    at_most("delete", body.delete.len(), LIMITS_MAX, "names")?;
    let mut candidates = Candidates::default();
    let (mut fields, mut wrong) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let quotas = body.quotas.iter().enumerate();
    let quotas = quotas.map(|(index, text)| (format!("quotas[{index}]"), text, false));
    let groups = body.groups.iter().enumerate();
    let groups = groups.map(|(index, text)| (format!("groups[{index}]"), text, true));
    for (field, text, is_group) in quotas.chain(groups) {
        let candidate = match Candidate::read(text.get().as_bytes()) {
            Ok(candidate) => candidate,
            Err(error) => {
                wrong.extend(problems(&field, error));
                continue;
            }
        };
        let subject = subject(&candidate);
        if subject.namespace.is_none() != is_group {
            let why = match is_group {
                true => "it is a ResourceQuota: it belongs to quotas",
                false => "it is a ClusterResourceQuota: it belongs to groups",
            };
            wrong.push(FieldProblem::forbidden(&format!("{field}.kind"), why));
            continue;
        }
        if !seen.insert(subject.clone()) {
            let why = "it is given twice";
            let field = format!("{field}.metadata.name");
            wrong.push(FieldProblem::forbidden(&field, why));
            continue;
        }
        may_set(principal, subject.namespace.as_ref())?;
        fields.push(field);
        candidates.add(candidate);
    }
    for (index, LimitName { kind, namespace, name }) in body.delete.into_iter().enumerate() {
        let namespace = match (kind, namespace) {
            (LimitKind::ResourceQuota, None) => {
                let field = format!("delete[{index}].namespace");
                wrong.push(FieldProblem::required(&field, "a quota has one"));
                continue;
            }
            (LimitKind::ClusterResourceQuota, _) => None,
            (LimitKind::ResourceQuota, namespace) => namespace,
        };
        may_set(principal, namespace.as_ref())?;
        let subject = Subject { namespace, name };
        if !seen.insert(subject.clone()) {
            let why = "it is given twice";
            let field = format!("delete[{index}].name");
            wrong.push(FieldProblem::forbidden(&field, why));
            continue;
        }
        candidates.deleted.push(subject);
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    if seen.is_empty() {
        // The decisions of all namespaces are verified.
        may_set(principal, None)?;
    }
    Ok(Asked { from, to, candidates, fields })
}

fn subject(candidate: &Candidate) -> Subject {
    match candidate {
        Candidate::Quota { namespace, name, .. } => {
            Subject { namespace: Some(namespace.clone()), name: name.clone() }
        }
        Candidate::Group { name, .. } => Subject { namespace: None, name: name.clone() },
    }
}

/// Whoever may set a limit may simulate it: a quota in its namespace, a group everywhere.
fn may_set(principal: &Principal, namespace: Option<&Name>) -> Result<(), Problem> {
    let may = match namespace {
        Some(namespace) => principal.may(Role::Admin, namespace),
        None => principal.may_everywhere(Role::Admin),
    };
    if may {
        return Ok(());
    }
    metrics::auth_refused(AuthRefusal::Namespace);
    let needed = principal.lacks(&[Role::Admin], namespace.map(Name::as_str));
    Err(Problem::new(Reason::Forbidden, needed))
}

/// The errors of a manifest in this field of the body.
fn problems(field: &str, error: CandidateError) -> Vec<FieldProblem> {
    match error {
        CandidateError::Unreadable(why) => vec![FieldProblem::invalid(field, "", &why)],
        CandidateError::Invalid(errors) => {
            let problem = |error| {
                let problem = FieldProblem::from(error);
                FieldProblem { field: format!("{field}.{}", problem.field), ..problem }
            };
            errors.into_iter().map(problem).collect()
        }
    }
}

fn refused(unsimulated: Unsimulated, fields: &[String]) -> Problem {
    match unsimulated {
        Unsimulated::Period(simulate::Unsimulated::NotReproducible(error)) => {
            Problem::new(Reason::NotReproducible, error.to_string()).about_entry(error.sequence)
        }
        Unsimulated::Period(error @ simulate::Unsimulated::Unknown(_)) => {
            Problem::new(Reason::NotFound, error.to_string())
        }
        Unsimulated::Candidates(refused) => {
            let problems = refused.into_iter().flat_map(|(number, refusal)| {
                let field = fields.get(number).map_or("groups", String::as_str);
                let errors = match refusal {
                    Refusal::Invalid(errors) => CandidateError::Invalid(errors),
                    other => CandidateError::Unreadable(other.to_string()),
                };
                problems(field, errors)
            });
            Problem::invalid(problems.collect())
        }
    }
}

/// The remembered denials for want of room that the question is about, and since when denials are remembered.
async fn remembered(denials: &Denials, asked: &Asked) -> (Vec<PastDenial>, Option<Timestamp>) {
    let candidates = &asked.candidates;
    let deleted = candidates.deleted.iter().map(|it| it.namespace.as_ref());
    let quotas = candidates.quotas.iter().map(|it| Some(&it.namespace));
    let groups = candidates.groups.iter().map(|_| None);
    let spaces: BTreeSet<Option<&Name>> = deleted.chain(quotas).chain(groups).collect();
    let spaces: Vec<Option<Name>> = match spaces.contains(&None) {
        true => vec![None],
        false => spaces.into_iter().map(Option::<&Name>::cloned).collect(),
    };
    let mut kept = Vec::new();
    for namespace in spaces {
        let query = Query { namespace, limit: usize::MAX, ..Query::default() };
        kept.extend(denials.list(query).await);
    }
    kept.sort_unstable_by_key(|denial| denial.id);
    let since = kept.first().map(|denial| denial.time);
    let period = asked.from..=asked.to;
    let of_period = kept.iter().filter(|denial| period.contains(&denial.time));
    let past = of_period.filter_map(|denial| past_denial(&denial.json));
    (past.collect(), since)
}

fn past_denial(json: &RawValue) -> Option<PastDenial> {
    let denial: Denial = serde_json::from_str(json.get()).ok()?;
    let is_whole =
        denial.reason == Reason::ExceedsHard.as_str() && !denial.object.requested.is_empty();
    is_whole.then(|| PastDenial {
        sequence: denial.as_of.sequence,
        principal: denial.actor.principal,
        namespace: denial.namespace,
        uid: denial.object.uid,
        resource: denial.object.resource.parse().unwrap_or_default(),
        name: denial.object.name,
        requested: denial.object.requested,
    })
}
