//! `get quota`: kubectl's columns, and what is reserved.

use serde_json::{Map, Value};

use super::List;
use crate::{
    address::Address,
    age,
    failure::Outcome,
    session::{Session, items, text},
    table::Table,
};

/// One quota, or all of a namespace or of all namespaces.
pub(super) struct Quotas<'a> {
    pub(super) name: Option<&'a str>,
    /// Only those whose labels match: a selector as Kubernetes has them.
    pub(super) selector: Option<&'a str>,
}

impl List for Quotas<'_> {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        match self.name {
            Some(_) => ask(session, self.name),
            None => session.client.list(
                &all(session).with_some("labelSelector", self.selector),
                None,
            ),
        }
    }

    fn name(&self, quota: &Value) -> String {
        format!("resourcequota/{}", text(quota, "/metadata/name"))
    }

    fn table(&self, session: &Session, quotas: &[Value], wide: bool) -> Outcome<Table> {
        Ok(table(quotas, session.scope.all, wide))
    }
}

/// The daemon's answer: a quota, or a list of them.
pub(crate) fn ask(session: &Session, name: Option<&str>) -> Outcome<Value> {
    let namespace = session.scope.namespace();
    match name {
        Some(name) => session
            .client
            .get(&Address::in_namespace(namespace, ["quotas", name])),
        None => session.client.list(&all(session), None),
    }
}

fn all(session: &Session) -> Address {
    match session.scope.all {
        true => Address::of(["v1", "quotas"]),
        false => Address::in_namespace(session.scope.namespace(), ["quotas"]),
    }
}

/// The quotas of an answer.
pub(crate) fn listed(answer: &Value) -> &[Value] {
    match answer.get("items") {
        Some(_) => items(answer),
        None => std::slice::from_ref(answer),
    }
}

fn table(quotas: &[Value], all: bool, wide: bool) -> Table {
    let mut titles = vec!["NAME", "REQUEST", "LIMIT", "RESERVED", "AGE"];
    if all {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.extend(["SCOPES", "RESERVATIONS"]);
    }
    let mut table = Table::new(&titles);
    let now = age::now();
    for quota in quotas {
        let mut row = Vec::with_capacity(titles.len());
        if all {
            row.push(text(quota, "/metadata/namespace").to_owned());
        }
        row.push(text(quota, "/metadata/name").to_owned());
        row.push(used_of_hard(quota, |resource| {
            !resource.starts_with("limits.")
        }));
        row.push(used_of_hard(quota, |resource| {
            resource.starts_with("limits.")
        }));
        row.push(reserved(quota));
        row.push(age::age(text(quota, "/metadata/creationTimestamp"), now));
        if wide {
            row.push(scopes(quota).join(","));
            let reservations = quota
                .pointer("/status/reservations")
                .and_then(Value::as_array);
            let omitted = quota.pointer("/status/reservationsOmitted");
            let more = omitted.and_then(Value::as_u64).map_or("", |_| "+");
            row.push(format!("{}{more}", reservations.map_or(0, Vec::len)));
        }
        table.row(row);
    }
    table
}

/// As kubectl has it: `pods: 1/10, requests.cpu: 2/4`.
fn used_of_hard(quota: &Value, shown: impl Fn(&str) -> bool) -> String {
    let hard = amounts(quota, "/status/hard").or_else(|| amounts(quota, "/spec/hard"));
    let used = amounts(quota, "/status/used");
    let cell = |(resource, hard): (&String, &Value)| {
        let used = used
            .and_then(|used| used.get(resource))
            .map_or("0".to_owned(), plain);
        format!("{resource}: {used}/{}", plain(hard))
    };
    let shown = hard
        .into_iter()
        .flatten()
        .filter(|(resource, _)| shown(resource));
    shown.map(cell).collect::<Vec<_>>().join(", ")
}

fn reserved(quota: &Value) -> String {
    let reserved = amounts(quota, "/status/reserved").into_iter().flatten();
    let cells = reserved.filter(|(_, amount)| plain(amount) != "0");
    let cell = |(resource, amount): (&String, &Value)| format!("{resource}: {}", plain(amount));
    cells.map(cell).collect::<Vec<_>>().join(", ")
}

/// Quantities by resource, in order of the names.
pub(crate) fn amounts<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

/// The scopes of a quota, whether written as scopes or as a selector, sorted.
pub(crate) fn scopes(quota: &Value) -> Vec<String> {
    let written = quota
        .pointer("/spec/scopes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut scopes: Vec<_> = written
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let selector = quota
        .pointer("/spec/scopeSelector/matchExpressions")
        .and_then(Value::as_array);
    for expression in selector.into_iter().flatten() {
        let values = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let values: Vec<_> = values.filter_map(Value::as_str).collect();
        let mut scope = format!(
            "{} {}",
            text(expression, "/scopeName"),
            text(expression, "/operator")
        );
        if !values.is_empty() {
            scope.push_str(&format!(" [{}]", values.join(" ")));
        }
        scopes.push(scope);
    }
    scopes.sort_unstable();
    scopes
}

/// A quantity as text: the API writes strings, manifests may hold numbers.
pub(crate) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
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
                       "reserved": {"pods": "1", "requests.cpu": "0"}, "reservations": [{}]}
        });
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
