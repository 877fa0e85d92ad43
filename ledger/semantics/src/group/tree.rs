//! Validation of trees of groups.

use super::{
    extension::{EACH, GUARANTEED, PARENT, field_of},
    manifest::Spec,
};
use crate::{Name, field::FieldError, quantity::Quantity, resource::ResourceList};

/// The existing groups.
pub trait Forest {
    /// The spec of a group.
    fn spec(&self, name: &str) -> Option<&Spec>;
    /// The groups that name this one as their parent, even if it does not exist.
    fn children(&self, name: &str) -> Vec<Name>;
}

/// A forest with one group changed.
struct With<'a, F> {
    forest: &'a F,
    name: &'a Name,
    spec: &'a Spec,
}

impl<F: Forest> With<'_, F> {
    fn spec(&self, name: &str) -> Option<&Spec> {
        if *self.name == *name {
            return Some(self.spec);
        }
        self.forest.spec(name)
    }

    fn parent(&self, name: &str) -> Option<&Name> {
        self.spec(name)?.extensions.parent.as_ref()
    }

    fn children(&self, name: &str) -> Vec<Name> {
        let mut children = self.forest.children(name);
        children.retain(|child| child != self.name);
        if self.spec.extensions.parent.as_deref() == Some(name) {
            children.push(self.name.clone());
        }
        children
    }

    /// The existing ancestors of a group, nearest first.
    fn ancestors(&self, name: &Name) -> Vec<Name> {
        let mut ancestors: Vec<Name> = Vec::new();
        let mut at = name;
        while let Some(parent) = self.parent(at) {
            if self.spec(parent).is_none() || parent == name || ancestors.contains(parent) {
                break;
            }
            ancestors.push(parent.clone());
            at = parent;
        }
        ancestors
    }

    fn height(&self, name: &str) -> usize {
        let below = self.children(name);
        let heights = below.iter().map(|child| self.height(child));
        1 + heights.max().unwrap_or(0)
    }

    /// The depth of the tree at the changed group, if it exceeds the limit.
    fn too_deep(&self, max_depth: usize) -> Option<usize> {
        let depth = self.ancestors(self.name).len() + self.height(self.name);
        (depth > max_depth).then_some(depth)
    }

    /// The guarantee of a group, and at least those of its children together.
    fn guaranteed(&self, name: &str) -> ResourceList {
        let mut guaranteed = self.guaranteed_below(name);
        if let Some(spec) = self.spec(name) {
            guaranteed.max(&spec.extensions.guaranteed);
        }
        guaranteed
    }

    fn guaranteed_below(&self, name: &str) -> ResourceList {
        let mut sum = ResourceList::new();
        for child in self.children(name) {
            sum.add(&self.guaranteed(&child));
        }
        sum
    }
}

/// The errors of a group's place in the tree.
pub fn validate<F: Forest>(
    forest: &F,
    name: &Name,
    spec: &Spec,
    max_depth: usize,
) -> Vec<FieldError> {
    let with = With { forest, name, spec };
    let field = field_of(PARENT);
    let parent = spec.extensions.parent.as_deref().unwrap_or_default();
    if let Some(cycle) = cycle(&with, name) {
        let detail = format!("a group cannot be part of itself: {}", cycle.join(" -> "));
        return vec![FieldError::invalid_text(field, parent, detail)];
    }
    let mut errors = Vec::new();
    let children = with.children(name);
    let ancestors = with.ancestors(name);
    if let Some(depth) = with.too_deep(max_depth) {
        let detail =
            format!("the tree would be {depth} groups deep; at most {max_depth} are allowed");
        errors.push(FieldError::invalid_text(field.clone(), parent, detail));
    }
    if spec.selector.is_empty() && children.is_empty() {
        errors.push(FieldError::required("spec.selector", "must restrict the selected projects"));
    }
    if let (Some(child), Some(what)) = (children.first(), why_childless(spec)) {
        let detail = format!("a group with children cannot have {what}; {child} is a child of it");
        errors.push(FieldError::forbidden(what_field(spec), detail));
    }
    if let Some(what) = ancestors.first().and_then(|above| with.spec(above)).and_then(why_childless)
    {
        let detail = format!("a group with {what} cannot have children");
        errors.push(FieldError::invalid_text(field, parent, detail));
    }
    errors.extend(over_committed(&with, name, &ancestors));
    errors
}

/// Whether a group with this spec can be the parent of the groups that name it.
pub fn takes_children<F: Forest>(forest: &F, name: &Name, spec: &Spec, max_depth: usize) -> bool {
    let with = With { forest, name, spec };
    with.children(name).is_empty()
        || why_childless(spec).is_none() && with.too_deep(max_depth).is_none()
}

/// The reason why a group cannot have children.
fn why_childless(spec: &Spec) -> Option<&'static str> {
    if spec.quota.is_scoped() {
        return Some("scopes");
    }
    if spec.extensions.objects.is_some() {
        return Some("a selector of objects");
    }
    spec.extensions.each.then_some("limits for each member")
}

fn what_field(spec: &Spec) -> String {
    if !spec.quota.scopes.is_empty() {
        return "spec.quota.scopes".to_owned();
    }
    if spec.quota.is_scoped() {
        return "spec.quota.scopeSelector".to_owned();
    }
    let key = match spec.extensions.objects {
        Some(_) => super::extension::OBJECTS,
        None => EACH,
    };
    field_of(key)
}

/// The path from a group upwards back to itself, if there is a cycle.
fn cycle<F: Forest>(with: &With<'_, F>, name: &Name) -> Option<Vec<Name>> {
    let mut way = vec![name.clone()];
    while let Some(parent) = way.last().and_then(|at| with.parent(at)) {
        let (closes, visited) = (parent == name, way.contains(parent));
        way.push(parent.clone());
        if closes {
            return Some(way);
        }
        if visited {
            return None;
        }
    }
    None
}

/// The errors of guarantees: the group, or an ancestor, would have less than its children are guaranteed together.
fn over_committed<F: Forest>(
    with: &With<'_, F>,
    name: &Name,
    ancestors: &[Name],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let below = with.guaranteed_below(name);
    for (resource, hard, sum) in above_hard(with.spec, &below) {
        let field = format!("spec.quota.hard[{resource}]");
        let detail = format!("the groups below it are guaranteed {resource}={sum}");
        errors.push(FieldError::invalid(field, hard, detail));
    }
    let mut own = below;
    own.max(&with.spec.extensions.guaranteed);
    // A guarantee that decreases cannot cause a new conflict.
    let before = with.forest.spec(name);
    let same_place =
        before.is_some_and(|spec| spec.extensions.parent == with.spec.extensions.parent);
    let no_more = same_place
        && before.is_some_and(|before| {
            let mut was = with.guaranteed_below(name);
            was.max(&before.extensions.guaranteed);
            own.iter().all(|(name, now)| was.get(name).is_some_and(|was| now <= was))
        });
    if no_more || own.without_zeros().is_empty() {
        return errors;
    }
    for ancestor in ancestors {
        let Some(spec) = with.spec(ancestor) else {
            break;
        };
        for (resource, hard, sum) in above_hard(spec, &with.guaranteed_below(ancestor)) {
            if own.get(&resource).is_none_or(Quantity::is_zero) {
                continue;
            }
            let field = match with.spec.extensions.guaranteed.get(&resource) {
                Some(_) => format!("{}[{resource}]", field_of(GUARANTEED)),
                None => field_of(PARENT),
            };
            let detail = format!(
                "the groups below {ancestor} would be guaranteed {resource}={sum}, but its limit is {hard}"
            );
            errors.push(FieldError::invalid(field, &own.get(&resource), detail));
        }
    }
    errors
}

fn above_hard<'s>(spec: &'s Spec, sum: &ResourceList) -> Vec<(Name, &'s Quantity, Quantity)> {
    let above = |name: Name| {
        let (hard, sum) = (spec.quota.hard.get(&name)?, sum.get(&name)?.clone());
        Some((name, hard, sum))
    };
    let names = sum.exceeding(&spec.quota.hard);
    names.into_iter().filter_map(above).collect()
}

#[cfg(test)]
mod tests;
