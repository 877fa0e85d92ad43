//! `get usage`: what is used, reserved and available.

use quota_client::http::Address;
use quota_client::wire;
use quota_semantics::Timestamp;
use serde_json::Value;

use super::List;
use crate::{
    client::read,
    failure::Outcome,
    figures::{Usage, usage_table},
    namespaces::everywhere,
    session::{Session, text},
    table::Table,
};

/// Usage as it is, or as it was.
pub(super) struct UsageOf {
    pub(super) at: Option<Timestamp>,
    pub(super) sequence: Option<u64>,
    /// Also what no quota limits.
    pub(super) all: bool,
}

impl List for UsageOf {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let ask = |namespace: &str| {
            let address = Address::in_namespace(namespace, ["usage"]);
            let address = address.with_some("at", self.at);
            session
                .client
                .get(&address.with_some("sequence", self.sequence))
        };
        match session.scope.all {
            true => everywhere(session, |namespace| Ok(vec![ask(namespace)?])),
            false => ask(session.scope.namespace()),
        }
    }

    fn name(&self, usage: &Value) -> String {
        format!("usage/{}", text(usage, "/namespace"))
    }

    fn table(&self, session: &Session, usages: &[Value], wide: bool) -> Outcome<Table> {
        let of = |usage: &Value| Ok(Usage::from(read::<wire::Usage>(usage)?));
        let read: Vec<Usage> = usages.iter().map(of).collect::<Outcome<_>>()?;
        let table = usage_table(&read, session.scope.all, wide || self.all);
        if table.is_empty() {
            session.note_empty();
        }
        Ok(table)
    }

    /// Only the figures that changed.
    fn changes(&self, before: &[Value], now: &[Value]) -> Vec<Value> {
        let before_of = |usage: &Value| {
            let is_it = |old: &&Value| old["namespace"] == usage["namespace"];
            before.iter().find(is_it).unwrap_or(&Value::Null)
        };
        let changed = now.iter().filter_map(|usage| {
            let old = before_of(usage);
            let has_quotas = !list(usage, "quotas").is_empty();
            let mut new = usage.clone();
            let quotas = list(usage, "quotas").iter().filter_map(|quota| {
                let is_it = |old: &&Value| old["name"] == quota["name"];
                let old = list(old, "quotas")
                    .iter()
                    .find(is_it)
                    .unwrap_or(&Value::Null);
                let mut quota = quota.clone();
                quota["resources"] = fresh(list(old, "resources"), list(&quota, "resources"));
                (!list(&quota, "resources").is_empty()).then_some(quota)
            });
            new["quotas"] = quotas.collect();
            new["resources"] = fresh(list(old, "resources"), list(usage, "resources"));
            let is_shown = match has_quotas {
                true => !list(&new, "quotas").is_empty(),
                false => !list(&new, "resources").is_empty(),
            };
            is_shown.then_some(new)
        });
        changed.collect()
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let found = value.get(field).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

fn fresh(before: &[Value], now: &[Value]) -> Value {
    let is_new = |figure: &&Value| !before.contains(figure);
    now.iter().filter(is_new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_figures_that_changed_are_new() {
        let usage = |pods: &str| {
            json!({"namespace": "a", "resources": [{"resource": "pods", "used": pods}], "quotas": [
                {"name": "q", "resources": [{"resource": "pods", "used": pods}, {"resource": "cpu", "used": "1"}]},
                {"name": "r", "resources": [{"resource": "cpu", "used": "1"}]}]})
        };
        let list = UsageOf {
            at: None,
            sequence: None,
            all: false,
        };
        let changed = list.changes(&[usage("1")], &[usage("2")]);
        assert_eq!(
            changed[0]["quotas"],
            json!([{"name": "q", "resources": [{"resource": "pods", "used": "2"}]}])
        );
        assert!(list.changes(&[usage("1")], &[usage("1")]).is_empty());
        assert_eq!(list.changes(&[], &[usage("1")]), [usage("1")]);
    }
}
