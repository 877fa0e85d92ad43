//! Sets of fields, in the form of `FieldsV1`.

use std::collections::{BTreeMap, btree_map::Entry};

use quota_semantics::embedded::plain_value;
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

/// A set of paths, as a tree: many long paths with a common beginning are no longer than what was sent of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    /// Whether the field itself belongs to the set.
    is_member: bool,
    /// The fields below it by path element. None of them is empty.
    below: BTreeMap<String, Self>,
}

/// The path of a field, in the notation of `FieldsV1` (`f:spec`, `k:{"uid":"…"}`, `v:"…"`).
pub(super) type Path = Vec<String>;

/// The parts of a quota and of a group that change as a whole.
const WHOLE: [&[&str]; 3] = [
    &["f:spec", "f:scopeSelector"],
    &["f:spec", "f:quota", "f:scopeSelector"],
    &["f:spec", "f:selector", "f:labels"],
];

/// Whether the part at a path changes as a whole.
pub(super) fn is_whole(path: &[String]) -> bool {
    WHOLE.iter().any(|whole| path == *whole)
}

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
        (["f:metadata", "f:ownerReferences", _], _) => Part::Whole,
        _ if is_whole(path) => Part::Whole,
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
            fields.map(|(name, value)| (format!("f:{name}"), value)).collect()
        }
        (Part::Set, Value::Array(items)) => {
            items.iter().map(|item| (format!("v:{item}"), item)).collect()
        }
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
        leaves(&mut Vec::new(), object)
    }

    /// The fields that were added or changed in `new`, and the fields that were removed.
    pub(super) fn difference_of(old: &Value, new: &Value) -> (Self, Self) {
        difference(&mut Vec::new(), [Some(old), Some(new)])
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    /// Whether the field itself belongs to the set.
    pub(super) fn is_member(&self) -> bool {
        self.is_member
    }

    /// The fields below by path element.
    pub(super) fn below(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.below.iter().map(|(element, below)| (element.as_str(), below))
    }

    /// The paths; a path comes before the paths below it.
    pub(super) fn paths(&self) -> Vec<Path> {
        fn collect(set: &FieldSet, path: &mut Path, paths: &mut Vec<Path>) {
            if set.is_member {
                paths.push(path.clone());
            }
            for (element, below) in &set.below {
                path.push(element.clone());
                collect(below, path, paths);
                path.pop();
            }
        }
        let mut paths = Vec::new();
        collect(self, &mut Vec::new(), &mut paths);
        paths
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.unite(other);
        self
    }

    fn unite(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (element, below) in &other.below {
            self.below.entry(element.clone()).or_default().unite(below);
        }
    }

    pub(super) fn minus(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        self.below.retain(|element, below| {
            if let Some(other) = other.below.get(element) {
                below.subtract(other);
            }
            !below.is_empty()
        });
    }

    pub(super) fn both(&self, other: &Self) -> Self {
        let mut both = Self { is_member: self.is_member && other.is_member, ..Self::default() };
        for (element, below) in &self.below {
            if let Some(other) = other.below.get(element) {
                both.add(element.clone(), below.both(other));
            }
        }
        both
    }

    /// The fields of which the other set has neither themselves nor a field below them.
    pub(super) fn out_of_reach_of(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (element, below) in &self.below {
            let below = match other.below.get(element) {
                Some(other) => below.out_of_reach_of(other),
                None => below.clone(),
            };
            out.add(element.clone(), below);
        }
        out
    }

    /// Adds what is below an element.
    fn add(&mut self, element: String, below: Self) {
        if below.is_empty() {
            return;
        }
        match self.below.entry(element) {
            Entry::Vacant(entry) => {
                entry.insert(below);
            }
            Entry::Occupied(mut entry) => entry.get_mut().unite(&below),
        }
    }

    /// Parses `fieldsV1`.
    pub(super) fn from_v1(json: &Value) -> Self {
        fn read(json: &Value) -> FieldSet {
            let fields = json.as_object().into_iter().flatten();
            let below: BTreeMap<_, _> = fields
                .filter(|(element, _)| *element != ".")
                .map(|(element, below)| (element.clone(), read(below)))
                .collect();
            FieldSet { is_member: below.is_empty() || json.get(".").is_some(), below }
        }
        Self { is_member: false, ..read(json) }
    }

    /// Writes `fieldsV1`.
    pub(super) fn to_v1(&self) -> Value {
        let below = self.below.iter();
        let mut fields: Map<_, _> =
            below.map(|(element, below)| (element.clone(), below.to_v1())).collect();
        // This marks a field of its own, which is not only a prefix of others.
        if self.is_member && !fields.is_empty() {
            fields.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(fields)
    }
}

fn leaves(path: &mut Path, value: &Value) -> FieldSet {
    let children = children(path, value);
    let mut set = FieldSet {
        // The object itself, its metadata and its spec have no owner.
        is_member: children.is_empty() && path.len() > 1,
        ..FieldSet::default()
    };
    for (element, value) in children {
        path.push(element.clone());
        set.add(element, leaves(path, value));
        path.pop();
    }
    set
}

/// The fields that were added or changed, and those that were removed, between an old and a new value.
fn difference(path: &mut Path, values: [Option<&Value>; 2]) -> (FieldSet, FieldSet) {
    let [old, new] = values;
    let kind = |value: Option<&Value>| value.map(|value| part(path, value));
    let granular = kind(old) == kind(new) && kind(new) != Some(Part::Whole);
    let is_changed = match (old, new) {
        (Some(old), Some(new)) => !granular && old != new,
        (old, _) => old.is_none(),
    };
    let own = |is_member: bool| FieldSet {
        is_member: is_member && path.len() > 1,
        ..FieldSet::default()
    };
    let (mut changed, mut removed) = (own(is_changed), own(new.is_none()));
    for (element, values) in paired(path, values) {
        path.push(element.clone());
        let (changed_below, removed_below) = difference(path, values);
        path.pop();
        changed.add(element.clone(), changed_below);
        removed.add(element, removed_below);
    }
    (changed, removed)
}

/// The parts of two values by path element. If an element is there more than once, the first counts.
fn paired<'a>(
    path: &[String],
    values: [Option<&'a Value>; 2],
) -> BTreeMap<String, [Option<&'a Value>; 2]> {
    let mut paired = BTreeMap::<_, [Option<&Value>; 2]>::new();
    for (side, value) in values.into_iter().enumerate() {
        let children = value.map(|value| children(path, value));
        for (element, child) in children.unwrap_or_default() {
            paired.entry(element).or_default()[side].get_or_insert(child);
        }
    }
    paired
}

/// A path in the form used in messages: `.spec.hard.pods`.
pub(super) fn shown(path: &Path) -> String {
    let element = |element: &String| match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => {
            let keys = plain_value(keys.as_bytes()).unwrap_or_default();
            let keys = keys.as_object().into_iter().flatten();
            let keys: Vec<_> = keys.map(|(name, value)| format!("{name}={value}")).collect();
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
        let path =
            |elements: &[&str]| elements.iter().map(|element| (*element).to_owned()).collect();
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

    /// If each of these fields were looked for among all, this would take minutes.
    #[test]
    fn many_fields_are_compared_in_little_time() {
        let text = |number: u32| (format!("example.com/{number}"), Value::from("x"));
        let labels: Map<_, _> = (0..100_000).map(text).collect();
        let finalizers: Vec<_> = labels.keys().rev().cloned().collect();
        let many = json!({"metadata": {"labels": labels, "finalizers": finalizers}});
        let none = json!({"metadata": {"labels": {}, "finalizers": []}});
        let (changed, removed) = FieldSet::difference_of(&none, &many);
        assert_eq!(changed.paths().len(), 2 * labels.len());
        assert!(removed.is_empty());
        let (changed, removed) = FieldSet::difference_of(&many, &many);
        assert!(changed.is_empty() && removed.is_empty());
    }

    /// If each path were held apart, these would take gigabytes.
    #[test]
    fn long_paths_share_their_beginning() {
        let many: Map<_, _> =
            (0..100_000).map(|number| (format!("f:{number}"), json!({}))).collect();
        let sent = json!({("f:".to_owned() + &"x".repeat(500_000)): many});
        let set = FieldSet::from_v1(&sent);
        let set = set.both(&set).union(&set).minus(&FieldSet::default());
        assert_eq!(set.to_v1(), sent);
        assert!(set.out_of_reach_of(&set).is_empty());
    }
}
