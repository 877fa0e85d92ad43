//! `--sort-by`: the items of a list in the order of a field.

use std::cmp::Ordering;

use quota_semantics::quantity::Quantity;
use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// The path of a field: keys separated by dots, such as `.metadata.name`. A dot inside a key is written `\.`, as in
/// kubectl: `.spec.hard.requests\.cpu`.
#[derive(Clone, Debug)]
pub(crate) struct Path(Vec<String>);

impl Path {
    /// Parses a path. Braces around it are ignored, as kubectl has them.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let inner = inner.unwrap_or(text);
        let mut keys = vec![String::new()];
        let mut chars = inner.strip_prefix('.').unwrap_or(inner).chars();
        while let Some(c) = chars.next() {
            match (c, keys.last_mut()) {
                ('.', _) => keys.push(String::new()),
                ('\\', Some(key)) => key.extend(chars.next()),
                (c, Some(key)) => key.push(c),
                (_, None) => {}
            }
        }
        match keys.iter().any(String::is_empty) {
            true => Err("not a path such as .metadata.name".to_owned()),
            false => Ok(Self(keys)),
        }
    }

    fn find<'a>(&self, item: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(item, |value, key| value.get(key))
    }
}

/// Sorts the items of a list by the value at the path: quantities and numbers as such, other values as text.
/// Items without the field come last; the sort is stable.
pub(crate) fn sort(answer: &mut Value, path: &Path) -> Outcome {
    let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    let key = |item: &Value| path.find(item).cloned();
    if !items.is_empty() && items.iter().all(|item| key(item).is_none()) {
        return Err(Failure::usage("--sort-by: no item has this field")
            .hint("-o json shows the fields that there are"));
    }
    items.sort_by(|left, right| match (key(left), key(right)) {
        (Some(left), Some(right)) => compare(&left, &right),
        (left, right) => left.is_none().cmp(&right.is_none()),
    });
    Ok(())
}

fn compare(left: &Value, right: &Value) -> Ordering {
    match (quantity(left), quantity(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        // What is a quantity comes before what is not: an order has to be one also for a mixture.
        (left, right) => right.is_some().cmp(&left.is_some()),
    }
    .then_with(|| text(left).cmp(&text(right)))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(values: Value) -> Vec<Value> {
        let items: Vec<_> = values.as_array().unwrap().iter().map(|v| json!({"v": v})).collect();
        let mut answer = json!({ "items": items });
        answer["items"].as_array_mut().unwrap().push(json!({}));
        sort(&mut answer, &Path::parse(".v").unwrap()).unwrap();
        let items = answer["items"].as_array().unwrap();
        assert_eq!(items.last(), Some(&json!({})));
        items.iter().filter_map(|item| item.get("v").cloned()).collect()
    }

    #[test]
    fn dots_in_keys_are_escaped() {
        let item = json!({"hard": {"requests.cpu": "4"}});
        for path in [r".hard.requests\.cpu", r"{.hard.requests\.cpu}", r"hard.requests\.cpu"] {
            let found = Path::parse(path).unwrap().find(&item).cloned();
            assert_eq!(found, Some(json!("4")), "{path}");
        }
        for wrong in ["", ".", ".a..b", "a."] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_are_ordered_as_amounts_and_names_as_names() {
        assert_eq!(sorted(json!(["10", "2", "500m", "1Ki"])), ["500m", "2", "10", "1Ki"]);
        assert_eq!(sorted(json!([10, 2.5, "3"])), [json!(2.5), json!("3"), json!(10)]);
        assert_eq!(sorted(json!(["b", "a10", "a"])), ["a", "a10", "b"]);
        assert_eq!(
            sorted(json!(["b", "7", "a", 1])),
            [json!(1), json!("7"), json!("a"), json!("b")]
        );
        let mut none = json!({"items": [{"a": 1}]});
        assert!(sort(&mut none, &Path::parse(".b").unwrap()).is_err());
    }
}
