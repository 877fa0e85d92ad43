//! Groups: their paths, tables and descriptions.

use std::fmt::Display;

use quota_client::{
    http::Address,
    table::{GROUP_COLUMNS, Limit},
    wire::{Group, GroupUsage},
};
use quota_semantics::{
    Timestamp,
    group::{Enforcement, Selector, selector::LabelSelector},
    quantity::Quantity,
    resource::ResourceList,
};

use crate::{
    failure::Outcome,
    figures::{self, Units, percent, share},
    session::Session,
    table::{self, Table, one_line},
};

/// The kind of a group in names and messages.
pub(crate) const KIND: &str = "clusterresourcequota";

/// The path of a group.
pub(crate) fn address(name: &str) -> Address {
    Address::of(["v1", "groups", name])
}

/// Groups as a table.
pub(crate) fn table(groups: &[Group], wide: bool) -> Table {
    let mut titles: Vec<_> = GROUP_COLUMNS.iter().map(|it| it.to_uppercase()).collect();
    if wide {
        titles.extend(["ENFORCEMENT", "SELECTOR"].map(str::to_owned));
    }
    let mut table = Table::titled(titles);
    let now = table::now();
    for group in groups {
        let mut row = Vec::from(cells(group, now));
        if wide {
            row.push(enforcement(group.enforcement).to_owned());
            row.push(selected(&group.selector));
        }
        table.row(row);
    }
    table
}

/// The cells of kubectl's table, in the units of all views.
fn cells(group: &Group, now: Timestamp) -> [String; 7] {
    let mut cells = group.cells(now);
    let used = group.limits().into_iter().map(|Limit { resource, hard, used, .. }| {
        let used = figures::beside(resource, used.unwrap_or(&Quantity::ZERO), hard);
        let hard = figures::beside(resource, hard, hard);
        match group.each {
            true => format!("{resource}: {used} (each {hard})"),
            false => format!("{resource}: {used}/{hard}"),
        }
    });
    let status = &group.status;
    let hard = |resource: &str| status.hard.get(resource);
    cells[3] = used.collect::<Vec<_>>().join(", ");
    cells[4] = amounts(&status.reserved, hard);
    cells[5] = amounts(&status.guaranteed_to_others, hard);
    cells
}

/// Describes one group: its options, limits and usage.
pub(crate) fn describe(session: &Session, name: &str) -> Outcome {
    let client = &session.client;
    let answer = client.get::<Group>(&address(name))?;
    let group = answer.content;
    session.note_lag(group.lagging);
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    let usage = Address::of(["v1", "groups", name, "usage"]);
    let usage = client.get::<GroupUsage>(&usage)?.content;
    let lines: Vec<_> = fields(&group);
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    session.output.line(lines.join("\n"))?;
    session.output.section("Limits", &limits(&group, &usage))?;
    session.output.section("Namespaces", &members(&usage))?;
    match usage.namespaces_omitted {
        0 => Ok(()),
        more => session.output.line(format!("and {more} more")),
    }
}

/// The lines for a group's fields besides its limits.
fn fields(group: &Group) -> Vec<String> {
    let line = |name: &str, value: &dyn Display| format!("{name:14}{value}");
    let mut lines = vec![line("Name:", &group.name)];
    lines.push(line("Namespaces:", &selected(&group.selector)));
    lines.extend(group.parent.iter().map(|parent| line("Parent:", parent)));
    let children = group.status.children.iter().map(|name| &**name);
    let children = children.collect::<Vec<_>>().join(", ");
    if !children.is_empty() {
        lines.push(line("Children:", &children));
    }
    if let Some(objects) = &group.objects {
        lines.push(line("Objects:", &labels(objects).join(",")));
    }
    if group.each {
        lines.push(line("Each:", &"the limits hold for each namespace alone; USE% and AVAILABLE are those of the fullest listed one"));
    }
    if !group.scopes.is_empty() {
        let scopes: Vec<_> = group.scopes.iter().map(|scope| &**scope).collect();
        lines.push(line("Scopes:", &scopes.join(", ")));
    }
    lines.push(line("Enforcement:", &enforcement(group.enforcement)));
    if let Some(limits) = &group.r#override {
        let text = match group.status.override_until {
            Some(until) => format!("{} until {until}", limits.hard.pretty()),
            None => format!("{}, over since {}", limits.hard.pretty(), limits.until),
        };
        lines.push(line("Override:", &text));
    }
    let conditions = group.status.conditions.iter();
    lines.extend(conditions.map(|it| {
        let text = format!("{} is {}: {}", it.r#type, it.status, it.message);
        line("Condition:", &text)
    }));
    lines
}

fn limits(group: &Group, usage: &GroupUsage) -> Table {
    let mut table = Table::new(&[
        "RESOURCE",
        ">HARD",
        ">USED",
        ">RESERVED",
        ">FOR OTHERS",
        ">AVAILABLE",
        ">USE%",
        "?>SOFT",
        "?>GUARANTEED",
    ]);
    let units = Units::of(usage.resources.iter().map(|limit| (&*limit.resource, &limit.hard)));
    for limit in &usage.resources {
        let used = limit.used.clone().unwrap_or_default();
        let for_others = limit.guaranteed_to_others.clone().unwrap_or_default();
        // Of a group that limits each namespace alone: what the fullest one has taken.
        let mut taken = limit.hard.clone();
        taken.sub_assign(&limit.available);
        let show = |amount: &Quantity| units.show(&limit.resource, amount);
        let own = |list: &ResourceList| {
            let amount = list.get(&limit.resource);
            amount.map_or_else(|| "-".to_owned(), show)
        };
        let row = [
            limit.resource.to_string(),
            show(&limit.hard),
            show(&used),
            show(&limit.reserved),
            show(&for_others),
            show(&limit.available),
            percent(share(&limit.hard, &taken, &Quantity::ZERO)),
            own(&group.soft),
            own(&group.guaranteed),
        ];
        table.row(row);
    }
    table
}

fn members(usage: &GroupUsage) -> Table {
    let mut table = Table::new(&["NAMESPACE", "USED", "RESERVED"]);
    let hard = |resource: &str| {
        let limit = usage.resources.iter().find(|limit| *limit.resource == *resource);
        limit.map(|limit| &limit.hard)
    };
    for member in &usage.namespaces {
        table.row([
            member.namespace.to_string(),
            amounts(&member.used, hard),
            amounts(&member.reserved, hard),
        ]);
    }
    table
}

const fn enforcement(enforcement: Enforcement) -> &'static str {
    match enforcement {
        Enforcement::Enforce => "enforce",
        Enforcement::Warn => "warn",
        Enforcement::Audit => "audit",
    }
}

/// Amounts that are not zero, in the units of their limits.
fn amounts<'a>(list: &'a ResourceList, hard: impl Fn(&str) -> Option<&'a Quantity>) -> String {
    let cells = list.iter().filter(|(_, amount)| !amount.is_zero());
    let cells = cells.map(|(resource, amount)| {
        let hard = hard(resource).unwrap_or(amount);
        format!("{resource}: {}", figures::beside(resource, amount, hard))
    });
    cells.collect::<Vec<_>>().join(", ")
}

/// The requirements of a label selector, in the notation of `kubectl -l`.
fn labels(selector: &LabelSelector) -> Vec<String> {
    let equal = selector.match_labels.iter();
    let equal = equal.map(|(key, value)| format!("{key}={value}"));
    let more = selector.match_expressions.iter().map(|it| {
        let values: Vec<_> = it.values.iter().map(|value| &**value).collect();
        let (key, values) = (&it.key, values.join(", "));
        match &*it.operator {
            "Exists" => key.to_string(),
            "DoesNotExist" => format!("!{key}"),
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            other => format!("{key} {other} ({values})"),
        }
    });
    equal.chain(more).collect()
}

/// A selector in kubectl's notation: `team=red,tier in (a, b)`; annotations after `with`.
fn selected(selector: &Selector) -> String {
    let labels = selector.labels.as_ref().map(labels).unwrap_or_default();
    let annotations = selector.annotations.iter();
    let annotations: Vec<_> = annotations.map(|(key, value)| format!("{key}={value}")).collect();
    let labels = match labels.is_empty() {
        true => "-".to_owned(),
        false => labels.join(","),
    };
    match annotations.is_empty() {
        true => labels,
        false => format!("{labels} with {}", annotations.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group() -> Group {
        serde_json::from_value(json!({
            "name": "g", "parent": "company", "hard": {"pods": "10"}, "enforcement": "warn",
            "objects": {"matchLabels": {"app": "shop"}}, "selector": {"labels": {"matchLabels": {"team": "red"}, "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]},
                "annotations": {"who": "ann"}},
            "status": {"hard": {"pods": "12"}, "used": {"pods": "3"}, "reserved": {"pods": "1", "services": "0"},
                       "members": 2, "overrideUntil": "2027-01-01T00:00:00Z"},
            "override": {"hard": {"pods": "12"}, "until": "2027-01-01T00:00:00Z"},
        }))
        .unwrap()
    }

    #[test]
    fn a_group_is_a_row_with_the_limits_in_force() {
        let text = table(&[group()], true).render(true);
        let row = text.lines().nth(1).unwrap();
        for cell in ["g", "company", "pods: 3/12", "pods: 1", "warn"] {
            assert!(row.contains(cell), "{cell}: {row}");
        }
        assert!(row.ends_with("team=red,tier in (a, b),!old with who=ann"), "{row}");
        assert!(!row.contains("services"), "{row}");
    }

    #[test]
    fn a_group_is_described_with_its_override_and_the_objects_that_count() {
        let lines = fields(&group());
        assert!(
            lines.contains(&"Override:     pods=12 until 2027-01-01T00:00:00Z".to_owned()),
            "{lines:?}"
        );
        for line in ["Parent:       company", "Objects:      app=shop"] {
            assert!(lines.contains(&line.to_owned()), "{lines:?}");
        }
    }
}
