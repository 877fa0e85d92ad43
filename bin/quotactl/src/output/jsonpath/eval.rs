//! The evaluation of templates.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, Filter, Operand, Origin, Part, Path, Step, text_of};

pub(super) fn render(parts: &[Part], root: &Value, current: &Value, text: &mut String) {
    for part in parts {
        match part {
            Part::Text(own) => text.push_str(own),
            Part::Path(path) => {
                let found = find(path, root, current);
                let found: Vec<_> = found.into_iter().map(text_of).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(path, parts) => {
                for value in find(path, root, current) {
                    render(parts, root, value, text);
                }
            }
        }
    }
}

pub(super) fn find<'a>(path: &Path, root: &'a Value, current: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![match path.from {
        Origin::Root => root,
        Origin::Current => current,
    }];
    for step in &path.steps {
        let mut next = Vec::new();
        for value in found {
            follow(step, root, value, &mut next);
        }
        found = next;
    }
    found
}

fn follow<'a>(step: &Step, root: &'a Value, value: &'a Value, found: &mut Vec<&'a Value>) {
    match step {
        Step::Fields(names) => found.extend(names.iter().filter_map(|name| value.get(name))),
        Step::Descend(name) => descend(name.as_deref(), value, found),
        Step::Each => found.extend(members(value)),
        Step::Indices(indices) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let place = |index: &i64| items.get(place(*index, items.len())?);
            found.extend(indices.iter().filter_map(place));
        }
        Step::Slice { begin, end, step } => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let clamp = |index: i64| place(index, items.len()).unwrap_or(0).min(items.len());
            let begin = begin.map_or(0, clamp);
            let end = end.map_or(items.len(), clamp);
            let step = usize::try_from(*step).unwrap_or(usize::MAX);
            let slice = items.get(begin..end).unwrap_or_default();
            found.extend(slice.iter().step_by(step.max(1)));
        }
        Step::Filter(filter) => {
            let passing = members(value).filter(|member| passes(filter, root, member));
            found.extend(passing);
        }
    }
}

/// An index from the front, or from the back if it is negative.
fn place(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn members<'a>(value: &'a Value) -> Box<dyn Iterator<Item = &'a Value> + 'a> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Collects the value and all values in it, parents first; with a name, only the fields with that name.
fn descend<'a>(name: Option<&str>, value: &'a Value, found: &mut Vec<&'a Value>) {
    match name {
        Some(name) => found.extend(value.get(name)),
        None => found.push(value),
    }
    for member in members(value) {
        descend(name, member, found);
    }
}

fn passes(filter: &Filter, root: &Value, member: &Value) -> bool {
    let values = |operand: &Operand| -> Vec<Value> {
        match operand {
            Operand::Literal(value) => vec![value.clone()],
            Operand::Path(path) => find(path, root, member).into_iter().cloned().collect(),
        }
    };
    let left = values(&filter.left);
    let Some((comparison, right)) = &filter.compared else {
        return !left.is_empty();
    };
    let right = values(right);
    match (left.first(), right.first()) {
        (Some(left), Some(right)) => holds(*comparison, left, right),
        // What is not there differs from everything.
        _ => *comparison == Comparison::NotEqual,
    }
}

fn holds(comparison: Comparison, left: &Value, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64(), right.as_f64());
            left.zip(right)
                .and_then(|(left, right)| left.partial_cmp(&right))
        }
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(Ordering::Equal),
    };
    match (comparison, order) {
        (Comparison::NotEqual, order) => order != Some(Ordering::Equal),
        (_, None) => false,
        (Comparison::Equal, Some(order)) => order.is_eq(),
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessOrEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
    }
}
