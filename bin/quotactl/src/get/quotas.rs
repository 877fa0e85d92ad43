//! `get quota`: kubectl's columns, and the reserved amounts.

use quota_client::{
    http::Address,
    table::{Limit, QUOTA_COLUMNS},
    wire::{Page, Quota},
};
use quota_semantics::{
    Timestamp,
    quantity::Quantity,
    quota::{manifest::Metadata, spec::ScopeExpression},
};
use serde_json::Value;

use super::{Item, List};
use crate::{
    age,
    args::Named,
    client::Answer,
    failure::Outcome,
    figures::{percent, share},
    session::Session,
    table::Table,
    unit::{Units, beside},
};

/// The quotas of a namespace or of all namespaces, or one quota.
pub(super) struct Quotas<'a>(pub(super) &'a Named);

impl Item for Quota<'static> {
    fn identity(&self) -> String {
        let Metadata { namespace, name, uid, .. } = &self.metadata;
        format!("{namespace}/{name}/{uid}")
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl List for Quotas<'_> {
    type Item = Quota<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let Named { name, selector } = self.0;
        match name {
            Some(name) => session.client.get_json(&one(session, name)?),
            None => {
                let chosen = all(session).with_some("labelSelector", selector.as_ref());
                session.client.list_json(&chosen, None)
            }
        }
    }

    fn name(&self, quota: &Quota<'static>) -> String {
        format!("resourcequota/{}", quota.metadata.name)
    }

    fn table(&self, session: &Session, quotas: &[Quota<'static>], wide: bool) -> Table {
        table(quotas, session.scope.all, wide)
    }
}

/// A quota, or all of the namespace or of all namespaces, and whether the response lags.
pub(crate) fn fetch(
    session: &Session,
    name: Option<&str>,
) -> Outcome<(Answer<Vec<Quota<'static>>>, bool)> {
    let client = &session.client;
    Ok(match name {
        Some(name) => {
            let Answer { json, content } = client.get::<Quota<'static>>(&one(session, name)?)?;
            let lagging = content.lagging;
            let content = vec![content];
            (Answer { json, content }, lagging)
        }
        None => {
            let Answer { json, content } = client.list::<Page<_>>(&all(session), None)?;
            let (content, lagging) = (content.items, content.lagging);
            (Answer { json, content }, lagging)
        }
    })
}

fn one(session: &Session, name: &str) -> Outcome<Address> {
    let namespace = session.scope.of_one("a quota")?;
    Ok(Address::in_namespace(namespace, ["quotas", name]))
}

fn all(session: &Session) -> Address {
    Address::list(session.scope.listed(), "quotas")
}

/// The quotas of a namespace with kubectl's columns; those of all namespaces with the fullest limit of each.
fn table(quotas: &[Quota<'_>], all: bool, wide: bool) -> Table {
    match all {
        true => fullest_limits(quotas, wide),
        false => limits(quotas, wide),
    }
}

fn limits(quotas: &[Quota<'_>], wide: bool) -> Table {
    let mut titles: Vec<_> = QUOTA_COLUMNS.iter().map(|it| it.to_uppercase()).collect();
    if wide {
        titles.extend(["SCOPES", "RESERVATIONS"].map(str::to_owned));
    }
    let mut table = Table::titled(titles);
    let now = age::now();
    for quota in quotas {
        let mut row = Vec::from(cells(quota));
        row.push(age_of(quota, now));
        if wide {
            row.extend([scopes(quota).join(","), reservations(quota)]);
        }
        table.row(row);
    }
    table
}

fn fullest_limits(quotas: &[Quota<'_>], wide: bool) -> Table {
    let mut titles =
        vec!["NAMESPACE", "NAME", "FULLEST", ">USE%", "?>USED", "?>RESERVED", "?>HARD", "AGE"];
    if wide {
        titles.extend(["REQUEST", "LIMIT", "SCOPES", "RESERVATIONS"]);
    }
    let mut table = Table::new(&titles);
    let share_of = |limit: &Limit<'_>| {
        let [used, reserved] = [limit.used, limit.reserved].map(|it| it.unwrap_or(&Quantity::ZERO));
        share(limit.hard, used, reserved)
    };
    let fullest = |quota: &Quota<'_>| -> Option<(String, [Quantity; 3], f64)> {
        let limits = quota.limits().into_iter();
        let limits = limits.map(|limit| (share_of(&limit), limit));
        // The first among equals, so that the answer is stable.
        let (share, limit) =
            limits.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        let amount = |amount: Option<&Quantity>| amount.cloned().unwrap_or_default();
        let amounts = [limit.hard.clone(), amount(limit.used), amount(limit.reserved)];
        Some((limit.resource.to_owned(), amounts, share))
    };
    let found: Vec<_> = quotas.iter().map(fullest).collect();
    let hard = found.iter().flatten();
    let units = Units::of(hard.map(|(resource, [hard, ..], _)| (&**resource, hard)));
    let now = age::now();
    for (quota, fullest) in quotas.iter().zip(&found) {
        let metadata = &quota.metadata;
        let mut row = vec![metadata.namespace.to_string(), metadata.name.to_string()];
        match fullest {
            Some((resource, [hard, used, reserved], share)) => {
                let [used, reserved, hard] = units.all(resource, [used, reserved, hard]);
                row.extend([resource.clone(), percent(*share), used, reserved, hard]);
            }
            None => row.extend([(); 5].map(|()| "-".to_owned())),
        }
        row.push(age_of(quota, now));
        if wide {
            let [_, requests, limits, _] = cells(quota);
            row.extend([requests, limits, scopes(quota).join(","), reservations(quota)]);
        }
        table.row(row);
    }
    table
}

/// The name, the requests, the limits and the reserved amounts, as kubectl shows them, in the units of all views.
fn cells(quota: &Quota<'_>) -> [String; 4] {
    let all = quota.limits();
    let of = |is_wanted: &dyn Fn(&Limit<'_>) -> bool, cell: &dyn Fn(&Limit<'_>) -> String| {
        let wanted = all.iter().filter(|limit| is_wanted(limit));
        wanted.map(cell).collect::<Vec<_>>().join(", ")
    };
    let used = |limit: &Limit<'_>| {
        let used = limit.used.unwrap_or(&Quantity::ZERO);
        let [used, hard] = [used, limit.hard].map(|it| beside(limit.resource, it, limit.hard));
        format!("{}: {used}/{hard}", limit.resource)
    };
    let reserved = |limit: &Limit<'_>| {
        let reserved = limit.reserved.unwrap_or(&Quantity::ZERO);
        let reserved = beside(limit.resource, reserved, limit.hard);
        format!("{}: {reserved}", limit.resource)
    };
    let is_limit = |limit: &Limit<'_>| limit.resource.starts_with("limits.");
    let is_reserved = |limit: &Limit<'_>| limit.reserved.is_some_and(|it| !it.is_zero());
    [
        quota.metadata.name.to_string(),
        of(&|limit| !is_limit(limit), &used),
        of(&is_limit, &used),
        of(&is_reserved, &reserved),
    ]
}

fn age_of(quota: &Quota<'_>, now: Timestamp) -> String {
    let created = quota.metadata.creation_timestamp;
    created.map_or_else(|| "<unknown>".to_owned(), |created| age::span(now.since(created)))
}

/// The number of its pending reservations.
fn reservations(quota: &Quota<'_>) -> String {
    let more = match quota.status.reservations_omitted {
        0 => "",
        _ => "+",
    };
    format!("{}{more}", quota.status.reservations.len())
}

/// The scopes of a quota, whether written as scopes or as a selector, sorted.
pub(crate) fn scopes(quota: &Quota<'_>) -> Vec<String> {
    let spec = &quota.spec;
    let selector = spec.selector.iter().flat_map(|it| &it.match_expressions);
    let expression = |it: &ScopeExpression| {
        let values: Vec<_> = it.values.iter().map(|value| &**value).collect();
        match values.is_empty() {
            true => format!("{} {}", it.scope_name, it.operator),
            false => format!("{} {} [{}]", it.scope_name, it.operator, values.join(" ")),
        }
    };
    let written = spec.scopes.iter().map(ToString::to_string);
    let mut scopes: Vec<_> = written.chain(selector.map(expression)).collect();
    scopes.sort_unstable();
    scopes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotas_look_as_in_kubectl_with_what_is_reserved() {
        let quota = json!({
            "metadata": {"name": "q", "namespace": "team-a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"hard": {"pods": "10"}, "scopes": ["Terminating"], "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}]}},
            "status": {"hard": {"requests.cpu": "4", "pods": "10", "limits.cpu": "8"},
                       "used": {"pods": "3", "requests.cpu": "500m"},
                       "reserved": {"pods": "1", "requests.cpu": "0"}, "reservations": [
                {"reservedBy": {"uid": "u"}, "reserved": {"pods": "1"}, "expirationTime": "2020-01-01T00:00:00Z"}]}
        });
        let quota: Quota<'static> = serde_json::from_value(quota).unwrap();
        let cells = |table: Table| -> Vec<Vec<String>> {
            let text = table.render(true);
            let row = |line: &str| {
                let cells = line.split("   ").map(str::trim);
                cells.filter(|it| !it.is_empty()).map(str::to_owned).collect()
            };
            text.lines().map(row).collect()
        };
        let quotas = [quota];
        let everywhere = cells(table(&quotas, true, false));
        assert_eq!(
            everywhere[0],
            ["NAMESPACE", "NAME", "FULLEST", "USE%", "USED", "RESERVED", "HARD", "AGE"]
        );
        assert_eq!(everywhere[1][..7], ["team-a", "q", "pods", "40%", "3", "1", "10"]);
        let lines = cells(table(&quotas, false, true));
        assert_eq!(
            lines[0],
            ["NAME", "REQUEST", "LIMIT", "RESERVED", "AGE", "SCOPES", "RESERVATIONS"]
        );
        assert_eq!(
            lines[1][..4],
            ["q", "pods: 3/10, requests.cpu: 0.5/4", "limits.cpu: 0/8", "pods: 1"]
        );
        assert_eq!(lines[1][5..], ["PriorityClass In [high low],Terminating", "1"]);
    }
}
