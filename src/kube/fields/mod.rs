//! Field management: `metadata.managedFields`, and server-side apply.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff` and of `managedfields` in the API machinery, restricted
//! to the schema of quotas and groups.

mod set;

use std::collections::{BTreeMap, HashMap, HashSet};

use quota_semantics::{Timestamp, embedded::plain_value, quota::manifest::LAST_APPLIED};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use set::{FieldSet, Path, is_whole, shown};

use super::{
    Failure, Result, VERSION,
    resource::{Kind, Manifest},
};

// The managers of an object's fields, and how an update changes them.

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

// Server-side apply: a manager sends the fields that it wants, and owns exactly these.

/// The manager of the fields of an object that had no managers before its first apply.
const BEFORE: &str = "before-first-apply";
/// Only this manager takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kube) struct Applied {
    /// The object.
    pub(in crate::kube) object: Value,
    /// Its managers.
    pub(in crate::kube) managed: Vec<Value>,
}

/// Applies a configuration to an object; `live` and `managed` are empty for a new one.
///
/// # Errors
/// Other managers own fields that would change, and the apply is not forced.
pub(in crate::kube) fn apply(
    live: &Value,
    managed: &[Value],
    config: &Value,
    manager: &str,
    force: bool,
    now: Timestamp,
) -> Result<Applied> {
    let mut managers = Managers::of(managed);
    let fields = FieldSet::of(live);
    if managers.is_empty() && !fields.is_empty() {
        managers.0.insert(Manager::updating(BEFORE, live), (fields, Some(now)));
    }
    let force = force || (manager == KUBECTL && takes_over(live, &managers, config));
    let (mut object, managers) = merged(live, managers, config, manager, force, now)?;
    if manager == KUBECTL && last_applied(live).is_some() {
        remember(&mut object, config);
    }
    Ok(Applied { object, managed: managers.to_json() })
}

fn merged(
    live: &Value,
    mut managers: Managers,
    config: &Value,
    manager: &str,
    force: bool,
    now: Timestamp,
) -> Result<(Value, Managers)> {
    let manager = Manager::applying(manager, config);
    let wanted = FieldSet::of(config);
    let before = managers.0.get(&manager).cloned().unwrap_or_default();
    let mut object = live.clone();
    merge(&mut object, config, &mut Vec::new());
    let others = managers.0.iter().filter(|(other, _)| **other != manager);
    let others = others.fold(FieldSet::default(), |all, (_, (fields, _))| all.union(fields));
    // Fields that no manager wants any more are removed, unless something in them is still wanted.
    let kept = others.union(&wanted);
    remove(&mut object, &before.0.out_of_reach_of(&kept));
    let (changed, removed) = FieldSet::difference_of(live, &object);
    let conflicts = managers.conflicts(&manager, &changed);
    if !force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    managers.take_from_others(&manager, &changed.clone().union(&removed));
    let is_same = changed.is_empty() && removed.is_empty();
    let since = if is_same { before.1 } else { Some(now) };
    managers.0.remove(&manager);
    if !wanted.is_empty() {
        managers.0.insert(manager, (wanted, since));
    }
    Ok((object, managers))
}

/// Whether all conflicting fields were applied by kubectl itself before, without `--server-side`.
fn takes_over(live: &Value, managers: &Managers, config: &Value) -> bool {
    let kind = Kind::of_object(live);
    let last = last_applied(live).and_then(|text| Manifest::from_json(kind, text.as_bytes()).ok());
    let Some(last) = last.and_then(|last| last.to_json().ok()) else {
        return false;
    };
    let mut object = live.clone();
    merge(&mut object, config, &mut Vec::new());
    let (changed, _) = FieldSet::difference_of(live, &object);
    let manager = Manager::applying(KUBECTL, config);
    // Fields that were changed since then no longer belong to kubectl.
    let (differing, _) = FieldSet::difference_of(&last, live);
    let own = FieldSet::of(&last).minus(&differing);
    let conflicts = managers.conflicts(&manager, &changed);
    conflicts.into_iter().all(|(_, fields)| fields.minus(&own).is_empty())
}

fn last_applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][LAST_APPLIED].as_str()
}

/// Keeps the annotation of client-side apply up to date, so that a client can return to client-side apply.
fn remember(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = config["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(metadata) = config["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if metadata
            .get("annotations")
            .is_none_or(|annotations| annotations.as_object().is_none_or(Map::is_empty))
        {
            metadata.remove("annotations");
        }
    }
    object["metadata"]["annotations"][LAST_APPLIED] = format!("{config}\n").into();
}

/// Merges a configuration into an object: maps key by key, sets and keyed lists item by item, everything else as a
/// whole.
fn merge(object: &mut Value, config: &Value, path: &mut Path) {
    match (object, config) {
        (Value::Object(object), Value::Object(config)) if !is_whole(path) => {
            for (key, value) in config {
                path.push(format!("f:{key}"));
                merge(object.entry(key.clone()).or_insert(Value::Null), value, path);
                path.pop();
            }
        }
        (Value::Array(object), Value::Array(config)) if is_keyed(path) => {
            let places = places(object, config);
            for (item, place) in config.iter().zip(places) {
                match object.get_mut(place) {
                    Some(existing) => *existing = item.clone(),
                    None => object.push(item.clone()),
                }
            }
        }
        (object, config) => *object = config.clone(),
    }
}

/// Where the items of a configuration belong in a list: in the place of the first item with the same uid, or of the
/// first equal one without; or else behind the list.
fn places(list: &[Value], config: &[Value]) -> Vec<usize> {
    fn key(item: &Value) -> (bool, &Value) {
        item.get("uid").map_or((false, item), |uid| (true, uid))
    }
    let mut places = HashMap::new();
    for (place, item) in list.iter().enumerate() {
        places.entry(key(item)).or_insert(place);
    }
    let mut end = list.len();
    let place = |item| {
        *places.entry(key(item)).or_insert_with(|| {
            end += 1;
            end - 1
        })
    };
    config.iter().map(place).collect()
}

fn is_keyed(path: &[String]) -> bool {
    path == ["f:metadata", "f:finalizers"] || path == ["f:metadata", "f:ownerReferences"]
}

/// Removes fields.
fn remove(object: &mut Value, gone: &FieldSet) {
    match object {
        Value::Object(fields) => {
            for (element, gone) in gone.below() {
                let Some(name) = element.strip_prefix("f:") else {
                    continue;
                };
                if gone.is_member() {
                    fields.remove(name);
                } else if let Some(below) = fields.get_mut(name) {
                    remove(below, gone);
                }
            }
        }
        Value::Array(items) => {
            let keys = |kind| {
                let named = gone.below().filter_map(move |(element, _)| element.strip_prefix(kind));
                named.filter_map(|key| plain_value(key.as_bytes()).ok())
            };
            let values: HashSet<_> = keys("v:").collect();
            let uids: HashSet<_> = keys("k:").map(|key| key["uid"].clone()).collect();
            items.retain(|item| !values.contains(item) && !uids.contains(&item["uid"]));
        }
        _ => {}
    }
}

fn conflict(conflicts: &[(Manager, FieldSet)]) -> Failure {
    let mut by_manager = BTreeMap::<String, Vec<String>>::new();
    for (manager, fields) in conflicts {
        by_manager.entry(manager.shown()).or_default().extend(fields.paths().iter().map(shown));
    }
    let causes: Vec<_> = by_manager
        .iter()
        .flat_map(|(manager, fields)| {
            fields.iter().map(move |field| (format!("conflict with {manager}"), field.clone()))
        })
        .collect();
    let message = match causes.as_slice() {
        [(conflict, field)] => format!("Apply failed with 1 conflict: {conflict}: {field}"),
        many => {
            let of = |(manager, fields): (&String, &Vec<String>)| {
                let fields: Vec<_> = fields.iter().map(|field| format!("- {field}")).collect();
                format!("conflicts with {manager}:\n{}", fields.join("\n"))
            };
            let said: Vec<_> = by_manager.iter().map(of).collect();
            format!("Apply failed with {} conflicts: {}", many.len(), said.join("\n"))
        }
    };
    Failure::apply_conflict(message, causes)
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

    /// Managers name what they have set as they like.
    #[test]
    fn texts_in_the_names_of_items_are_not_read_as_json() {
        let mut object = json!({"metadata": {"finalizers": ["x"]}});
        let embedded = r#"v:{"$serde_json::private::RawValue":"\"x\""}"#;
        let gone = json!({"f:metadata": {"f:finalizers": {embedded: {}}}});
        remove(&mut object, &FieldSet::from_v1(&gone));
        assert_eq!(object["metadata"]["finalizers"], json!(["x"]));
    }

    const NOW: Timestamp = Timestamp::EPOCH;

    fn quota(hard: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
    }

    #[test]
    fn appliers_share_own_and_give_up_fields() {
        let nothing = json!({});
        let a =
            apply(&nothing, &[], &quota(json!({"pods": "1", "services": "2"})), "a", false, NOW)
                .unwrap();
        assert_eq!(a.object["spec"]["hard"], json!({"pods": "1", "services": "2"}));
        // An equal value is shared, a different one is a conflict.
        let b =
            apply(&a.object, &a.managed, &quota(json!({"pods": "1"})), "b", false, NOW).unwrap();
        let refused = apply(&b.object, &b.managed, &quota(json!({"pods": "9"})), "b", false, NOW)
            .unwrap_err();
        assert_eq!(
            refused.to_json()["message"],
            "Apply failed with 1 conflict: conflict with \"a\": .spec.hard.pods"
        );
        let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".spec.hard.pods"});
        assert_eq!(refused.to_json()["details"]["causes"], json!([cause]));
        let forced =
            apply(&b.object, &b.managed, &quota(json!({"pods": "9"})), "b", true, NOW).unwrap();
        assert_eq!(forced.object["spec"]["hard"], json!({"pods": "9", "services": "2"}));
        // Fields that no manager wants any more are removed; fields that another manager wants stay.
        let gone = apply(
            &forced.object,
            &forced.managed,
            &quota(json!({"configmaps": "3"})),
            "b",
            false,
            NOW,
        )
        .unwrap();
        assert_eq!(gone.object["spec"]["hard"], json!({"services": "2", "configmaps": "3"}));
    }

    #[test]
    fn a_map_stays_while_something_in_it_is_wanted() {
        let live = quota(json!({"pods": "1", "services": "2"}));
        let managed = super::updated(None, &live, &[], "a", NOW);
        let mut managed = managed[0].clone();
        managed["operation"] = "Apply".into();
        let applied =
            apply(&live, &[managed], &quota(json!({"pods": "1"})), "a", false, NOW).unwrap();
        assert_eq!(applied.object["spec"]["hard"], json!({"pods": "1"}));
    }

    #[test]
    fn unmanaged_fields_belong_to_before() {
        let live = quota(json!({"pods": "1"}));
        let refused = apply(&live, &[], &quota(json!({"pods": "2"})), "a", false, NOW).unwrap_err();
        let message = refused.to_json()["message"].to_string();
        assert!(message.contains("before-first-apply\\\" using v1"), "{message}");
    }

    #[test]
    fn kubectl_takes_over_from_itself() {
        let mut live = quota(json!({"pods": "1"}));
        let last = format!("{live}\n");
        live["metadata"]["annotations"] = json!({LAST_APPLIED: last});
        let managed = super::updated(None, &live, &[], "kubectl-client-side-apply", NOW);
        let config = quota(json!({"pods": "2"}));
        assert!(apply(&live, &managed, &config, "other", false, NOW).is_err());
        let applied = apply(&live, &managed, &config, KUBECTL, false, NOW).unwrap();
        assert_eq!(applied.object["spec"]["hard"]["pods"], "2");
        assert_eq!(applied.object["metadata"]["annotations"][LAST_APPLIED], format!("{config}\n"));
        live["spec"]["hard"]["pods"] = "5".into();
        assert!(apply(&live, &managed, &config, KUBECTL, false, NOW).is_err());
    }

    /// If each of these were looked for among all, this would take minutes.
    #[test]
    fn many_finalizers_are_applied_and_given_up_in_little_time() {
        let of = |numbers: std::ops::Range<u32>| {
            let finalizers: Vec<_> = numbers.map(|number| format!("x/{number}")).collect();
            let mut quota = quota(json!({}));
            quota["metadata"]["finalizers"] = finalizers.into();
            quota
        };
        let nothing = json!({});
        let first = apply(&nothing, &[], &of(0..100_000), "a", false, NOW).unwrap();
        let config = of(50_000..150_000);
        let second = apply(&first.object, &first.managed, &config, "a", false, NOW).unwrap();
        assert_eq!(second.object, config);
    }
}
