//! `get namespaces`: each with its fullest limit, by name.

use quota_client::{http::Address, wire::NamespaceUsage};
use serde_json::Value;

use super::{Item, List};
use crate::{
    args::NamespacesOf,
    failure::Outcome,
    figures::{limit_name, percent},
    output::note,
    session::Session,
    table::Table,
};

impl Item for NamespaceUsage {
    fn identity(&self) -> String {
        self.namespace.to_string()
    }
}

impl List for NamespacesOf {
    type Item = NamespaceUsage;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::of(["v1", "usage"]);
        let address = address.with_some("labelSelector", self.selector.as_ref());
        let mut answer = session.client.list_json(&self.when.of(address), None)?;
        if let Some(namespaces) = answer.get_mut("items").and_then(Value::as_array_mut) {
            namespaces.sort_by_cached_key(|it| it["namespace"].as_str().map(str::to_owned));
        }
        Ok(answer)
    }

    fn name(&self, usage: &NamespaceUsage) -> String {
        format!("namespace/{}", usage.namespace)
    }

    fn table(&self, _: &Session, namespaces: &[NamespaceUsage], wide: bool) -> Table {
        let fullest = |it: &NamespaceUsage| match &it.fullest {
            Some(fullest) => {
                let limit = limit_name(fullest.kind, &fullest.quota);
                format!("{limit}/{}", fullest.resource)
            }
            None => "-".to_owned(),
        };
        let share = |it: &NamespaceUsage| match &it.fullest {
            Some(fullest) => percent(fullest.share.unwrap_or(f64::INFINITY)),
            None => "-".to_owned(),
        };
        let labels = |it: &NamespaceUsage| {
            let labels = it.labels.iter();
            let labels: Vec<_> = labels
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            labels.join(",")
        };
        Table::of(
            namespaces,
            &[
                (true, "NAME", &|it| it.namespace.to_string()),
                (true, ">QUOTAS", &|it| it.quotas.to_string()),
                (true, "?>PENDING", &|it| it.reservations.to_string()),
                (true, ">USE%", &share),
                (true, "FULLEST", &fullest),
                (wide, "LABELS", &labels),
            ],
        )
    }

    fn note_empty(&self, _: &Session) {
        note("No resources found");
    }

    /// Any namespace may be in the list.
    fn watched<'s>(&self, _: &'s Session) -> Option<&'s str> {
        None
    }
}
