//! The objects that a quota applies to: scopes and scope expressions against the traits of an object.

use std::fmt;

use super::{ScopeExpression, Spec, selector};
use crate::{
    Name,
    field::quoted,
    object::{PodTraits, Traits},
};

/// One condition of a quota on objects: an entry of `scopes` or of the scope selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'s> {
    /// The name of the scope, such as `PriorityClass`.
    pub name: &'s str,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, or an invalid text.
    pub operator: &'s str,
    /// The values of `In` and `NotIn`.
    pub values: &'s [Name],
}

impl<'s> From<&'s ScopeExpression> for Scope<'s> {
    fn from(expression: &'s ScopeExpression) -> Self {
        let ScopeExpression { scope_name, operator, values } = expression;
        Self { name: scope_name, operator, values }
    }
}

/// As Kubernetes' messages show it: `{PriorityClass In [high low]}`.
impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}

/// A selector that cannot be evaluated; validation accepts some of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse and convert selector: {0}")]
pub struct BrokenSelector(String);

/// An invalid selector, and its scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error on matching scope {scope}: {source}")]
pub struct BrokenScope {
    scope: String,
    source: BrokenSelector,
}

impl Spec {
    /// Whether the quota applies to only some objects of its namespace.
    pub fn is_scoped(&self) -> bool {
        let selector = self.selector.as_ref();
        !self.scopes.is_empty()
            || selector.is_some_and(|selector| !selector.match_expressions.is_empty())
    }
}

/// All conditions of a quota on objects: `scopes` first, each as `Exists`, then the selector.
pub fn scopes_of(spec: &Spec) -> impl Iterator<Item = Scope<'_>> {
    let plain = spec.scopes.iter().map(|name| Scope { name, operator: "Exists", values: &[] });
    let selector = spec.selector.iter().flat_map(|selector| &selector.match_expressions);
    plain.chain(selector.map(Scope::from))
}

/// Whether a quota applies to objects with these traits: all its scopes match.
///
/// # Errors
/// When any of its selectors is invalid, even if another one does not match.
pub fn matches(spec: &Spec, traits: &Traits) -> Result<bool, BrokenSelector> {
    let mut all = true;
    if !spec.is_scoped() {
        return Ok(all);
    }
    for scope in scopes_of(spec) {
        all &= scope.matches(traits)?;
    }
    Ok(all)
}

/// The `scopes` that match, in order.
///
/// # Errors
/// When any of them is invalid. Kinds without traits match nothing, and never give an error.
pub fn matching<'s>(
    scopes: impl IntoIterator<Item = Scope<'s>>,
    traits: &Traits,
) -> Result<Vec<Scope<'s>>, BrokenScope> {
    let mut matching = Vec::new();
    for scope in scopes {
        let matches = scope.matches(traits);
        let matches = matches.map_err(|source| BrokenScope { scope: scope.to_string(), source })?;
        if matches {
            matching.push(scope);
        }
    }
    Ok(matching)
}

/// The limited scopes that no quota covers. Only the name is compared: a quota for priority class `low` covers a limit
/// on class `high`. Kinds without traits need no cover.
pub fn uncovered<'s>(limited: &[Scope<'s>], covered: &[&str], traits: &Traits) -> Vec<Scope<'s>> {
    if limited.is_empty() || *traits == Traits::Plain {
        return Vec::new();
    }
    let open = limited.iter().filter(|scope| !covered.contains(&scope.name));
    open.copied().collect()
}

impl Scope<'_> {
    /// Whether an object with these traits matches.
    ///
    /// The operator is used only for the two scopes that have values. For the others validation allows `Exists` alone,
    /// so every operator is treated as `Exists`.
    ///
    /// # Errors
    /// When the selector of a scope with values is invalid.
    pub fn matches(&self, traits: &Traits) -> Result<bool, BrokenSelector> {
        match traits {
            Traits::Plain => Ok(false),
            Traits::Pod(pod) | Traits::Replica(pod) | Traits::Template { pod, .. } => {
                self.matches_pod(pod)
            }
            Traits::VolumeClaim { attributes_classes } => match self.name {
                "VolumeAttributesClass" => self.matches_any_of(attributes_classes),
                _ => Ok(false),
            },
        }
    }

    fn matches_pod(&self, pod: &PodTraits) -> Result<bool, BrokenSelector> {
        Ok(match self.name {
            "Terminating" => pod.terminating,
            "NotTerminating" => !pod.terminating,
            "BestEffort" => pod.best_effort,
            "NotBestEffort" => !pod.best_effort,
            "CrossNamespacePodAffinity" => pod.cross_namespace_affinity,
            "PriorityClass" if pod.priority_class.is_empty() => self.matches_any_of(&[])?,
            "PriorityClass" => self.matches_any_of(std::slice::from_ref(&pod.priority_class))?,
            _ => false,
        })
    }

    /// Kubernetes' label selector rules, with one label for each value of the object: `In` and `NotIn` match if they
    /// match for any of the values, and an object without a value is `NotIn`.
    fn matches_any_of(&self, present: &[Name]) -> Result<bool, BrokenSelector> {
        if self.operator == "Exists" {
            return Ok(!present.is_empty());
        }
        self.check()?;
        Ok(match self.operator {
            "In" => present.iter().any(|value| self.values.contains(value)),
            "NotIn" => {
                present.is_empty() || present.iter().any(|value| !self.values.contains(value))
            }
            _ => present.is_empty(),
        })
    }

    /// Kubernetes' checks of a label selector, with its messages.
    fn check(&self) -> Result<(), BrokenSelector> {
        if !matches!(self.operator, "In" | "NotIn" | "DoesNotExist") {
            let operator = quoted(self.operator);
            let text = format!("{operator} is not a valid scope selector operator");
            return Err(BrokenSelector(text));
        }
        let errors = selector::value_errors(self.name, self.operator, self.values);
        selector::aggregate(errors).map_err(BrokenSelector)
    }
}

#[cfg(test)]
mod tests;
