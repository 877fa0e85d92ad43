//! `get quota`: kubectl's columns, and the reserved amounts.

use quota_client::{
    http::Address,
    table::QUOTA_COLUMNS,
    wire::{Page, Quota},
};
use quota_semantics::quota::{manifest::Metadata, spec::ScopeExpression};
use serde_json::Value;

use super::{Item, List};
use crate::{age, args::Named, client::Answer, failure::Outcome, session::Session, table::Table};

/// The quotas of a namespace or of all namespaces, or one quota.
pub(super) struct Quotas<'a>(pub(super) &'a Named);

impl Item for Quota<'static> {
    fn identity(&self) -> String {
        let Metadata {
            namespace,
            name,
            uid,
            ..
        } = &self.metadata;
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

fn table(quotas: &[Quota<'_>], all: bool, wide: bool) -> Table {
    let mut titles: Vec<_> = QUOTA_COLUMNS.iter().map(|it| it.to_uppercase()).collect();
    if all {
        titles.insert(0, "NAMESPACE".to_owned());
    }
    if wide {
        titles.extend(["SCOPES", "RESERVATIONS"].map(str::to_owned));
    }
    let mut table = Table::titled(titles);
    let now = age::now();
    for quota in quotas {
        let mut row = Vec::from(quota.cells(now));
        if all {
            row.insert(0, quota.metadata.namespace.to_string());
        }
        if wide {
            row.push(scopes(quota).join(","));
            let more = match quota.status.reservations_omitted {
                0 => "",
                _ => "+",
            };
            row.push(format!("{}{more}", quota.status.reservations.len()));
        }
        table.row(row);
    }
    table
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
        let text = table(&[quota], true, true).render(true);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| {
                line.split("   ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            lines[0],
            [
                "NAMESPACE",
                "NAME",
                "REQUEST",
                "LIMIT",
                "RESERVED",
                "AGE",
                "SCOPES",
                "RESERVATIONS"
            ]
        );
        assert_eq!(
            lines[1][..5],
            [
                "team-a",
                "q",
                "pods: 3/10, requests.cpu: 500m/4",
                "limits.cpu: 0/8",
                "pods: 1"
            ]
        );
        assert_eq!(
            lines[1][6..],
            ["PriorityClass In [high low],Terminating", "1"]
        );
    }
}
