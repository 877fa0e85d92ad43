//! `top`: the fullest namespaces or limits.

use std::cmp::Reverse;

use quota_client::http::Address;
use quota_client::wire::{NamespacePage, NamespaceUsage, Suggestion, Suggestions, Usage};
use serde_json::Value;

use super::{
    age,
    args::{Top, TopOrder},
    client::read,
    failure::Outcome,
    figures::{fullest, limit_name, percent, units_of},
    output::note,
    session::Session,
    simulate::days,
    simulate::full_in,
    table::Table,
    unit::Units,
};

/// The width of a bar, in characters.
const BAR: usize = 10;

/// Shows the fullest namespaces, or the fullest limits of one.
pub(crate) fn run(session: &Session, args: &Top) -> Outcome {
    match session.scope.filter() {
        None => namespaces(session, args),
        Some(namespace) => limits(session, namespace, args),
    }
}

/// Whether a share is at least the minimum.
fn is_enough(share: f64, args: &Top) -> bool {
    args.min.is_none_or(|min| share * 100.0 >= min)
}

fn share_of(usage: &NamespaceUsage) -> Option<f64> {
    let fullest = usage.fullest.as_ref()?;
    Some(fullest.share.unwrap_or(f64::INFINITY))
}

fn namespaces(session: &Session, args: &Top) -> Outcome {
    let address = Address::of(["v1", "usage"]);
    let address = args.when.added_to(address.with_some("labelSelector", args.selector.as_ref()));
    // The daemon sorts by fullness.
    let limit = (args.sort == TopOrder::Use).then_some(args.limit);
    let mut json = session.client.list_json(&address, limit)?;
    let page: NamespacePage = read(&json)?;
    let total = page.total;
    session.note_lag(page.lagging);
    let is_wanted = |usage: &NamespaceUsage| match share_of(usage) {
        Some(share) => is_enough(share, args),
        None => args.all && args.min.is_none(),
    };
    let mut found: Vec<_> = page.items.into_iter().zip(items_of(&json)).collect();
    found.retain(|(usage, _)| is_wanted(usage));
    match args.sort {
        TopOrder::Use => {}
        TopOrder::Name => found.sort_by(|(a, _), (b, _)| a.namespace.cmp(&b.namespace)),
        TopOrder::Pending => found.sort_by_key(|(usage, _)| Reverse(usage.reservations)),
    }
    found.truncate(args.limit);
    let (found, items): (Vec<NamespaceUsage>, Vec<Value>) = found.into_iter().unzip();
    json["items"] = items.into();
    if found.is_empty() {
        note("No resources found");
    } else if found.len() < total && !session.output.is_structured() {
        note(format!("{} of {total} namespaces", found.len()));
    }
    let name = |usage: &NamespaceUsage| format!("namespace/{}", usage.namespace);
    session.output.answer(
        &json,
        || found.iter().map(name).collect(),
        |_| {
            let mut table = Table::new(&[
                "NAMESPACE",
                ">USE%",
                "?",
                "FULLEST",
                ">USED",
                "?>RESERVED",
                ">HARD",
                ">AVAILABLE",
                "?>PENDING",
            ]);
            let limits = found.iter().filter_map(|usage| usage.fullest.as_ref());
            let units = Units::of(limits.map(|limit| (&*limit.resource, &limit.hard)));
            for usage in &found {
                table.row(namespace_row(usage, units));
            }
            table
        },
    )
}

fn namespace_row(usage: &NamespaceUsage, units: Units) -> [String; 9] {
    let pending = usage.reservations.to_string();
    let namespace = usage.namespace.to_string();
    let none = || "-".to_owned();
    let Some(fullest) = &usage.fullest else {
        let [a, b, c, d, e, f, g] = [(); 7].map(|()| none());
        return [namespace, a, b, c, d, e, f, g, pending];
    };
    let share = fullest.share.unwrap_or(f64::INFINITY);
    let show = |amount| units.show(&fullest.resource, amount);
    let limit = limit_name(fullest.kind, &fullest.quota);
    [
        namespace,
        percent(share),
        bar(share),
        format!("{limit}/{}", fullest.resource),
        fullest.used.as_ref().map_or_else(none, show),
        fullest.reserved.as_ref().map_or_else(none, show),
        show(&fullest.hard),
        show(&fullest.available),
        pending,
    ]
}

/// The items of a list as received.
fn items_of(json: &Value) -> Vec<Value> {
    let items = json["items"].as_array();
    items.cloned().unwrap_or_default()
}

fn limits(session: &Session, namespace: &str, args: &Top) -> Outcome {
    let address = args.when.added_to(Address::in_namespace(namespace, ["usage"]));
    let answer = session.client.get::<Usage>(&address)?;
    let usage = answer.content;
    session.note_lag(usage.lagging);
    let mut limits = fullest(&usage.quotas, &usage.room);
    if limits.is_empty() {
        session.note_empty();
    }
    let all = limits.len();
    limits.retain(|limit| is_enough(limit.share, args));
    if args.sort == TopOrder::Name {
        limits.sort_by(|a, b| (&a.limit, a.resource).cmp(&(&b.limit, b.resource)));
    }
    limits.truncate(args.limit);
    if limits.len() < all && !session.output.is_structured() {
        note(format!("{} of {all} limits", limits.len()));
    }
    let trends = match session.output.is_table() && args.when.is_now() {
        false => Vec::new(),
        true => trends(session, namespace),
    };
    session.output.answer(
        &answer.json,
        || {
            let limits = limits.iter();
            let names = limits.map(|limit| format!("{}/{}", limit.limit, limit.resource));
            names.collect()
        },
        |_| {
            let mut table = Table::new(&[
                "QUOTA",
                "RESOURCE",
                ">USE%",
                "?",
                ">USED",
                "?>RESERVED",
                ">HARD",
                ">AVAILABLE",
                ">FULL IN",
                "BOUND BY",
            ]);
            let units = units_of(&limits);
            for limit in &limits {
                let trend = trends.iter().find(|it| {
                    limit_name(it.kind, &it.name) == limit.limit && it.resource == *limit.resource
                });
                let left = trend.and_then(|it| it.full_in_seconds).map(full_in);
                let [hard, used, reserved, available] = limit.amounts(units);
                let bound_by = limit.bound_by.as_deref().unwrap_or("-");
                table.row([
                    limit.limit.clone(),
                    limit.resource.to_string(),
                    percent(limit.share),
                    bar(limit.share),
                    used,
                    reserved,
                    hard,
                    available,
                    left.unwrap_or_default(),
                    bound_by.to_owned(),
                ]);
            }
            table
        },
    )
}

/// The trends of the limits of a namespace, over a month or, if that is not kept, a week; none if the daemon cannot tell.
fn trends(session: &Session, namespace: &str) -> Vec<Suggestion> {
    let over = |count: u32| {
        let period = days(count);
        let address = Address::of(["v1", "suggestions"])
            .with("from", age::now().minus(period.span()))
            .with("namespace", namespace);
        session.client.get::<Suggestions>(&address).ok()
    };
    let answer = over(30).or_else(|| over(7));
    answer.map(|answer| answer.content.items).unwrap_or_default()
}

/// A share as a bar, which is full for shares above 1.
fn bar(share: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to the length of the bar"
    )]
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_in_their_place() {
        assert_eq!(bar(0.0), "..........");
        assert_eq!(bar(0.44), "####......");
        assert_eq!(bar(1.7), "##########");
        assert_eq!(bar(f64::INFINITY), "##########");
    }
}
