//! Patches: four kinds, distinguished by their media type.

mod strategic;

use json_patch::{PatchOperation, jsonptr::Pointer};
use quota_semantics::{embedded::refuse_embedded, quantity::exact_numbers, yaml};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    body::{Body, Sent},
    status::{Failure, Result},
};
use crate::parse_errors::in_plain_words;

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
    strategic::apply(&mut object, patch).map_err(Failure::bad_request)?;
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
}
