//! Patches: four kinds, distinguished by their media type.

mod strategic;

use json_patch::PatchOperation;
use quota_semantics::quantity::exact_numbers;
use serde_json::Value;

use super::{
    body::{Body, Sent},
    status::{Failure, Result},
};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Most operations of a JSON patch, as in Kubernetes.
const OPERATIONS_MAX: usize = 10_000;
/// Most bytes that the `copy` operations of a JSON patch may copy, since each could double the object's size.
const COPIED_MAX_BYTES: usize = 3 << 20;

/// A patch.
#[derive(Clone, Debug)]
pub(super) enum Patch {
    /// JSON merge patch (RFC 7396).
    Merge(Value),
    /// Kubernetes' merge patch, which can merge lists.
    Strategic(Value),
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
            APPLY => Sent::yaml_or_json(&body.bytes).map(Self::Apply),
            _ => Err(Failure::unsupported_media_type(
                &[JSON_PATCH, MERGE, STRATEGIC, APPLY].join(", "),
            )),
        }
    }
}

fn object(text: &[u8]) -> Result<Value> {
    let patch: Value = serde_json::from_slice(&exact_numbers(text))
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    if !patch.is_object() {
        return Err(Failure::bad_request(
            "error decoding patch: it must be an object",
        ));
    }
    Ok(patch)
}

fn operations(text: &[u8]) -> Result<Vec<PatchOperation>> {
    let operations: Vec<PatchOperation> = serde_json::from_slice(&exact_numbers(text))
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
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
    let mut copied = 0_usize;
    for operation in operations {
        if let PatchOperation::Copy(copy) = operation {
            let source = object.pointer(copy.from.as_str()).map(Value::to_string);
            copied = copied.saturating_add(source.map_or(0, |source| source.len()));
            if copied > COPIED_MAX_BYTES {
                return Err(Failure::too_large());
            }
        }
        json_patch::patch(&mut object, std::slice::from_ref(operation))
            .map_err(|error| Failure::unpatchable(error.to_string()))?;
    }
    Ok(object)
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

    #[test]
    fn a_merge_patch_removes_what_is_null() {
        let object = json!({"spec": {"hard": {"pods": "1", "services": "2"}}});
        let patch = json!({"spec": {"hard": {"services": null, "secrets": "3"}}});
        assert_eq!(
            merge(object, &patch),
            json!({"spec": {"hard": {"pods": "1", "secrets": "3"}}})
        );
    }
}
