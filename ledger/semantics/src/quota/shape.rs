//! The places in JSON that must hold objects. Serde also reads a struct from an array; Kubernetes does not.

use serde_json::Value;

/// There is an array where an object belongs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal array into field {0:?}: an object is needed")]
pub struct ArrayForObject(String);

/// Checks the values at these paths: keys, and `*` for each item of an array, joined by `/`. The empty path is the
/// whole.
pub(crate) fn has_objects_at(json: &Value, paths: &[&str]) -> Result<(), ArrayForObject> {
    let array = paths.iter().find(|path| {
        let keys = path.split('/').filter(|key| !key.is_empty());
        keys.fold(vec![json], step).into_iter().any(Value::is_array)
    });
    array.map_or(Ok(()), |path| Err(ArrayForObject((*path).to_owned())))
}

fn step<'a>(values: Vec<&'a Value>, key: &str) -> Vec<&'a Value> {
    let next = |value: &'a Value| match (key, value) {
        ("*", Value::Array(items)) => items.iter().collect(),
        _ => Vec::from_iter(value.get(key)),
    };
    values.into_iter().flat_map(next).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arrays_are_found_where_objects_belong() {
        let json = json!({"a": {"b": [{}, []]}, "c": [], "d": null});
        assert_eq!(has_objects_at(&json, &["", "a", "d", "x/y", "c/*"]), Ok(()));
        for path in ["a/b/*", "c", "a/b"] {
            assert_eq!(
                has_objects_at(&json, &[path]),
                Err(ArrayForObject(path.to_owned()))
            );
        }
        assert!(has_objects_at(&json!([]), &[""]).is_err());
    }
}
