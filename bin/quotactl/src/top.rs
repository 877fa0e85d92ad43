//! `top`: the fullest namespaces or limits.

use quota_client::http::Address;
use quota_client::wire::{NamespaceUsage, Page, Suggestion, Suggestions, Usage};

use super::{
    age,
    failure::Outcome,
    figures::{fullest, percent},
    output::note,
    session::Session,
    simulate::days,
    suggest::full_in,
    table::{Table, Text},
    unit::in_one_unit,
};

/// The width of a bar, in characters.
const BAR: usize = 10;

/// Shows the fullest namespaces, or the fullest limits of one.
pub(crate) fn run(session: &Session, limit: usize, all: bool) -> Outcome {
    match session.scope.filter() {
        None => namespaces(session, limit, all),
        Some(namespace) => limits(session, namespace, limit),
    }
}

fn namespaces(session: &Session, limit: usize, all: bool) -> Outcome {
    let address = Address::of(["v1", "usage"]);
    let answer = session
        .client
        .list::<Page<NamespaceUsage>>(&address, Some(limit))?;
    let mut found = answer.content.items;
    found.retain(|usage| all || usage.fullest.is_some());
    if found.is_empty() {
        note("No resources found");
    }
    session.note_lag(answer.content.lagging);
    let name = |usage: &NamespaceUsage| format!("namespace/{}", usage.namespace);
    session.output.answer(
        &answer.json,
        || found.iter().map(name).collect(),
        |_| {
            let mut table = Table::new(&[
                "NAMESPACE",
                ">USE%",
                "",
                "FULLEST",
                ">USED",
                ">RESERVED",
                ">HARD",
                ">PENDING",
            ]);
            for usage in &found {
                table.row(namespace_row(usage));
            }
            table
        },
    )
}

fn namespace_row(usage: &NamespaceUsage) -> [Text; 8] {
    let pending = usage.reservations.to_string().into();
    let namespace = usage.namespace.to_string().into();
    let Some(fullest) = &usage.fullest else {
        let none = || "-".into();
        return [
            namespace,
            none(),
            none(),
            none(),
            none(),
            none(),
            none(),
            pending,
        ];
    };
    let share = fullest.share.unwrap_or(f64::INFINITY);
    let [hard, used, reserved] = in_one_unit([&fullest.hard, &fullest.used, &fullest.reserved]);
    [
        namespace,
        percent(share).into(),
        bar(share).into(),
        format!("{}/{}", fullest.quota, fullest.resource).into(),
        used,
        reserved,
        hard,
        pending,
    ]
}

fn limits(session: &Session, namespace: &str, most: usize) -> Outcome {
    let address = Address::in_namespace(namespace, ["usage"]);
    let answer = session.client.get::<Usage>(&address)?;
    let usage = answer.content;
    session.note_lag(usage.lagging);
    let mut limits = fullest(&usage.quotas);
    if limits.is_empty() {
        session.note_empty();
    }
    limits.truncate(most);
    let trends = match session.output.is_structured() || session.output.is_names() {
        true => Vec::new(),
        false => trends(session, namespace),
    };
    session.output.answer(
        &answer.json,
        || {
            let limits = limits.iter();
            let names =
                limits.map(|(quota, limit, ..)| format!("{}/{}", quota.name, limit.resource));
            names.collect()
        },
        |_| {
            let mut table = Table::new(&[
                "QUOTA",
                "RESOURCE",
                ">USE%",
                "",
                ">USED",
                ">RESERVED",
                ">HARD",
                ">FULL IN",
            ]);
            for (quota, limit, used, share) in &limits {
                let trend = trends
                    .iter()
                    .find(|it| it.name == quota.name && it.resource == limit.resource);
                let left = trend.and_then(|it| it.full_in_seconds).map(full_in);
                let [hard, used, reserved] = in_one_unit([&limit.hard, used, &limit.reserved]);
                table.row([
                    quota.name.to_string().into(),
                    limit.resource.to_string().into(),
                    percent(*share).into(),
                    bar(*share).into(),
                    used,
                    reserved,
                    hard,
                    left.unwrap_or_default().into(),
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
    answer
        .map(|answer| answer.content.items)
        .unwrap_or_default()
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
