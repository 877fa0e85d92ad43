//! Server-side apply: a manager sends the fields that it wants, and owns exactly these.

use std::collections::{BTreeMap, HashMap, HashSet};

use quota_semantics::{Timestamp, embedded::plain_value, quota::manifest::LAST_APPLIED};
use serde_json::{Map, Value};

use super::{
    Manager, Managers,
    set::{FieldSet, Path, is_whole, shown},
};
use crate::kube::{
    Failure, Result,
    resource::{Kind, Manifest},
};

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

    use super::{super::updated, *};

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
        let managed = updated(None, &live, &[], "a", NOW);
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
        let managed = updated(None, &live, &[], "kubectl-client-side-apply", NOW);
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
