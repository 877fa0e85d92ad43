//! Validation of ResourceQuota objects, with Kubernetes' rules and messages (`pkg/apis/core/validation`,
//! `pkg/registry/core/resourcequota`).

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    extension::{Carrier, Extensions},
    manifest::{Manifest, Metadata},
    metadata,
    names::{self, validate_list},
    spec::{ScopeExpression, Spec},
};
use crate::{
    Name,
    field::{FieldError, FieldErrors},
};

const IMMUTABLE: &str = "field is immutable";
const NOT_FOR_SCOPE: &str = "unsupported scope applied to resource";
/// Most scopes of a quota, and expressions of its selector: there are seven scopes.
const SCOPES_MAX: usize = 100;
/// Most values of an expression.
const VALUES_MAX: usize = 1000;
/// Scopes that exclude each other.
const OPPOSITES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// The errors of a quota that follow from its manifest alone. They can be found before it is known whether the quota is
/// new: for the rest, identity, times, versions and managed fields of the manifest may change.
#[derive(Debug)]
pub struct Checked {
    metadata: metadata::Checked,
    spec: Vec<FieldError>,
    scopes: BTreeSet<Name>,
}

impl Checked {
    /// Checks a manifest. Its status is ignored.
    pub fn of(manifest: &Manifest) -> Self {
        let mut spec = FieldErrors::default();
        spec.extend(validate_spec(manifest));
        spec.extend(validate_extensions(manifest));
        Self {
            metadata: metadata::Checked::of(&manifest.metadata, metadata::Scope::Namespaced),
            spec: spec.into(),
            scopes: set_of(&manifest.spec.scopes),
        }
    }

    /// The errors of the manifest as a new quota.
    pub fn create(self, manifest: &Manifest) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        self.metadata.create(&manifest.metadata, &mut errors);
        errors.extend(self.spec);
        errors.into()
    }

    /// The errors of the manifest as a changed quota.
    pub fn update(self, new: &Manifest, old: &Manifest) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        self.metadata.update(&new.metadata, &old.metadata, &mut errors);
        errors.extend(self.spec);
        if self.scopes != set_of(&old.spec.scopes) {
            errors.push(FieldError::invalid("spec.scopes", &shown_scopes(new), IMMUTABLE));
        }
        errors.into()
    }
}

fn set_of(scopes: &[Name]) -> BTreeSet<Name> {
    scopes.iter().cloned().collect()
}

/// The errors of a new quota. Its status is ignored.
pub fn validate_create(manifest: &Manifest) -> Vec<FieldError> {
    Checked::of(manifest).create(manifest)
}

/// The errors of a changed quota. Its status is ignored.
pub fn validate_update(new: &Manifest, old: &Manifest) -> Vec<FieldError> {
    Checked::of(new).update(new, old)
}

/// The error of metadata that takes too many bytes, now that its managed fields are known. `old` is none for a new
/// object; a changed one may keep as many bytes as it has.
pub fn too_large(new: &Metadata, old: Option<&Metadata>) -> Option<FieldError> {
    metadata::too_large(new, old)
}

/// The errors of a changed status. The spec is ignored.
pub fn validate_status_update(new: &Manifest, old: &Manifest) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::Checked::of(&new.metadata, metadata::Scope::Namespaced).update(
        &new.metadata,
        &old.metadata,
        &mut errors,
    );
    if new.metadata.resource_version.is_empty() {
        errors.push(FieldError::required("resourceVersion", ""));
    }
    for (field, list) in [("status.hard", &new.status.hard), ("status.used", &new.status.used)] {
        errors.extend(list.iter().flat_map(|list| validate_list(field, list)));
    }
    errors.into()
}

/// Warnings about a new quota that is valid: requests that may be higher than limits.
pub fn warnings(spec: &Spec) -> Vec<String> {
    let warning = |resource: &str| {
        let plain = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
        let (request_name, request) = [Some(format!("requests.{resource}")), plain]
            .into_iter()
            .flatten()
            .find_map(|name| spec.hard.get(&*name).map(|quantity| (name.clone(), quantity)))?;
        let limit_name = format!("limits.{resource}");
        let limit = spec.hard.get(&*limit_name)?;
        (request > limit).then(|| {
            format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})")
        })
    };
    ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(warning).collect()
}

/// The errors of the annotations `quota-ledger.io/…`.
fn validate_extensions(manifest: &Manifest) -> Vec<FieldError> {
    let annotations = &manifest.metadata.annotations;
    let (extensions, mut errors) = Extensions::from_annotations(annotations, Carrier::Quota);
    errors.extend(extensions.validate_limits(&manifest.spec.hard));
    errors
}

/// The errors of the specification alone.
pub(crate) fn validate_spec(manifest: &Manifest) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    errors.extend(validate_list("spec.hard", &manifest.spec.hard));
    validate_scopes(manifest, &mut errors);
    validate_selector(manifest, &mut errors);
    errors.into()
}

/// The standard names in `hard` that a quota with this scope cannot have.
fn misplaced<'a>(spec: &'a Spec, scope: &'a str) -> impl Iterator<Item = &'a Name> {
    let misplaced = move |name: &&Name| {
        names::is_standard_for_quota(name) && !names::may_have_scope(name, scope)
    };
    spec.hard.names().filter(misplaced)
}

fn validate_scopes(manifest: &Manifest, errors: &mut FieldErrors) {
    let spec = &manifest.spec;
    let scopes = spec.scopes.len();
    if scopes > SCOPES_MAX {
        errors.push(FieldError::too_many("spec.scopes", scopes, SCOPES_MAX));
        return;
    }
    let error = |detail: &str| FieldError::invalid("spec.scopes", &shown_scopes(manifest), detail);
    for scope in &spec.scopes {
        let unsupported = !names::SCOPES.contains(&scope.as_str());
        errors.extend(unsupported.then(|| error("unsupported scope")));
        errors.extend(misplaced(spec, scope).map(|_| error(NOT_FOR_SCOPE)));
    }
    errors.extend(opposites(&spec.scopes.iter().collect()).map(|()| error("conflicting scopes")));
}

fn validate_selector(manifest: &Manifest, errors: &mut FieldErrors) {
    let Some(selector) = &manifest.spec.selector else {
        return;
    };
    let field = "spec.scopeSelector.matchExpressions";
    let expressions = selector.match_expressions.len();
    if expressions > SCOPES_MAX {
        errors.push(FieldError::too_many(field, expressions, SCOPES_MAX));
        return;
    }
    for expression in &selector.match_expressions {
        let misplaced = misplaced(&manifest.spec, &expression.scope_name);
        errors.extend(misplaced.map(|_| {
            FieldError::invalid(
                field,
                &PrintedSelector::new(&selector.match_expressions),
                NOT_FOR_SCOPE,
            )
        }));
        errors.extend(validate_expression(field, expression));
    }
    let scopes =
        selector.match_expressions.iter().map(|expression| &expression.scope_name).collect();
    // Kubernetes shows spec.scopes here, not the selector.
    let conflict = |()| FieldError::invalid(field, &shown_scopes(manifest), "conflicting scopes");
    errors.extend(opposites(&scopes).map(conflict));
}

fn validate_expression(field: &str, expression: &ScopeExpression) -> Vec<FieldError> {
    let ScopeExpression { scope_name, operator, values } = expression;
    let mut errors = Vec::new();
    if values.len() > VALUES_MAX {
        let field = format!("{field}.values");
        errors.push(FieldError::too_many(field, values.len(), VALUES_MAX));
    }
    if !names::SCOPES.contains(&scope_name.as_str()) {
        errors.push(FieldError::invalid(
            format!("{field}.scopeName"),
            scope_name,
            "unsupported scope",
        ));
    }
    let is_value_scope = matches!(scope_name.as_str(), "PriorityClass" | "VolumeAttributesClass");
    if names::SCOPES.contains(&scope_name.as_str()) && !is_value_scope && *operator != "Exists" {
        errors.push(FieldError::invalid(
            format!("{field}.operator"),
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
        ));
    }
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            format!("{field}.values"),
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
            format!("{field}.values"),
            values,
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(FieldError::invalid(
            format!("{field}.operator"),
            operator,
            "not a valid selector operator",
        )),
    }
    errors
}

/// One item for each pair of opposites among the scopes.
fn opposites(scopes: &BTreeSet<&Name>) -> impl Iterator<Item = ()> {
    let held = |pair: &[&str; 2]| pair.iter().all(|scope| scopes.contains(&Name::from(*scope)));
    vec![(); OPPOSITES.iter().filter(|pair| held(pair)).count()].into_iter()
}

/// `spec.scopes` in messages: `null` if it was not given.
fn shown_scopes(manifest: &Manifest) -> Option<&[Name]> {
    let scopes = &manifest.spec.scopes;
    (!scopes.is_empty() || manifest.lists_no_scopes).then_some(scopes)
}

/// A selector in messages: with the field names of Kubernetes' internal type.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PrintedSelector<'a> {
    match_expressions: Vec<PrintedExpression<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PrintedExpression<'a> {
    scope_name: &'a Name,
    operator: &'a Name,
    values: Option<&'a [Name]>,
}

impl<'a> PrintedSelector<'a> {
    fn new(expressions: &'a [ScopeExpression]) -> Self {
        let printed = |expression: &'a ScopeExpression| PrintedExpression {
            scope_name: &expression.scope_name,
            operator: &expression.operator,
            values: (!expression.values.is_empty()).then_some(&expression.values),
        };
        Self { match_expressions: expressions.iter().map(printed).collect() }
    }
}

#[cfg(test)]
mod tests;
