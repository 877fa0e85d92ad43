//! `get usage`: used, reserved and available amounts.

use quota_client::{http::Address, wire::Usage};
use serde_json::Value;

use super::{Item, List};
use crate::{
    args::UsageOf,
    failure::Outcome,
    figures::{NamespaceFigures, usage_table},
    namespaces::everywhere,
    session::Session,
    table::Table,
};

impl Item for Usage {
    fn identity(&self) -> String {
        self.namespace.to_string()
    }
}

impl List for UsageOf {
    type Item = Usage;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let ask = |namespace: &str| {
            let address = Address::in_namespace(namespace, ["usage"]);
            session.client.get_json(&self.when.of(address))
        };
        match session.scope.all {
            true => everywhere(session, self.when, self.selector.as_deref(), ask),
            false => ask(session.scope.namespace()),
        }
    }

    fn name(&self, usage: &Usage) -> String {
        format!("usage/{}", usage.namespace)
    }

    fn table(&self, session: &Session, usages: &[Usage], wide: bool) -> Table {
        let usages: Vec<_> = usages.iter().map(NamespaceFigures::from).collect();
        let table = usage_table(&usages, session.scope.all, wide || self.all);
        if table.is_empty() {
            session.note_empty();
        }
        table
    }

    /// Only the figures that changed.
    fn changes(&self, before: &[Usage], now: &[Usage]) -> Vec<Usage> {
        let changed = now.iter().filter_map(|usage| {
            let old = before.iter().find(|old| old.namespace == usage.namespace);
            let mut new = usage.clone();
            if let Some(old_usage) = old {
                new.resources
                    .retain(|sum| !old_usage.resources.contains(sum));
                for quota in &mut new.quotas {
                    let old = old_usage.quotas.iter().filter(|old| old.name == quota.name);
                    let old: Vec<_> = old.flat_map(|old| &old.resources).collect();
                    quota.resources.retain(|limit| {
                        let [before, now] =
                            [old_usage, usage].map(|it| it.room.get(&limit.resource));
                        before != now || !old.contains(&limit)
                    });
                }
                new.room
                    .retain(|resource, room| old_usage.room.get(resource) != Some(room));
            }
            new.quotas.retain(|quota| !quota.resources.is_empty());
            let is_shown = match usage.quotas.is_empty() && usage.room.is_empty() {
                true => !new.resources.is_empty(),
                false => !new.quotas.is_empty() || !new.room.is_empty(),
            };
            is_shown.then_some(new)
        });
        changed.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::args::When;

    #[test]
    fn only_figures_that_changed_are_new() {
        let limit = |resource: &str, used: &str| {
            json!({
            "resource": resource, "hard": "9", "used": used, "reserved": "0", "available": "1"})
        };
        let usage = |pods: &str, sequence: u64| -> Usage {
            serde_json::from_value(json!({
                "namespace": "a", "resources": [{"resource": "pods", "used": pods, "reserved": "0"}], "quotas": [
                    {"name": "q", "resources": [limit("pods", pods), limit("cpu", "1")]},
                    {"name": "r", "resources": [limit("cpu", "1")]}],
                "asOf": {"sequence": sequence, "time": "2026-11-20T10:00:00Z"}}))
            .unwrap()
        };
        let list = UsageOf {
            when: When::default(),
            all: false,
            selector: None,
        };
        let changed = list.changes(&[usage("1", 1)], &[usage("2", 2)]);
        assert_eq!(
            serde_json::to_value(&changed[0].quotas).unwrap(),
            json!([{"name": "q", "resources": [limit("pods", "2")]}])
        );
        assert!(list.changes(&[usage("1", 1)], &[usage("1", 2)]).is_empty());
        assert_eq!(list.changes(&[], &[usage("1", 1)]), [usage("1", 1)]);
    }
}
