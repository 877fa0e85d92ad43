//! `--sort-by`: the items of a list in the order of a field.

use std::cmp::Ordering;

use quota_semantics::quantity::Quantity;
use serde_json::Value;

use super::jsonpath::Path;
use crate::failure::{Failure, Outcome};

/// Sorts the items of a list by the first value at the path: quantities and numbers as such, other values as text.
/// Items without the field come last; the sort is stable.
pub(crate) fn sort(answer: &mut Value, path: &Path) -> Outcome {
    let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    let key = |item: &Value| path.find(item).first().copied().cloned();
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
    .then_with(|| super::jsonpath::text_of(left).cmp(&super::jsonpath::text_of(right)))
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
        let items: Vec<_> = values
            .as_array()
            .unwrap()
            .iter()
            .map(|v| json!({"v": v}))
            .collect();
        let mut answer = json!({ "items": items });
        answer["items"].as_array_mut().unwrap().push(json!({}));
        sort(&mut answer, &Path::parse(".v").unwrap()).unwrap();
        let items = answer["items"].as_array().unwrap();
        assert_eq!(items.last(), Some(&json!({})));
        items
            .iter()
            .filter_map(|item| item.get("v").cloned())
            .collect()
    }

    #[test]
    fn amounts_are_ordered_as_amounts_and_names_as_names() {
        assert_eq!(
            sorted(json!(["10", "2", "500m", "1Ki"])),
            ["500m", "2", "10", "1Ki"]
        );
        assert_eq!(
            sorted(json!([10, 2.5, "3"])),
            [json!(2.5), json!("3"), json!(10)]
        );
        assert_eq!(sorted(json!(["b", "a10", "a"])), ["a", "a10", "b"]);
        assert_eq!(
            sorted(json!(["b", "7", "a", 1])),
            [json!(1), json!("7"), json!("a"), json!("b")]
        );
        let mut none = json!({"items": [{"a": 1}]});
        assert!(sort(&mut none, &Path::parse(".b").unwrap()).is_err());
    }
}
