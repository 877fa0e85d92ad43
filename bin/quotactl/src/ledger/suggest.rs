//! `ledger suggest`: limits that fit what was taken in a period, from the entries alone.

use std::ops::ControlFlow;

use quota_client::wire::Suggestions;
use quota_core::{
    event::Entry,
    state::State,
    suggest::{Denials, Suggesting, Wish},
    time::{Names, Period},
};
use quota_journal::Offline;
use quota_ledger::period;
use quota_semantics::{Name, group, quota};
use serde_json::{Value, json};

use super::{report, unfolded};
use crate::{
    age,
    args::Suggest,
    client,
    failure::{Exit, Failure, Outcome},
    output::Output,
    progress::Progress,
    session::Scope,
    simulate::{days, show_suggestions},
};

/// Suggests limits of one namespace, or of all with their groups.
pub(super) fn run(ledger: &Offline, output: &Output, scope: &Scope, args: &Suggest) -> Outcome {
    let (from, to) = args.period.resolve(age::now(), Some(days(30)))?;
    let asked = Period { from, to };
    let mut state = report::base(ledger, asked)?;
    let first = state.head().sequence.saturating_add(1);
    let progress = Progress::slowly_over("suggesting", first, ledger.last_sequence());
    let visit = |entry: &Entry| {
        progress.at(entry.sequence);
        ControlFlow::Continue(())
    };
    let only = scope.filter().map(Name::from);
    let begin = |state: &State| {
        let only = only.clone();
        let namespaces: Names =
            Box::new(move |name| only.as_ref().is_none_or(|only| **only == *name));
        Suggesting::begin(state, asked, wish(args), namespaces)
    };
    let mut batches = ledger.batches(first);
    let folded = period::fold(&mut state, &mut batches, asked, begin, visit);
    drop(progress);
    let (suggesting, _) = folded.map_err(unfolded)?;
    let counting = only.as_ref().map(|namespace| state.groups_of(namespace));
    let is_shown = |group: &Name| counting.as_ref().is_none_or(|counting| counting.contains(group));
    let items = suggesting.finish(&state, &Denials::new(), is_shown);
    let json = json!({"from": from, "to": to, "items": items});
    let suggestions: Suggestions = client::read(&json)?;
    show_suggestions(output, &suggestions, &json, only.is_none(), |limit| {
        let manifest = match &limit.namespace {
            Some(namespace) => quota_manifest(&state, namespace, &limit.name),
            None => group_manifest(&state, &limit.name),
        };
        manifest.ok_or_else(|| Failure::new(Exit::NotFound, format!("{} not found", limit.name)))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the command line has it from 0 to 100"
)]
fn wish(args: &Suggest) -> Wish {
    Wish { percentile: (args.percentile * 100.0).round() as u16, headroom: args.headroom }
}

fn quota_manifest(state: &State, namespace: &str, name: &str) -> Option<Value> {
    let (record, _) = state.quota_record(namespace, name)?;
    let mut metadata = metadata(&record.metadata);
    metadata["name"] = json!(record.name);
    metadata["namespace"] = json!(record.namespace);
    Some(json!({
        "apiVersion": "v1", "kind": quota::manifest::KIND, "metadata": metadata, "spec": record.spec,
    }))
}

fn group_manifest(state: &State, name: &str) -> Option<Value> {
    let (record, _) = state.group_record(name)?;
    let mut metadata = metadata(&record.metadata);
    metadata["name"] = json!(record.name);
    for (key, text) in record.spec.extensions.to_annotations() {
        // One that says the same in other words is stored.
        let annotation = &mut metadata["annotations"][&*key];
        if annotation.is_null() {
            *annotation = json!(text);
        }
    }
    Some(json!({
        "apiVersion": group::manifest::API_VERSION, "kind": group::manifest::KIND, "metadata": metadata,
        "spec": {"selector": record.spec.selector, "quota": record.spec.quota},
    }))
}

/// The metadata of a record, as JSON.
fn metadata(text: &str) -> Value {
    let metadata = serde_json::from_str(text).ok();
    metadata.filter(Value::is_object).unwrap_or_else(|| json!({}))
}
