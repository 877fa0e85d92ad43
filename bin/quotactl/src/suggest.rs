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
    figures::limit_name,
    group,
    output::{Format, note},
    report::full_time,
    session::Session,
    simulate::days,
    table::Table,
    unit::{Units, alone},
};

/// Shows suggested limits, or the manifests that set them.
pub(crate) fn run(session: &Session, args: &Suggest) -> Outcome {
    let (from, to) = args.period.resolve(age::now(), Some(days(30)))?;
    let mut address = Address::of(["v1", "suggestions"])
        .with("from", from)
        .with("to", to)
        .with("percentile", args.percentile)
        .with("headroom", args.headroom);
    match (&args.selector, session.scope.listed()) {
        (Some(selector), _) => address = address.with("labelSelector", selector),
        (None, Some(namespace)) => address = address.with("namespace", namespace),
        (None, None) => {}
    }
    let answer = session.client.get::<Suggestions>(&address)?;
    let suggestions = &answer.content.items;
    if suggestions.is_empty() {
        session.note_empty();
    }
    if matches!(session.output.format, Format::Yaml) {
        return manifests(session, suggestions);
    }
    session.output.answer(
        &answer.json,
        || {
            suggestions
                .iter()
                .map(|it| match it.kind {
                    LimitKind::ResourceQuota => format!("resourcequota/{}", it.name),
                    LimitKind::ClusterResourceQuota => format!("{}/{}", group::KIND, it.name),
                })
                .collect()
        },
        |_| table(suggestions),
    )?;
    if session.output.is_table() {
        for (resource, amount) in given_back(suggestions) {
            let amount = alone(resource, &amount);
            note(format!("{amount} of {resource} could be given back"));
        }
    }
    Ok(())
}

/// Prints the manifest of each quota and group, with the suggested limits.
fn manifests(session: &Session, suggestions: &[Suggestion]) -> Outcome {
    let mut limits: BTreeMap<(Option<&Name>, &Name), Vec<&Suggestion>> = BTreeMap::new();
    for suggestion in suggestions {
        let place = (suggestion.namespace.as_ref(), &suggestion.name);
        limits.entry(place).or_default().push(suggestion);
    }
    for ((namespace, name), suggestions) in limits {
        let path = match namespace {
            Some(namespace) => vec!["api", "v1", "namespaces", namespace, "resourcequotas", name],
            None => vec![
                "apis",
                "quota.openshift.io",
                "v1",
                "clusterresourcequotas",
                name,
            ],
        };
        let mut manifest = session.client.get_json(&Address::of(path))?;
        let hard = match namespace {
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
        session.output.value(&as_written(manifest))?;
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
    let units = Units::of(suggestions.iter().map(|it| (&*it.resource, &it.hard)));
    for it in suggestions {
        let amount = |amount: &Quantity| units.show(&it.resource, amount);
        let change = it.suggested.as_ref().map(|suggested| {
            let mut change = suggested.clone();
            change.sub_assign(&it.hard);
            let sign = if change.is_positive() { "+" } else { "" };
            format!("{sign}{}", amount(&change))
        });
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            or_dash(it.namespace.as_ref().map(ToString::to_string)),
            limit_name(it.kind, &it.name),
            it.resource.to_string(),
            amount(&it.hard),
            amount(&it.peak),
            amount(&it.percentile),
            or_dash(it.suggested.as_ref().map(amount)),
            or_dash(change),
            full_time(&it.time_full),
            it.denials.to_string(),
            or_dash(it.full_in_seconds.map(full_in)),
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
