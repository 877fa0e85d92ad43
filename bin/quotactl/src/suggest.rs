//! `suggest`: limits that fit what was taken in a period.

use std::collections::BTreeMap;

use quota_client::{
    http::Address,
    wire::{LimitKind, Suggestion, Suggestions},
};
use quota_semantics::{Name, quantity::Quantity};
use serde_json::Value;

use super::{
    age,
    args::Suggest,
    failure::Outcome,
    output::{Format, Output, note},
    session::Session,
    simulate::{days, limit_name},
    table::Table,
};

/// Shows suggested limits, or the manifests that set them.
pub(crate) fn run(session: &Session, wish: &Suggest, selector: Option<&str>) -> Outcome {
    let (from, to) = wish.period.resolve(age::now(), Some(days(30)))?;
    let mut address = Address::of(["v1", "suggestions"])
        .with("from", from)
        .with("to", to)
        .with("percentile", wish.percentile)
        .with("headroom", wish.headroom);
    match (selector, session.scope.listed()) {
        (Some(selector), _) => address = address.with("labelSelector", selector),
        (None, Some(namespace)) => address = address.with("namespace", namespace),
        (None, None) => {}
    }
    let answer = session.client.get::<Suggestions>(&address)?;
    if answer.content.items.is_empty() {
        session.note_empty();
    }
    show(&session.output, &answer.content, &answer.json, |limit| {
        let path = match &limit.namespace {
            Some(namespace) => vec![
                "api",
                "v1",
                "namespaces",
                namespace,
                "resourcequotas",
                &limit.name,
            ],
            None => vec![
                "apis",
                "quota.openshift.io",
                "v1",
                "clusterresourcequotas",
                &limit.name,
            ],
        };
        session.client.get_json(&Address::of(path))
    })
}

/// Prints suggestions, or their manifests: `manifest` gives that of a quota or group as it is.
pub(crate) fn show(
    output: &Output,
    suggestions: &Suggestions,
    json: &Value,
    manifest: impl Fn(&Suggestion) -> Outcome<Value>,
) -> Outcome {
    let suggestions = &suggestions.items;
    if matches!(output.format, Format::Yaml) {
        return manifests(output, suggestions, manifest);
    }
    output.answer(
        json,
        || {
            suggestions
                .iter()
                .map(|it| limit_name(it.kind, &it.name))
                .collect()
        },
        |_| table(suggestions),
    )?;
    if output.is_table() {
        for (resource, amount) in given_back(suggestions) {
            note(format!("{amount} of {resource} could be given back"));
        }
    }
    Ok(())
}

/// Prints the manifest of each quota and group, with the suggested limits.
fn manifests(
    output: &Output,
    suggestions: &[Suggestion],
    manifest: impl Fn(&Suggestion) -> Outcome<Value>,
) -> Outcome {
    // They are sorted by quota and group.
    let of_one =
        |a: &Suggestion, b: &Suggestion| (&a.namespace, &a.name) == (&b.namespace, &b.name);
    for suggestions in suggestions.chunk_by(of_one) {
        let [first, ..] = suggestions else { continue };
        let mut manifest = manifest(first)?;
        let hard = match &first.namespace {
            Some(_) => "/spec/hard",
            None => "/spec/quota/hard",
        };
        for suggestion in suggestions {
            let limit = manifest
                .pointer_mut(hard)
                .and_then(|hard| hard.get_mut(&*suggestion.resource));
            if let (Some(limit), Some(suggested)) = (limit, &suggestion.suggested) {
                *limit = suggested.to_string().into();
            }
        }
        output.value(&as_written(manifest))?;
    }
    Ok(())
}

/// A manifest without what the store has assigned.
fn as_written(mut manifest: Value) -> Value {
    if let Some(fields) = manifest.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(field);
        }
    }
    manifest
}

/// How much less the suggested limits are, by resource.
fn given_back(suggestions: &[Suggestion]) -> BTreeMap<&Name, Quantity> {
    let mut sums: BTreeMap<&Name, Quantity> = BTreeMap::new();
    // What a group gives back its namespaces may give back, too.
    let quotas = suggestions
        .iter()
        .filter(|it| it.kind == LimitKind::ResourceQuota);
    for suggestion in quotas {
        let Some(suggested) = &suggestion.suggested else {
            continue;
        };
        let mut less = suggestion.hard.clone();
        less.sub_assign(suggested);
        if less.is_positive() {
            sums.entry(&suggestion.resource)
                .or_default()
                .add_assign(&less);
        }
    }
    sums
}

fn table(suggestions: &[Suggestion]) -> Table {
    let mut table = Table::new(&[
        "NAMESPACE",
        "LIMIT",
        "RESOURCE",
        ">HARD",
        ">PEAK",
        ">PERCENTILE",
        ">SUGGESTED",
        ">CHANGE",
        ">TIME FULL",
        ">DENIALS",
        ">FULL IN",
    ]);
    for it in suggestions {
        let change = it.suggested.as_ref().map(|suggested| {
            let mut change = suggested.clone();
            change.sub_assign(&it.hard);
            match change.is_positive() {
                true => format!("+{change}"),
                false => change.to_string(),
            }
        });
        let text = |amount: &Quantity| amount.to_string();
        table.row([
            it.namespace.as_deref().unwrap_or_default().to_owned(),
            limit_name(it.kind, &it.name),
            it.resource.to_string(),
            text(&it.hard),
            text(&it.peak),
            text(&it.percentile),
            it.suggested.as_ref().map(text).unwrap_or_default(),
            change.unwrap_or_default(),
            it.time_full.clone(),
            it.denials.to_string(),
            it.full_in_seconds.map(full_in).unwrap_or_default(),
        ]);
    }
    table
}

/// A time until a limit is reached.
pub(crate) fn full_in(seconds: u64) -> String {
    match seconds {
        0 => "now".to_owned(),
        seconds if seconds >= 2 * 86_400 => format!("{}d", seconds / 86_400),
        seconds => format!("{}h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_away_is_told_in_days() {
        let shown = [0, 60, 86_400, 172_800, 3_000_000].map(full_in);
        assert_eq!(shown, ["now", "1h", "24h", "2d", "34d"]);
    }
}
