//! Field management: the managers of an object's fields (`metadata.managedFields`), and how an update changes them.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff` and of `managedfields` in the API machinery, restricted
//! to the schema of quotas and groups.

mod apply;
mod set;

use std::collections::BTreeMap;

use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use apply::apply;
use set::FieldSet;

use super::VERSION;

/// A manager: its name, its operation, and the version that it uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Manager {
    /// `Apply` or `Update`.
    operation: String,
    name: String,
    api_version: String,
    subresource: String,
}

impl Manager {
    /// The manager for an apply.
    fn applying(name: &str, object: &Value) -> Self {
        Self::new("Apply", name, object)
    }

    /// The manager for an update.
    fn updating(name: &str, object: &Value) -> Self {
        Self::new("Update", name, object)
    }

    fn new(operation: &str, name: &str, object: &Value) -> Self {
        Self {
            operation: operation.to_owned(),
            name: name.to_owned(),
            api_version: object["apiVersion"].as_str().unwrap_or(VERSION).to_owned(),
            subresource: String::new(),
        }
    }

    /// The form used in messages.
    fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            shown += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == "Update" {
            shown += &format!(" using {}", self.api_version);
        }
        shown
    }
}

/// An entry of `managedFields`.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedFieldsEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_type: Option<String>,
    #[serde(rename = "fieldsV1", skip_serializing_if = "Option::is_none")]
    fields_v1: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
}

/// The fields of each manager, and the time of its last change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(BTreeMap<Manager, (FieldSet, Option<Timestamp>)>);

/// Most managers by update that are kept separate; the oldest are merged, as in Kubernetes.
const UPDATE_MANAGERS_MAX: usize = 10;
/// The name of the merged manager.
const MERGED: &str = "ancient-changes";

impl Managers {
    /// Reads the `managedFields` of an object; entries that cannot be read are skipped.
    fn of(entries: &[Value]) -> Self {
        let read = |entry: &Value| {
            let entry: ManagedFieldsEntry = serde_json::from_value(entry.clone()).ok()?;
            let manager = Manager {
                operation: entry
                    .operation
                    .filter(|operation| matches!(operation.as_str(), "Apply" | "Update"))?,
                name: entry.manager.unwrap_or_default(),
                api_version: entry.api_version.unwrap_or_default(),
                subresource: entry.subresource.unwrap_or_default(),
            };
            let fields = entry.fields_v1?;
            Some((manager, (FieldSet::from_v1(&fields), entry.time)))
        };
        Self(entries.iter().filter_map(read).collect())
    }

    /// Writes `managedFields`: appliers first, then by time and name.
    fn to_json(&self) -> Vec<Value> {
        let mut managers: Vec<_> = self.0.iter().collect();
        let time = |time: &Option<Timestamp>| time.map(Timestamp::whole_seconds);
        managers.sort_by_cached_key(|(manager, (_, at))| {
            (manager.operation.clone(), time(at), (*manager).clone())
        });
        let entry = |(manager, (fields, at)): (&Manager, &(FieldSet, Option<Timestamp>))| {
            let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            serde_json::to_value(ManagedFieldsEntry {
                manager: some(&manager.name),
                operation: some(&manager.operation),
                api_version: some(&manager.api_version),
                subresource: some(&manager.subresource),
                time: time(at),
                fields_type: Some("FieldsV1".to_owned()),
                fields_v1: Some(fields.to_v1()),
            })
            .unwrap_or_default()
        };
        managers.into_iter().map(entry).collect()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes fields from all managers but one; a manager without fields is removed.
    fn take_from_others(&mut self, manager: &Manager, fields: &FieldSet) {
        for (other, (managed, _)) in &mut self.0 {
            if other != manager {
                *managed = std::mem::take(managed).minus(fields);
            }
        }
        self.0.retain(|other, (managed, _)| other == manager || !managed.is_empty());
    }

    /// The fields among these that other managers own.
    fn conflicts(&self, manager: &Manager, fields: &FieldSet) -> Vec<(Manager, FieldSet)> {
        let others = self.0.iter().filter(|(other, _)| *other != manager);
        let conflicts = others.map(|(other, (managed, _))| (other.clone(), managed.both(fields)));
        conflicts.filter(|(_, fields)| !fields.is_empty()).collect()
    }

    fn merge_oldest(&mut self) {
        let is_update =
            |manager: &&Manager| manager.operation == "Update" && manager.subresource.is_empty();
        let count = self.0.keys().filter(is_update).count();
        if count <= UPDATE_MANAGERS_MAX {
            return;
        }
        let mut updates: Vec<_> = self.0.keys().filter(is_update).cloned().collect();
        updates.sort_by_key(|manager| (self.0[manager].1, manager.clone()));
        let mut merged = (FieldSet::default(), None);
        let newest = updates.last().cloned();
        for manager in updates.into_iter().take(count - UPDATE_MANAGERS_MAX + 1) {
            if let Some((fields, time)) = self.0.remove(&manager) {
                merged = (merged.0.union(&fields), time.max(merged.1));
            }
        }
        let name = MERGED.to_owned();
        let manager = newest.map(|newest| Manager { name, ..newest });
        self.0.extend(manager.map(|manager| (manager, merged)));
    }
}

/// The managers of an object after a create or update by a manager: the fields that it added or changed belong to it
/// from now on. An object without any managers keeps none.
///
/// `old` is none for a new object. `given` are the `managedFields` of the new object: callers may set them, but an
/// empty list has no effect; a list of one empty entry resets them.
pub(in crate::kube) fn updated(
    old: Option<(&Value, &[Value])>,
    new: &Value,
    given: &[Value],
    manager: &str,
    now: Timestamp,
) -> Vec<Value> {
    if given == [Value::Object(serde_json::Map::new())] {
        return Vec::new();
    }
    let mut managers = Managers::of(given);
    let nothing = serde_json::json!({"metadata": {}, "spec": {}});
    let (old, is_new) = match old {
        Some((old, recorded)) => {
            if managers.is_empty() {
                managers = Managers::of(recorded);
            }
            (old, false)
        }
        None => {
            managers = Managers::default();
            (&nothing, true)
        }
    };
    if managers.is_empty() && !is_new {
        return Vec::new();
    }
    let (changed, removed) = FieldSet::difference_of(old, new);
    let manager = Manager::updating(manager, new);
    managers.take_from_others(&manager, &changed.clone().union(&removed));
    let before = managers.0.get(&manager).cloned().unwrap_or_default();
    let after = before.0.minus(&removed).union(&changed);
    let since = if changed.is_empty() { before.1 } else { Some(now) };
    managers.0.remove(&manager);
    if !after.is_empty() {
        managers.0.insert(manager, (after, since));
    }
    managers.merge_oldest();
    managers.to_json()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_nanoseconds(seconds * 1_000_000_000)
    }

    #[test]
    fn a_change_belongs_to_who_made_it() {
        let first = json!({"metadata": {}, "spec": {"hard": {"pods": "1", "services": "1"}}});
        let managed = updated(None, &first, &[], "create", at(1));
        let expected = json!({
            "manager": "create", "operation": "Update", "apiVersion": "v1", "time": "1970-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:hard": {".": {}, "f:pods": {}, "f:services": {}}}},
        });
        assert_eq!(managed, [expected]);
        let second = json!({"metadata": {}, "spec": {"hard": {"pods": "2"}}});
        let managed = updated(Some((&first, &managed)), &second, &managed, "patch", at(2));
        assert_eq!(managed.len(), 2);
        assert_eq!(managed[0]["fieldsV1"], json!({"f:spec": {"f:hard": {}}}));
        assert_eq!(managed[1]["fieldsV1"], json!({"f:spec": {"f:hard": {"f:pods": {}}}}));
        assert_eq!(
            updated(Some((&first, &managed)), &second, &[json!({})], "patch", at(2)),
            Vec::<Value>::new()
        );
        assert_eq!(updated(Some((&first, &[])), &second, &[], "patch", at(2)), Vec::<Value>::new());
    }

    #[test]
    fn managers_are_bounded() {
        let mut object = json!({"metadata": {}, "spec": {"hard": {}}});
        let mut managed = updated(None, &object, &[], "m", at(0));
        for number in 0..30 {
            let old = object.clone();
            object["spec"]["hard"][format!("count/{number}")] = "1".into();
            managed = updated(
                Some((&old, &managed)),
                &object,
                &managed,
                &format!("m{number}"),
                at(number),
            );
        }
        assert_eq!(managed.len(), UPDATE_MANAGERS_MAX);
        assert_eq!(managed[0]["manager"], MERGED);
    }
}
