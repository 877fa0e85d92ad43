//! Strategic merge patches: maps are merged; lists are replaced, except those that the schema declares as merged.
//!
//! As in `k8s.io/apimachinery/pkg/util/strategicpatch`, for the lists of a quota.

use std::collections::{BTreeSet, HashMap, HashSet};

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

impl MergeBy {
    /// What an item is matched by. An item without it matches none.
    fn key(self, item: &Value) -> Option<&Value> {
        match self {
            Self::Key(name) => item.get(name),
            Self::Value => Some(item),
        }
    }
}

/// Whether a path is that of an item of a merged list, or of something in one.
fn is_in_item(path: &[&str]) -> bool {
    path.get(..2).is_some_and(|list| merge_by(list).is_some())
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
            // An item of a merged list has no lists, and many patches may be meant for the same item.
            if !is_in_item(path)
                && let (Some(Value::Array(items)), Value::Array(deleted)) =
                    (fields.get_mut(list), value)
            {
                let deleted: HashSet<_> = deleted.iter().collect();
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
        let retained = retained.iter().filter_map(Value::as_str);
        *fields = retained.filter_map(|name| fields.remove_entry(name)).collect();
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
            let target = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
            merge_map(target, below, path)?;
            if below.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                fields.remove(name);
            }
        }
        (Value::Array(items), Some(by)) => {
            let target = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            merge_list(target, items, by, path)?;
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
            // Backwards, so that of equal ones the first counts.
            let wanted = order.iter().enumerate().rev();
            let places: HashMap<_, _> =
                wanted.filter_map(|(place, wanted)| Some((by.key(wanted)?, place))).collect();
            let place = |item: &Value| by.key(item).and_then(|key| places.get(key)).copied();
            items.sort_by_cached_key(|item| place(item).unwrap_or(usize::MAX));
        }
        path.pop();
    }
}

/// `path` is the path of the list.
fn merge_list<'a>(
    target: &mut Value,
    patch: &'a [Value],
    by: MergeBy,
    path: &mut Vec<&'a str>,
) -> Result<(), String> {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(items) = target else {
        return Ok(());
    };
    if patch.iter().any(|item| directive(item) == Some("replace")) {
        *items = patch.iter().filter(|item| directive(item).is_none()).cloned().collect();
        return Ok(());
    }
    let mut list = List::new(std::mem::take(items), by);
    for item in patch {
        list.merge(item, path)?;
    }
    *items = list.items.into_iter().flatten().collect();
    Ok(())
}

fn directive(item: &Value) -> Option<&str> {
    item.get(DIRECTIVE).and_then(Value::as_str)
}

/// A list that is merged item by item.
struct List {
    by: MergeBy,
    /// The items. Those that are gone leave their place empty, so that the others keep theirs.
    items: Vec<Option<Value>>,
    /// The places of the items with a key.
    places: HashMap<Value, BTreeSet<usize>>,
}

impl List {
    fn new(items: Vec<Value>, by: MergeBy) -> Self {
        let mut list = Self { by, items: Vec::new(), places: HashMap::new() };
        for item in items {
            list.push(item);
        }
        list
    }

    /// `path` is the path of the list.
    fn merge<'a>(&mut self, item: &'a Value, path: &mut Vec<&'a str>) -> Result<(), String> {
        match (self.find(item)?, directive(item)) {
            (Some(place), Some("delete")) => {
                self.take(place);
            }
            (None, Some("delete")) => {}
            (_, Some(other)) if other != "merge" => {
                return Err(format!("Unknown patch type: {other}"));
            }
            (Some(place), _) => {
                if let Value::Object(patch) = item
                    && let Some(mut merged) = self.take(place)
                {
                    merge_map(&mut merged, patch, path)?;
                    self.put(place, merged);
                }
            }
            (None, _) => {
                let mut item = item.clone();
                if let Some(fields) = item.as_object_mut() {
                    fields.remove(DIRECTIVE);
                }
                self.push(item);
            }
        }
        Ok(())
    }

    /// The place of the first item that matches.
    fn find(&self, item: &Value) -> Result<Option<usize>, String> {
        match (self.by, self.by.key(item)) {
            (MergeBy::Key(key), None) => {
                Err(format!("map: {item} does not contain declared merge key: {key}"))
            }
            (_, key) => {
                let places = key.and_then(|key| self.places.get(key));
                Ok(places.and_then(BTreeSet::first).copied())
            }
        }
    }

    fn push(&mut self, item: Value) {
        self.items.push(None);
        self.put(self.items.len() - 1, item);
    }

    fn put(&mut self, place: usize, item: Value) {
        if let Some(key) = self.by.key(&item) {
            self.places.entry(key.clone()).or_default().insert(place);
        }
        self.items[place] = Some(item);
    }

    fn take(&mut self, place: usize) -> Option<Value> {
        let item = self.items[place].take()?;
        if let Some(places) = self.by.key(&item).and_then(|key| self.places.get_mut(key)) {
            places.remove(&place);
        }
        Some(item)
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
        patched(json!({"spec": {"hard": {}}}), json!({"spec": {"$patch": "delete"}}), json!({}));
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
        patched(existing.clone(), patch, owners(json!([{"uid": "1", "name": "x"}, {"uid": "3"}])));
        let patch = owners(json!([{"$patch": "replace"}, {"uid": "4"}]));
        patched(existing.clone(), patch, owners(json!([{"uid": "4"}])));
        let mut object = existing;
        assert!(apply(&mut object, &owners(json!([{"name": "no uid"}]))).is_err());
        assert!(apply(&mut object, &json!({"spec": {"$patch": "explode"}})).is_err());
    }

    #[test]
    fn of_items_that_match_the_first_is_meant() {
        let owners = |list: Value| json!({"metadata": {"ownerReferences": list}});
        patched(
            owners(json!([{"uid": "1", "n": 1}, {"uid": "2"}, {"uid": "1", "n": 2}])),
            owners(
                json!([{"uid": "1", "$patch": "delete"}, {"uid": "1", "n": 3}, {"uid": "4"}, {"uid": "4", "n": 5}]),
            ),
            owners(json!([{"uid": "2"}, {"uid": "1", "n": 3}, {"uid": "4", "n": 5}])),
        );
        // An item whose key a patch takes away is not found any more.
        patched(
            owners(json!([])),
            owners(json!([{"uid": null, "n": 1}, {"uid": null, "n": 2}, {"uid": null, "n": 3}])),
            owners(json!([{"n": 2}, {"uid": null, "n": 3}])),
        );
        patched(
            json!({"metadata": {"finalizers": ["a", "b", "c", "b"]}}),
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "b", "x", "c"]}}),
            json!({"metadata": {"finalizers": ["c", "b", "b", "a"]}}),
        );
    }

    /// If each item were looked for among all, this would take minutes.
    #[test]
    fn many_items_are_merged_in_little_time() {
        let many = |numbers: std::ops::Range<u32>| -> Vec<Value> {
            numbers.map(|number| number.to_string().into()).collect()
        };
        let (all, first): (Vec<_>, Vec<_>) = (many(0..100_000), many(0..50_000));
        let backwards: Vec<_> = all.iter().rev().cloned().collect();
        patched(
            json!({"metadata": {"finalizers": first.clone()}}),
            json!({"metadata": {"finalizers": all, "$setElementOrder/finalizers": backwards.clone()}}),
            json!({"metadata": {"finalizers": backwards.clone()}}),
        );
        patched(
            json!({"metadata": {"finalizers": backwards}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": first}}),
            json!({"metadata": {"finalizers": many(50_000..100_000).into_iter().rev().collect::<Vec<_>>()}}),
        );
        let fields: Map<_, _> = (0..100_000).map(|n| (n.to_string(), n.into())).collect();
        let names: Vec<_> = fields.keys().rev().cloned().collect();
        patched(
            json!({"spec": {"hard": fields.clone()}}),
            json!({"spec": {"hard": {"$retainKeys": names}}}),
            json!({"spec": {"hard": fields}}),
        );
    }
}
