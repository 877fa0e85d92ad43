//! Limits that fit what was taken in a period.

use std::collections::BTreeSet;

use axum::{extract::State, response::Response};
use quota_client::wire::{Denial, LimitKind};
use quota_core::{
    state,
    suggest::{Denials, LimitOf, Suggesting, Suggestion, Wish},
    time::{Names, Period, report::Entries},
};
use quota_semantics::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    App, Caller, answer,
    page::Params,
    past,
    problem::{FieldProblem, Problem},
};
use crate::{
    auth::Reader,
    denials::Query,
    fairness::{Permit, Turn},
    label_selector::LabelSelector,
    render::labels_of,
};

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
    let (period, wish) = (past::period(query.from, query.to)?, query.wish()?);
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
    let denials = denials(&app, &reader, period).await;
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
        answer::large(turn, &Answer { from, to, items })
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
async fn denials(app: &App, reader: &Reader, period: Period) -> Denials {
    let mut counts = Denials::new();
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
