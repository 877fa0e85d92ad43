//! Patches: four kinds, distinguished by their media type.

use std::collections::{BTreeSet, HashMap, HashSet};

use json_patch::{PatchOperation, jsonptr::Pointer};
use quota_semantics::{embedded::refuse_embedded, quantity::exact_numbers, yaml};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    Failure, Result,
    request::{Body, Sent},
};
use crate::problem::in_plain_words;

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Most operations of a JSON patch, as in Kubernetes.
const OPERATIONS_MAX: usize = 10_000;
/// Most bytes that the `copy` operations of a JSON patch may copy, since each could double the object's size. Those of
/// `move` count too, since each is walked through.
const COPIED_MAX_BYTES: usize = 3 << 20;
/// Most items of the lists that the operations of a JSON patch put values into or take values out of: each of them may
/// move all items of its list.
const MOVED_MAX_ITEMS: usize = 2_000_000;
/// Deepest nesting of an object, the same as that of a body. Values are printed, copied and dropped by recursion, and
/// each operation of a JSON patch could double their depth.
const DEPTH_MAX: usize = 127;

/// A patch.
#[derive(Clone, Debug)]
pub(super) enum Patch {
    /// JSON merge patch (RFC 7396).
    Merge(Sent),
    /// Kubernetes' merge patch, which can merge lists.
    Strategic(Sent),
    /// JSON patch (RFC 6902).
    Json(Vec<PatchOperation>),
    /// Server-side apply.
    Apply(Sent),
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    /// The media type is not that of a patch, or the text is not of that type.
    pub(super) fn read(body: &Body) -> Result<Self> {
        match body.media_type.as_str() {
            MERGE => object(&body.bytes).map(Self::Merge),
            STRATEGIC => object(&body.bytes).map(Self::Strategic),
            JSON_PATCH => operations(&body.bytes).map(Self::Json),
            APPLY => Sent::yaml_or_json(&body.bytes).map(|mut sent| {
                // A limit without a value is left out, as `kubectl apply` leaves it out.
                yaml::without_nulls(&mut sent.json);
                Self::Apply(sent)
            }),
            _ => Err(Failure::unsupported_media_type(
                &[JSON_PATCH, MERGE, STRATEGIC, APPLY].join(", "),
            )),
        }
    }
}

fn decoded<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    refuse_embedded(text).and_then(|()| serde_json::from_slice(&exact_numbers(text))).map_err(
        |error| Failure::bad_request(format!("error decoding patch: {}", in_plain_words(&error))),
    )
}

fn object(text: &[u8]) -> Result<Sent> {
    let patch = Sent::json(text)?;
    if !patch.json.is_object() {
        return Err(Failure::bad_request("error decoding patch: it must be an object"));
    }
    Ok(patch)
}

fn operations(text: &[u8]) -> Result<Vec<PatchOperation>> {
    let operations: Vec<PatchOperation> = decoded(text)?;
    if operations.len() > OPERATIONS_MAX {
        let many = operations.len();
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {many}"
        );
        return Err(Failure::bad_request(message));
    }
    Ok(operations)
}

/// The object after a merge patch.
pub(super) fn merge(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

/// The object after a strategic merge patch.
///
/// # Errors
/// The patch has an unknown directive, or an item without its merge key.
pub(super) fn strategic(mut object: Value, patch: &Value) -> Result<Value> {
    apply(&mut object, patch).map_err(Failure::bad_request)?;
    Ok(object)
}

/// The object after a JSON patch.
///
/// # Errors
/// An operation does not apply to the object.
pub(super) fn json(mut object: Value, operations: &[PatchOperation]) -> Result<Value> {
    let (mut copied, mut moved) = (0_usize, 0_usize);
    for operation in operations {
        if let PatchOperation::Copy(_) | PatchOperation::Move(_) = operation {
            let source = inserted(&object, operation).map(|(value, _)| value.to_string());
            copied = copied.saturating_add(source.map_or(0, |source| source.len()));
        }
        moved = moved.saturating_add(items_to_move(&object, operation));
        if copied > COPIED_MAX_BYTES || moved > MOVED_MAX_ITEMS {
            return Err(Failure::too_large());
        }
        if inserted(&object, operation).is_some_and(|(value, path)| !fits(value, path)) {
            let why = format!("an object may be nested {DEPTH_MAX} levels deep");
            return Err(Failure::unpatchable(why));
        }
        json_patch::patch(&mut object, std::slice::from_ref(operation))
            .map_err(|error| Failure::unpatchable(error.to_string()))?;
    }
    Ok(object)
}

/// The value that an operation inserts into an object, and the place.
fn inserted<'a>(
    object: &'a Value,
    operation: &'a PatchOperation,
) -> Option<(&'a Value, &'a Pointer)> {
    let at = |from: &Pointer| object.pointer(from.as_str());
    match operation {
        PatchOperation::Add(add) => Some((&add.value, &add.path)),
        PatchOperation::Replace(replace) => Some((&replace.value, &replace.path)),
        PatchOperation::Copy(copy) => Some((at(&copy.from)?, &copy.path)),
        PatchOperation::Move(moved) => Some((at(&moved.from)?, &moved.path)),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    }
}

/// The number of items of the lists that an operation puts a value into or takes one out of.
fn items_to_move(object: &Value, operation: &PatchOperation) -> usize {
    let items = |path: &Pointer| {
        let parent = path.parent()?;
        object.pointer(parent.as_str())?.as_array().map(Vec::len)
    };
    let of = |path: &Pointer| items(path).unwrap_or(0);
    match operation {
        PatchOperation::Add(add) => of(&add.path),
        PatchOperation::Copy(copy) => of(&copy.path),
        PatchOperation::Remove(remove) => of(&remove.path),
        PatchOperation::Move(moved) => of(&moved.from).saturating_add(of(&moved.path)),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Whether a value at this place is not nested too deeply.
fn fits(value: &Value, path: &Pointer) -> bool {
    let below = DEPTH_MAX.checked_sub(path.count());
    below.is_some_and(|levels| is_within(value, levels))
}

/// Whether a value has at most this many levels.
fn is_within(value: &Value, levels: usize) -> bool {
    let below = levels.checked_sub(1);
    match value {
        Value::Array(items) => {
            below.is_some_and(|levels| items.iter().all(|item| is_within(item, levels)))
        }
        Value::Object(fields) => {
            below.is_some_and(|levels| fields.values().all(|field| is_within(field, levels)))
        }
        _ => true,
    }
}

// Strategic merge patches: maps are merged; lists are replaced, except those that the schema declares as merged.
//
// As in `k8s.io/apimachinery/pkg/util/strategicpatch`, for the lists of a quota.

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
fn apply(object: &mut Value, patch: &Value) -> std::result::Result<(), String> {
    match patch {
        Value::Object(patch) => merge_map(object, patch, &mut Vec::new()),
        _ => Err("a strategic merge patch must be an object".to_owned()),
    }
}

fn merge_map<'a>(
    target: &mut Value,
    patch: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
) -> std::result::Result<(), String> {
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
fn begin(
    fields: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> std::result::Result<bool, String> {
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
) -> std::result::Result<(), String> {
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
) -> std::result::Result<(), String> {
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
    fn merge<'a>(
        &mut self,
        item: &'a Value,
        path: &mut Vec<&'a str>,
    ) -> std::result::Result<(), String> {
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
    fn find(&self, item: &Value) -> std::result::Result<Option<usize>, String> {
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

    #[test]
    fn a_json_patch_applies_in_order_and_is_bounded() {
        let object = json!({"spec": {"hard": {"pods": "1"}}});
        let read = |patch: Value| operations(patch.to_string().as_bytes()).unwrap();
        let patch = read(json!([
            {"op": "test", "path": "/spec/hard/pods", "value": "1"},
            {"op": "replace", "path": "/spec/hard/pods", "value": "14"},
            {"op": "add", "path": "/spec/hard/services", "value": "2"},
        ]));
        let expected = json!({"spec": {"hard": {"pods": "14", "services": "2"}}});
        assert_eq!(json(object.clone(), &patch).unwrap(), expected);
        let missing = read(json!([{"op": "replace", "path": "/spec/soft", "value": 1}]));
        assert!(json(object.clone(), &missing).is_err());
        let copy = |number| json!({"op": "copy", "from": "", "path": format!("/spec/x{number}")});
        let doubling = read((0..100).map(copy).collect());
        assert!(json(object, &doubling).is_err());
    }

    /// What becomes of an object with an empty map `spec` after a patch.
    fn after(patch: Vec<Value>) -> Result<Value> {
        let patch = operations(Value::from(patch).to_string().as_bytes()).unwrap();
        json(json!({"spec": {}}), &patch)
    }

    /// The depth doubles: a value is put into its innermost map, whose path is as long as the value is deep.
    fn doubling(times: u32, step: impl Fn(&str) -> Vec<Value>) -> Vec<Value> {
        let start = json!({"op": "add", "path": "/spec/x", "value": {}});
        let steps = (0..times).flat_map(|time| step(&"/".repeat(1 << time)));
        [start].into_iter().chain(steps).collect()
    }

    #[test]
    fn a_json_patch_does_not_nest_too_deeply() {
        let refused = |patch| after(patch).unwrap_err().to_json()["code"] == 422;
        let copying = |inner: &str| {
            vec![json!({"op": "copy", "from": "/spec/x", "path": format!("/spec/x{inner}")})]
        };
        assert!(after(doubling(6, copying)).is_ok() && refused(doubling(17, copying)));
        let moving = |inner: &str| {
            vec![
                json!({"op": "copy", "from": "/spec/x", "path": "/spec/y"}),
                json!({"op": "move", "from": "/spec/y", "path": format!("/spec/x{inner}")}),
            ]
        };
        assert!(after(doubling(6, moving)).is_ok() && refused(doubling(17, moving)));
    }

    #[test]
    fn values_on_long_paths_do_not_nest_too_deeply() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!({"": value}));
        for op in ["add", "replace"] {
            let put = |levels: usize| {
                let path = format!("/spec{}", "/".repeat(100));
                let start = json!({"op": "add", "path": "/spec", "value": nested(100)});
                vec![start, json!({"op": op, "path": path, "value": nested(levels)})]
            };
            assert!(after(put(26)).is_ok(), "{op}");
            assert!(after(put(27)).is_err(), "{op}");
        }
        let whole = |levels: usize| vec![json!({"op": "add", "path": "", "value": nested(levels)})];
        assert!(after(whole(125)).is_ok());
        let long = |op: &str| json!({"op": op, "path": "/".repeat(200), "value": nested(0)});
        assert!(after(vec![long("add")]).is_err() && after(vec![long("replace")]).is_err());
    }

    #[test]
    fn moves_are_bounded() {
        let big = "x".repeat(COPIED_MAX_BYTES / 100);
        let start = json!({"op": "add", "path": "/spec/a", "value": big});
        let there = json!({"op": "move", "from": "/spec/a", "path": "/spec/b"});
        let back = json!({"op": "move", "from": "/spec/b", "path": "/spec/a"});
        let moves = |times| {
            let moves = std::iter::repeat_n([there.clone(), back.clone()], times).flatten();
            [start.clone()].into_iter().chain(moves).collect()
        };
        assert!(after(moves(10)).is_ok());
        assert!(after(moves(100)).is_err());
    }

    #[test]
    fn items_of_long_lists_are_moved_few_times() {
        let list = vec![1; MOVED_MAX_ITEMS / 100];
        let start = json!({"op": "add", "path": "/spec/x", "value": list});
        let first = "/spec/x/0";
        for step in [
            json!({"op": "add", "path": first, "value": 2}),
            json!({"op": "remove", "path": first}),
            json!({"op": "copy", "from": "/spec/x/1", "path": first}),
            json!({"op": "move", "from": first, "path": "/spec/y"}),
            json!({"op": "move", "from": first, "path": "/spec/x/1"}),
        ] {
            let steps = |times| {
                let steps = std::iter::repeat_n(step.clone(), times);
                [start.clone()].into_iter().chain(steps).collect()
            };
            assert!(after(steps(49)).is_ok(), "{step}");
            let refused = after(steps(120)).unwrap_err().to_json();
            assert_eq!(refused["code"], 413, "{step}");
        }
    }

    #[test]
    fn a_merge_patch_removes_what_is_null() {
        let object = json!({"spec": {"hard": {"pods": "1", "services": "2"}}});
        let patch = json!({"spec": {"hard": {"services": null, "secrets": "3"}}});
        assert_eq!(merge(object, &patch), json!({"spec": {"hard": {"pods": "1", "secrets": "3"}}}));
    }

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
