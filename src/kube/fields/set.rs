//! Sets of fields, in the form of `FieldsV1`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Fields that are never managed: the server sets them.
const UNMANAGED: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "generateName",
];

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeSet<Path>);

/// The path of a field, in the notation of `FieldsV1` (`f:spec`, `k:{"uid":"…"}`, `v:"…"`).
pub(super) type Path = Vec<String>;

/// The granularity at which a part of a quota is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Each field individually.
    Fields,
    /// Each item individually, identified by its value.
    Set,
    /// Each item individually, identified by its uid.
    ByUid,
    /// As a whole.
    Whole,
}

fn part(path: &[String], value: &Value) -> Part {
    let at: Vec<_> = path.iter().map(String::as_str).collect();
    match (at.as_slice(), value) {
        (["f:metadata", "f:finalizers"], Value::Array(_)) => Part::Set,
        (["f:metadata", "f:ownerReferences"], Value::Array(_)) => Part::ByUid,
        // An owner reference and a scope selector change as a whole.
        (["f:metadata", "f:ownerReferences", _], _) | (["f:spec", "f:scopeSelector"], _) => {
            Part::Whole
        }
        (_, Value::Object(_)) => Part::Fields,
        _ => Part::Whole,
    }
}

/// The parts of a value: the path element of each, and its value.
fn children<'a>(path: &[String], value: &'a Value) -> Vec<(String, &'a Value)> {
    match (part(path, value), value) {
        (Part::Fields, Value::Object(fields)) => {
            let managed = |name: &&str| match path {
                [] => matches!(*name, "metadata" | "spec"),
                [only] if only == "f:metadata" => !UNMANAGED.contains(name),
                _ => true,
            };
            let fields = fields.iter().filter(|(name, _)| managed(&name.as_str()));
            fields
                .map(|(name, value)| (format!("f:{name}"), value))
                .collect()
        }
        (Part::Set, Value::Array(items)) => items
            .iter()
            .map(|item| (format!("v:{item}"), item))
            .collect(),
        (Part::ByUid, Value::Array(items)) => {
            let key = |item: &Value| format!("k:{}", serde_json::json!({"uid": item["uid"]}));
            items.iter().map(|item| (key(item), item)).collect()
        }
        _ => Vec::new(),
    }
}

impl FieldSet {
    /// The fields of an object: its leaves.
    pub(super) fn of(object: &Value) -> Self {
        let mut set = Self::default();
        set.collect(&mut Vec::new(), object);
        set
    }

    fn collect(&mut self, path: &mut Path, value: &Value) {
        let children = children(path, value);
        // The object itself, its metadata and its spec have no owner.
        if children.is_empty() && path.len() > 1 {
            self.0.insert(path.clone());
        }
        for (element, value) in children {
            path.push(element);
            self.collect(path, value);
            path.pop();
        }
    }

    /// The fields that were added or changed in `new`, and the fields that were removed.
    pub(super) fn difference_of(old: &Value, new: &Value) -> (Self, Self) {
        let (mut changed, mut removed) = (Self::default(), Self::default());
        compare(
            &mut Vec::new(),
            Some(old),
            Some(new),
            &mut changed,
            &mut removed,
        );
        (changed, removed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter()
    }

    /// Whether the set contains the field, or a field below it.
    pub(super) fn reaches(&self, path: &Path) -> bool {
        self.0
            .range(path.clone()..)
            .next()
            .is_some_and(|next| next.starts_with(path))
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }

    pub(super) fn minus(mut self, other: &Self) -> Self {
        self.0.retain(|path| !other.0.contains(path));
        self
    }

    pub(super) fn both(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    /// Parses `fieldsV1`.
    pub(super) fn from_v1(json: &Value) -> Self {
        fn read(json: &Value, path: &mut Path, set: &mut BTreeSet<Path>) {
            let Some(fields) = json.as_object().filter(|fields| !fields.is_empty()) else {
                set.insert(path.clone());
                return;
            };
            for (element, below) in fields {
                if element == "." {
                    set.insert(path.clone());
                    continue;
                }
                path.push(element.clone());
                read(below, path, set);
                path.pop();
            }
        }
        let mut set = BTreeSet::new();
        read(json, &mut Vec::new(), &mut set);
        set.remove(&Vec::new());
        Self(set)
    }

    /// Writes `fieldsV1`.
    pub(super) fn to_v1(&self) -> Value {
        let mut root = Map::new();
        for path in &self.0 {
            let mut at = &mut root;
            for (depth, element) in path.iter().enumerate() {
                let entry = at
                    .entry(element.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(below) = entry else { break };
                // A path sorts before the paths below it. This marks it as a field of its own, not only a prefix of
                // other paths.
                if depth + 1 == path.len() && self.has_below(path) {
                    below.insert(".".to_owned(), Value::Object(Map::new()));
                }
                at = below;
            }
        }
        Value::Object(root)
    }

    fn has_below(&self, path: &Path) -> bool {
        self.0
            .range(path.clone()..)
            .nth(1)
            .is_some_and(|next| next.starts_with(path))
    }
}

fn compare(
    path: &mut Path,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &mut FieldSet,
    removed: &mut FieldSet,
) {
    let kind = |value: Option<&Value>| value.map(|value| part(path, value));
    let granular = kind(old) == kind(new) && kind(new) != Some(Part::Whole);
    if path.len() > 1 {
        match (old, new) {
            (None, Some(_)) => {
                changed.0.insert(path.clone());
            }
            (Some(_), None) => {
                removed.0.insert(path.clone());
            }
            (Some(old), Some(new)) if !granular && old != new => {
                changed.0.insert(path.clone());
            }
            _ => {}
        }
    }
    let of = |value: Option<&'_ Value>| -> Vec<(String, Value)> {
        let children = value.map(|value| children(path, value)).unwrap_or_default();
        children
            .into_iter()
            .map(|(element, value)| (element, value.clone()))
            .collect()
    };
    let (old, new) = (of(old), of(new));
    let find = |among: &[(String, Value)], element: &str| {
        among
            .iter()
            .find(|(candidate, _)| candidate == element)
            .map(|(_, value)| value.clone())
    };
    let elements: BTreeSet<_> = old
        .iter()
        .chain(&new)
        .map(|(element, _)| element.clone())
        .collect();
    for element in elements {
        let (old, new) = (find(&old, &element), find(&new, &element));
        path.push(element);
        compare(path, old.as_ref(), new.as_ref(), changed, removed);
        path.pop();
    }
}

/// A path in the form used in messages: `.spec.hard.pods`.
pub(super) fn shown(path: &Path) -> String {
    let element = |element: &String| match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<_> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("[{}]", keys.join(","))
        }
        _ => element.clone(),
    };
    path.iter().map(element).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_are_written_as_kubernetes_writes_them() {
        let old = json!({"metadata": {"name": "a"}, "spec": {}});
        let new = json!({
            "metadata": {"name": "a", "labels": {"team": "a"}, "finalizers": ["x/y"],
                "ownerReferences": [{"uid": "u", "name": "o"}]},
            "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"],
                "scopeSelector": {"matchExpressions": [{"operator": "Exists"}]}},
        });
        let (changed, removed) = FieldSet::difference_of(&old, &new);
        let expected = json!({
            "f:metadata": {
                "f:labels": {".": {}, "f:team": {}},
                "f:finalizers": {".": {}, "v:\"x/y\"": {}},
                "f:ownerReferences": {".": {}, "k:{\"uid\":\"u\"}": {}},
            },
            "f:spec": {"f:hard": {".": {}, "f:pods": {}}, "f:scopes": {}, "f:scopeSelector": {}},
        });
        assert_eq!(changed.to_v1(), expected);
        assert!(removed.is_empty());
        assert_eq!(FieldSet::from_v1(&expected), changed);
        let applied = FieldSet::of(&new).to_v1();
        assert_eq!(applied["f:metadata"]["f:labels"], json!({"f:team": {}}));
        let (changed, removed) = FieldSet::difference_of(&new, &old);
        assert!(changed.is_empty());
        assert_eq!(removed.to_v1(), expected);
    }

    #[test]
    fn paths_are_shown_as_kubernetes_shows_them() {
        let path = |elements: &[&str]| {
            elements
                .iter()
                .map(|element| (*element).to_owned())
                .collect()
        };
        assert_eq!(
            shown(&path(&["f:spec", "f:hard", "f:requests.cpu"])),
            ".spec.hard.requests.cpu"
        );
        let owner = path(&["f:metadata", "f:ownerReferences", "k:{\"uid\":\"u\"}"]);
        assert_eq!(shown(&owner), ".metadata.ownerReferences[uid=\"u\"]");
        assert_eq!(
            shown(&path(&["f:metadata", "f:finalizers", "v:\"a\""])),
            ".metadata.finalizers[=\"a\"]"
        );
    }
}
