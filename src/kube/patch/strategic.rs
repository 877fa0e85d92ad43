//! Strategic merge patches: maps are merged; lists are replaced, except those that the schema declares as merged.
//!
//! As in `k8s.io/apimachinery/pkg/util/strategicpatch`, for the lists of a quota.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// How the items of a list are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeBy {
    /// By the value of a field.
    Key(&'static str),
    /// By themselves.
    Value,
}

/// The lists that are merged; all others are replaced.
fn merge_by(path: &[&str]) -> Option<MergeBy> {
    match path {
        ["metadata", "ownerReferences"] => Some(MergeBy::Key("uid")),
        ["metadata", "finalizers"] => Some(MergeBy::Value),
        _ => None,
    }
}

/// Applies a patch to an object.
///
/// # Errors
/// The patch has an unknown directive, or an item without its merge key.
pub(super) fn apply(object: &mut Value, patch: &Value) -> Result<(), String> {
    match patch {
        Value::Object(patch) => merge_map(object, patch, &mut Vec::new()),
        _ => Err("a strategic merge patch must be an object".to_owned()),
    }
}

fn merge_map<'a>(
    target: &mut Value,
    patch: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
) -> Result<(), String> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return Ok(());
    };
    if !begin(fields, patch)? {
        return Ok(());
    }
    for (name, value) in patch {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            if let (Some(Value::Array(items)), Value::Array(deleted)) =
                (fields.get_mut(list), value)
            {
                items.retain(|item| !deleted.contains(item));
            }
            continue;
        }
        path.push(name);
        merge_field(fields, name, value, path)?;
        path.pop();
    }
    put_in_order(fields, patch, path);
    Ok(())
}

/// Carries out the directives of a patch that concern all fields. False if the rest of the patch is to be ignored.
fn begin(fields: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<bool, String> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => fields.clear(),
        Some(Some("delete")) => {
            fields.clear();
            return Ok(false);
        }
        Some(other) => return Err(format!("Unknown patch type: {}", other.unwrap_or_default())),
    }
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        fields.retain(|name, _| {
            retained
                .iter()
                .any(|retained| retained.as_str() == Some(name))
        });
    }
    Ok(true)
}

/// `path` is the path of the field.
fn merge_field<'a>(
    fields: &mut Map<String, Value>,
    name: &str,
    value: &'a Value,
    path: &mut Vec<&'a str>,
) -> Result<(), String> {
    match (value, merge_by(path)) {
        (Value::Null, _) => {
            fields.remove(name);
        }
        (Value::Object(below), _) => {
            let target = fields
                .entry(name)
                .or_insert_with(|| Value::Object(Map::new()));
            merge_map(target, below, path)?;
            if below.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                fields.remove(name);
            }
        }
        (Value::Array(items), Some(by)) => {
            let target = fields
                .entry(name)
                .or_insert_with(|| Value::Array(Vec::new()));
            merge_list(target, items, by)?;
        }
        (value, _) => {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Sorts merged lists into the order of the patch; items that the patch does not name come last.
fn put_in_order<'a>(
    fields: &mut Map<String, Value>,
    patch: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
) {
    for (name, order) in patch {
        let Some(list) = name.strip_prefix(ORDER) else {
            continue;
        };
        path.push(list);
        if let (Some(Value::Array(items)), Some(order), Some(by)) =
            (fields.get_mut(list), order.as_array(), merge_by(path))
        {
            let place = |item: &Value| order.iter().position(|wanted| is_same(item, wanted, by));
            items.sort_by_key(|item| place(item).unwrap_or(usize::MAX));
        }
        path.pop();
    }
}

fn merge_list(target: &mut Value, patch: &[Value], by: MergeBy) -> Result<(), String> {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(items) = target else {
        return Ok(());
    };
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        *items = patch
            .iter()
            .filter(|item| directive(item).is_none())
            .cloned()
            .collect();
        return Ok(());
    }
    for item in patch {
        if let MergeBy::Key(key) = by
            && item.get(key).is_none()
        {
            return Err(format!(
                "map: {item} does not contain declared merge key: {key}"
            ));
        }
        let existing = items
            .iter()
            .position(|candidate| is_same(candidate, item, by));
        match (existing, directive(item).as_deref()) {
            (Some(place), Some("delete")) => {
                items.remove(place);
            }
            (None, Some("delete")) => {}
            (_, Some(other)) if other != "merge" => {
                return Err(format!("Unknown patch type: {other}"));
            }
            (Some(place), _) => {
                if let Value::Object(patch) = item {
                    merge_map(&mut items[place], patch, &mut Vec::new())?;
                }
            }
            (None, _) => {
                let mut item = item.clone();
                if let Some(fields) = item.as_object_mut() {
                    fields.remove(DIRECTIVE);
                }
                items.push(item);
            }
        }
    }
    Ok(())
}

fn is_same(item: &Value, other: &Value, by: MergeBy) -> bool {
    match by {
        MergeBy::Key(key) => item.get(key).is_some() && item.get(key) == other.get(key),
        MergeBy::Value => item == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn patched(object: Value, patch: Value, expected: Value) {
        let mut patched = object;
        apply(&mut patched, &patch).unwrap();
        assert_eq!(patched, expected);
    }

    #[test]
    fn maps_are_merged_and_null_removes() {
        patched(
            json!({"spec": {"hard": {"pods": "1", "services": "2"}, "scopes": ["BestEffort"]}}),
            json!({"spec": {"hard": {"pods": "3", "services": null}, "scopes": ["Terminating"]}}),
            json!({"spec": {"hard": {"pods": "3"}, "scopes": ["Terminating"]}}),
        );
        patched(
            json!({"spec": {"hard": {"pods": "1"}}}),
            json!({"spec": {"hard": {"$patch": "replace", "services": "2"}}}),
            json!({"spec": {"hard": {"services": "2"}}}),
        );
        patched(
            json!({"spec": {"hard": {}}}),
            json!({"spec": {"$patch": "delete"}}),
            json!({}),
        );
        patched(
            json!({"spec": {"a": 1, "b": 2}}),
            json!({"spec": {"$retainKeys": ["a", "c"], "c": 3}}),
            json!({"spec": {"a": 1, "c": 3}}),
        );
    }

    #[test]
    fn finalizers_and_owners_are_merged_item_by_item() {
        patched(
            json!({"metadata": {"finalizers": ["a/a", "b/b"]}}),
            json!({"metadata": {"finalizers": ["c/c"], "$deleteFromPrimitiveList/finalizers": ["a/a"],
                "$setElementOrder/finalizers": ["c/c", "b/b"]}}),
            json!({"metadata": {"finalizers": ["c/c", "b/b"]}}),
        );
        let owners = |list: Value| json!({"metadata": {"ownerReferences": list}});
        let existing = owners(json!([{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]));
        let patch = owners(
            json!([{"uid": "1", "name": "x"}, {"uid": "2", "$patch": "delete"}, {"uid": "3"}]),
        );
        patched(
            existing.clone(),
            patch,
            owners(json!([{"uid": "1", "name": "x"}, {"uid": "3"}])),
        );
        let patch = owners(json!([{"$patch": "replace"}, {"uid": "4"}]));
        patched(existing.clone(), patch, owners(json!([{"uid": "4"}])));
        let mut object = existing;
        assert!(apply(&mut object, &owners(json!([{"name": "no uid"}]))).is_err());
        assert!(apply(&mut object, &json!({"spec": {"$patch": "explode"}})).is_err());
    }
}
