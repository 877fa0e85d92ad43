//! Kinds that count as one object each.

use super::{GroupResource, names::COUNT_PREFIX};
use crate::{quantity::Quantity, resource::ResourceList};

/// Kinds of the core group that could be counted before `count/` names were introduced.
const ALIASES: [&str; 4] = ["configmaps", "secrets", "replicationcontrollers", "resourcequotas"];

/// The plain name under which a kind counts in addition to `count/…`, if it could be counted before those names were
/// introduced.
pub(crate) fn plain_count_name(kind: &GroupResource) -> Option<&str> {
    let has_plain_name = kind.group.is_empty() && is_alias(&kind.resource);
    has_plain_name.then_some(kind.resource.as_str())
}

/// Whether a kind counts under this plain name.
pub(super) fn is_alias(name: &str) -> bool {
    ALIASES.contains(&name)
}

/// Whether `name` is the count name of the kind: `count/<resource>[.<group>]`.
pub(super) fn is_count_of(kind: &GroupResource, name: &str) -> bool {
    let Some(rest) =
        name.strip_prefix(COUNT_PREFIX).and_then(|rest| rest.strip_prefix(&*kind.resource))
    else {
        return false;
    };
    match rest.strip_prefix('.') {
        Some(group) => !group.is_empty() && kind.group == group,
        None => rest.is_empty() && kind.group.is_empty(),
    }
}

/// One object.
pub(super) fn resources(kind: &GroupResource) -> ResourceList {
    let mut counted = ResourceList::new();
    counted.insert(format!("{COUNT_PREFIX}{kind}").into(), Quantity::from_units(1));
    if plain_count_name(kind).is_some() {
        counted.insert(kind.resource.clone(), Quantity::from_units(1));
    }
    counted
}
