//! Finds fields that the schema does not define.

use serde_json::Value;

use super::{SCHEMAS, schema_of};

/// The paths of the fields of an object that the schema of its kind does not define, in order.
pub(in crate::kube) fn unknown_fields(kind: &str, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(schema) = SCHEMAS.get(schema_of(kind)) {
        walk(schema, object, "", &mut found);
    }
    found.sort();
    found
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let schema = resolve(schema);
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, value) in fields {
                match (
                    properties.and_then(|properties| properties.get(key)),
                    schema.get("additionalProperties"),
                ) {
                    (Some(schema), _) | (None, Some(schema)) => {
                        walk(schema, value, &below(key), found);
                    }
                    (None, None) if properties.is_some() => found.push(below(key)),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else {
                return;
            };
            for (place, item) in items.iter().enumerate() {
                walk(schema, item, &format!("{path}[{place}]"), found);
            }
        }
        _ => {}
    }
}

/// The schema that a reference points to.
fn resolve(schema: &Value) -> &Value {
    let reference =
        schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    let name = reference.and_then(|reference| reference.rsplit('/').next());
    name.and_then(|name| SCHEMAS.get(name)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_known_by_the_schema() {
        let object = json!({
            "apiVersion": "v1",
            "kindd": "ResourceQuota",
            "metadata": {"name": "a", "labels": {"any": "label"}, "ownerReferences": [{"uid": "u", "x": 1}],
                "managedFields": [{"fieldsV1": {"f:anything": {}}}]},
            "spec": {"hard": {"example.com/any": "1"}, "hrd": {}, "scopeSelector": {"matchExpressions": [{"y": 1}]}},
            "status": {"used": {}, "reserved": {}, "reservations": [{"reservedBy": {"uid": "u"}}],
                "reservationsOmitted": 1, "conditions": [{"type": "Enforced", "status": "False", "reason": "r", "message": "m"}]},
        });
        let unknown = [
            "kindd",
            "metadata.ownerReferences[0].x",
            "spec.hrd",
            "spec.scopeSelector.matchExpressions[0].y",
        ];
        assert_eq!(unknown_fields("ResourceQuota", &object), unknown);
    }
}
