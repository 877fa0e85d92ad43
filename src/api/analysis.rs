//! Answers about a period: what was consumed, limits that fit it, and what other limits would have done.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, header};
use quota_client::wire::{Denial, LimitKind, LimitName};
use quota_core::{
    decide::Refusal,
    event::{Entry, Event, NamespaceRecord},
    simulate::{self, Candidates, Outcome, PastDenial, Subject},
    state,
    suggest::{Denials as DenialCounts, LimitOf, Suggesting, Suggestion, Wish},
    time::{
        Names, Period,
        report::{By, Denied, Entries, Question, Report, shown},
    },
};
use quota_ledger::period::Fold;
use quota_semantics::{
    Name, Timestamp,
    candidate::{Candidate, CandidateError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    App, Caller, JsonText, Params,
    problem::{FieldProblem, Problem, Reason, at_most},
};
use crate::{
    auth::{Principal, Reader, Role},
    denials::{Denials, Query, StoredDenial},
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    history::{Question as SimulationQuestion, Unsimulated},
    label_selector::LabelSelector,
    metrics::{self, AuthRefusal},
    render::labels_of,
};

/// Selects the period and the rows of a report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReportQuery {
    from: Timestamp,
    to: Option<Timestamp>,
    by: Option<String>,
    /// Names, separated by commas.
    namespace: Option<String>,
    group: Option<String>,
    label_selector: Option<String>,
    /// Names, separated by commas.
    resource: Option<String>,
}

/// `GET /v1/report?from=TIME&to=TIME&by=namespace|group|label:KEY|kind|workload`
pub(super) async fn report(
    State(app): State<App>,
    Caller(actor): Caller,
    caller: Principal,
    headers: HeaderMap,
    Params(query): Params<ReportQuery>,
) -> Result<Response, Problem> {
    let as_csv = wants_csv(&headers);
    let period = query.period(crate::now())?;
    let asked = query.asked(&caller)?;
    let names = asked.names.clone();
    let groups: Vec<Name> = asked.group.iter().cloned().collect();
    let (kept, since) = denials(&app, period, &caller).await;
    let begin = move |state: &state::State| {
        let known = Known::of(state, &names, &groups);
        let report = Report::begin(asked.question(period, caller), denied(&kept), state);
        Following { known, report }
    };
    let make = move |following: Following, state: &state::State, entries: Entries, turn: &Turn| {
        let Following { mut known, report } = following;
        known.look(state);
        known.complain()?;
        turn.pause();
        let report = shown(period, entries, since, report.rows(state));
        turn.pause();
        Ok(match as_csv {
            true => csv(report.to_csv(|| turn.pause())),
            false => super::large(turn, &report),
        })
    };
    let permit = Permit::of_past(&actor.principal);
    app.past.period(&permit, period, begin, make).await?
}

/// Whether the caller prefers CSV to JSON.
fn wants_csv(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut types = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|part| part.split(';').next().unwrap_or_default().trim());
    types.find(|name| matches!(*name, "text/csv" | "application/json" | "*/*")) == Some("text/csv")
}

fn csv(text: String) -> Response {
    let content_type = HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

/// The kept denials of a period that the caller may read, and the time of the oldest kept one of all.
async fn denials(
    app: &App,
    period: Period,
    caller: &Principal,
) -> (Vec<StoredDenial>, Option<Timestamp>) {
    let Some(denials) = app.ledger.denials() else {
        return (Vec::new(), None);
    };
    let all = Query { limit: usize::MAX, ..Query::default() };
    let mut kept = denials.list(all).await;
    let since = kept.iter().map(|denial| denial.time).min();
    kept.retain(|denial| {
        denial.time >= period.from
            && denial.time < period.to
            && caller.may(Role::Read, &denial.namespace)
    });
    (kept, since)
}

/// What these denials were about, in the order of their sequences. There may be many.
fn denied(kept: &[StoredDenial]) -> Vec<Denied> {
    let parsed = kept.iter().filter_map(|stored| {
        let denial: Denial = serde_json::from_str(stored.json.get()).ok()?;
        Some(Denied {
            sequence: stored.sequence,
            namespace: stored.namespace.clone(),
            resource: Name::from(&*denial.object.resource),
            requested: denial.object.requested,
        })
    });
    let mut denied: Vec<Denied> = parsed.collect();
    denied.sort_by_key(|denied| denied.sequence);
    denied
}

/// What a query asks for, apart from the period.
struct Asked {
    by: By,
    /// Only these namespaces; empty: all.
    names: BTreeSet<Name>,
    group: Option<Name>,
    labels: LabelSelector,
    resources: Option<BTreeSet<Name>>,
}

impl ReportQuery {
    fn period(&self, now: Timestamp) -> Result<Period, Problem> {
        let to = self.to.map_or(now, |to| to.min(now));
        if self.from >= to {
            let detail = "from is not before to, or in the future";
            return Err(Problem::new(Reason::Malformed, detail));
        }
        Ok(Period { from: self.from, to })
    }

    fn asked(&self, caller: &Principal) -> Result<Asked, Problem> {
        let by = self.by.as_deref().unwrap_or("namespace");
        let wrong = |why: String| Problem::from(FieldProblem::invalid("by", by, &why));
        let parsed = by.parse().map_err(wrong)?;
        let names = listed(self.namespace.as_deref());
        let group = self.group.as_deref().filter(|group| !group.is_empty());
        for name in &names {
            if !caller.may(Role::Read, name) {
                return Err(forbidden(caller, Some(name)));
            }
        }
        // Groups count namespaces that the caller may not read.
        let is_of_all = parsed == By::Group || group.is_some();
        if is_of_all && !caller.may_everywhere(Role::Read) {
            return Err(forbidden(caller, None));
        }
        let labels = self.label_selector.as_deref().unwrap_or_default();
        let labels =
            LabelSelector::parse(labels).map_err(|why| Problem::new(Reason::Malformed, why))?;
        let resources = listed(self.resource.as_deref());
        Ok(Asked {
            by: parsed,
            names,
            group: group.map(Name::from),
            labels,
            resources: (!resources.is_empty()).then_some(resources),
        })
    }
}

fn listed(text: Option<&str>) -> BTreeSet<Name> {
    let names = text.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(Name::from).collect()
}

fn forbidden(caller: &Principal, namespace: Option<&str>) -> Problem {
    metrics::auth_refused(AuthRefusal::Namespace);
    Problem::new(Reason::Forbidden, caller.lacks(&[Role::Read], namespace))
}

impl Asked {
    fn question(self, period: Period, caller: Principal) -> Question {
        let Self { by, names, group, labels, resources } = self;
        let of_groups = group.clone();
        let namespaces = move |name: &str, record: Option<&NamespaceRecord>| {
            let is_named = names.is_empty() || names.contains(name);
            let matches = || labels.is_empty() || labels.matches(&labels_of(name, record));
            is_named && caller.may(Role::Read, name) && matches()
        };
        Question {
            period,
            by,
            namespaces: Box::new(namespaces),
            groups: Box::new(move |name| of_groups.as_ref().is_none_or(|only| **only == *name)),
            member_of: group,
            resources,
        }
    }
}

/// Whether the named namespaces and groups are in the ledger, at the beginning of the period, at its end, or between.
struct Known {
    missing: Vec<Name>,
    missing_groups: Vec<Name>,
}

impl Known {
    fn of(state: &state::State, names: &BTreeSet<Name>, groups: &[Name]) -> Self {
        let mut known =
            Self { missing: names.iter().cloned().collect(), missing_groups: groups.to_vec() };
        known.look(state);
        known
    }

    fn look(&mut self, state: &state::State) {
        self.missing.retain(|name| !state.has_namespace(name));
        self.missing_groups.retain(|name| state.group_record(name).is_none());
    }

    fn complain(&self) -> Result<(), Problem> {
        let (kind, name) = match (self.missing.first(), self.missing_groups.first()) {
            (Some(name), _) => ("namespace", name),
            (None, Some(name)) => ("group", name),
            (None, None) => return Ok(()),
        };
        let detail = format!("{kind} {name} not found in this period");
        Err(Problem::new(Reason::NotFound, detail))
    }
}

/// A report, and whether what it names exists.
struct Following {
    known: Known,
    report: Report,
}

impl Fold for Following {
    fn before(&mut self, state: &state::State, entry: &Entry) {
        self.report.before(state, entry);
        if let Some(name) = entry.event.namespace() {
            self.known.missing.retain(|missing| missing != name);
        }
        if let Event::GroupSet(group) = &entry.event {
            self.known.missing_groups.retain(|missing| *missing != group.name);
        }
    }

    fn after(&mut self, state: &state::State) {
        self.report.after(state);
    }
}

// Limits that fit what was taken in a period.

/// The largest headroom, in percent.
const HEADROOM_MAX: u32 = 1000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SuggestQuery {
    from: Timestamp,
    to: Option<Timestamp>,
    percentile: Option<f64>,
    headroom: Option<u32>,
    namespace: Option<Name>,
    label_selector: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    from: Timestamp,
    to: Timestamp,
    items: Vec<Suggestion>,
}

/// `GET /v1/suggestions`
pub(super) async fn suggest(
    State(app): State<App>,
    Caller(actor): Caller,
    reader: Reader,
    Params(query): Params<SuggestQuery>,
) -> Result<Response, Problem> {
    let (period, wish) = (super::period(query.from, query.to)?, query.wish()?);
    let namespace = query.namespace.clone().filter(|name| !name.is_empty());
    let labelled = match &query.label_selector {
        Some(text) => {
            let selector = LabelSelector::parse(text);
            let selector =
                selector.map_err(|why| FieldProblem::invalid("labelSelector", text, &why))?;
            Some(app.ledger.read(|state| labelled(state, &selector)).await?)
        }
        None => None,
    };
    // Numbers of a group are those of all its members.
    let of_groups = labelled.is_none() && reader.reads_all();
    let only = namespace.clone();
    let denials = count_denials(&app, &reader, period).await;
    let begin = move |state: &state::State| {
        let namespaces: Names = Box::new(move |name| {
            reader.reads(name)
                && namespace.as_ref().is_none_or(|only| **only == *name)
                && labelled.as_ref().is_none_or(|names| names.contains(name))
        });
        Suggesting::begin(state, period, wish, namespaces)
    };
    let make = move |suggesting: Suggesting, state: &state::State, _: Entries, turn: &Turn| {
        let Period { from, to } = period;
        let counting = only.map(|namespace| state.groups_of(&namespace));
        let is_shown = |group: &Name| {
            of_groups && counting.as_ref().is_none_or(|counting| counting.contains(group))
        };
        let items = suggesting.finish(state, &denials, is_shown);
        super::large(turn, &Answer { from, to, items })
    };
    let permit = Permit::of_past(&actor.principal);
    let answered = app.past.period(&permit, period, begin, make).await;
    answered.map_err(|error| error.offline("suggest").into())
}

impl SuggestQuery {
    fn wish(&self) -> Result<Wish, Problem> {
        let percentile = self.percentile.unwrap_or(100.0);
        if !(0.0..=100.0).contains(&percentile) {
            let why = "it must be from 0 to 100";
            return Err(FieldProblem::invalid("percentile", &percentile.to_string(), why).into());
        }
        let headroom = self.headroom.unwrap_or(20);
        if headroom > HEADROOM_MAX {
            let why = format!("it must be at most {HEADROOM_MAX}");
            return Err(FieldProblem::invalid("headroom", &headroom.to_string(), &why).into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to 10,000"
        )]
        let percentile = (percentile * 100.0).round() as u16;
        Ok(Wish { percentile, headroom })
    }
}

/// The namespaces whose labels match.
fn labelled(state: &state::State, selector: &LabelSelector) -> BTreeSet<Name> {
    let matches = |name: &&Name| {
        selector.matches(&labels_of(name, state.namespace_record(name).map(|it| &**it)))
    };
    state.namespaces("").filter(matches).cloned().collect()
}

/// How many remembered denials of the period each limit has caused.
async fn count_denials(app: &App, reader: &Reader, period: Period) -> DenialCounts {
    let mut counts = DenialCounts::new();
    let Some(denials) = app.ledger.denials() else {
        return counts;
    };
    let query = Query { reader: reader.clone(), limit: usize::MAX, ..Query::default() };
    let kept = denials.list(query).await;
    let of_period =
        kept.iter().filter(|denial| period.from <= denial.time && denial.time < period.to);
    for denial in of_period {
        let Ok(denial) = serde_json::from_str::<Denial>(denial.json.get()) else {
            continue;
        };
        for quota in &denial.quotas {
            let is_quota = quota.kind == LimitKind::ResourceQuota;
            for limit in &quota.resources {
                if limit.is_exceeded() {
                    let of = LimitOf {
                        namespace: is_quota.then(|| denial.namespace.clone()),
                        name: quota.name.clone(),
                    };
                    *counts.entry((of, limit.resource.clone())).or_default() += 1;
                }
            }
        }
    }
    counts
}

// What other limits would have done to the recorded past.

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
struct AskedSimulation {
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
    let AskedSimulation { from, to, candidates, fields } = asked;
    let permit = Permit::of_past(&actor.principal);
    let question =
        SimulationQuestion { from, to, candidates, denials, bounds: app.ledger.policy().groups };
    let make = move |simulated: Result<Outcome, Unsimulated>, turn: &Turn| {
        let mut outcome = simulated.map_err(|unsimulated| refused(unsimulated, &fields))?;
        outcome.denials_since = since;
        Ok(super::large(turn, &outcome))
    };
    app.past.simulate(&permit, question, make).await?
}

fn read(principal: &Principal, text: &JsonText) -> Result<AskedSimulation, Problem> {
    let body: Body<'_> = text.read()?;
    let Period { from, to } = super::period(body.from, body.to)?;
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
    Ok(AskedSimulation { from, to, candidates, fields })
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
async fn remembered(
    denials: &Denials,
    asked: &AskedSimulation,
) -> (Vec<PastDenial>, Option<Timestamp>) {
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
