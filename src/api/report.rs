//! Reports: what was consumed in a period.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, header};
use quota_client::wire::Denial;
use quota_core::{
    event::{Entry, Event, NamespaceRecord},
    state,
    time::{
        Period,
        report::{By, Denied, Entries, Question, Report, shown},
    },
};
use quota_ledger::period::Fold;
use quota_semantics::{Name, Timestamp};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    page::Params,
    problem::{FieldProblem, Problem, Reason},
};
use crate::{
    auth::{Principal, Role},
    clock,
    denials::{Query, StoredDenial},
    fairness::{Permit, Turn},
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
    let period = query.period(clock::now())?;
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
        let report = shown(period, entries, since, report.finish(state));
        turn.pause();
        Ok(match as_csv {
            true => csv(report.to_csv(|| turn.pause())),
            false => answer::large(turn, &report),
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
