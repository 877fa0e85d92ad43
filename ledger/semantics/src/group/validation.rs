//! Validation of groups, with OpenShift's rules and messages for OpenShift's fields. Rules about other groups are in
//! [`tree`](super::tree).

use super::{
    extension::{GUARANTEED, OBJECTS, PARENT, field_of},
    manifest::Manifest,
    manifest::Spec,
};
use crate::{
    field::{FieldError, FieldErrors},
    quota::{
        self,
        manifest::Metadata,
        metadata::{self, Scope},
        validation::validate_spec,
    },
    syntax,
};

/// What follows from the manifest of a group alone. It can be found before it is known whether the group is new: for the
/// rest, identity, times, versions and managed fields of the manifest may change.
#[derive(Debug)]
pub struct Checked {
    metadata: metadata::Checked,
    spec: Spec,
    errors: Vec<FieldError>,
}

impl Checked {
    /// Checks a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let (spec, wrong) = manifest.spec();
        let mut errors = FieldErrors::default();
        errors.extend(wrong);
        validate_selector(&spec, &mut errors);
        errors.extend(validate_quota(&spec));
        errors.extend(validate_extensions(&spec));
        Self {
            metadata: metadata::Checked::of(&manifest.metadata, Scope::Cluster),
            spec,
            errors: errors.into(),
        }
    }

    /// Gives the manifest the owners and finalizers of the stored group, which were checked when it was stored. The
    /// checked manifest has none of its own.
    pub fn keep_owners_and_finalizers(&mut self, new: &mut Metadata, stored: &Metadata) {
        self.metadata.keep_owners_and_finalizers(new, stored);
    }

    /// The specification, extensions included, if the manifest is right as a new group.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn create(self, manifest: &Manifest) -> Result<Spec, Vec<FieldError>> {
        let mut errors = FieldErrors::default();
        self.metadata.create(&manifest.metadata, &mut errors);
        errors.extend(self.errors);
        unless_wrong(self.spec, errors)
    }

    /// The specification, extensions included, if the manifest is right as a changed group.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn update(self, new: &Manifest, old: &Manifest) -> Result<Spec, Vec<FieldError>> {
        let mut errors = FieldErrors::default();
        self.metadata.update(&new.metadata, &old.metadata, &mut errors);
        errors.extend(self.errors);
        unless_wrong(self.spec, errors)
    }
}

fn unless_wrong(spec: Spec, errors: FieldErrors) -> Result<Spec, Vec<FieldError>> {
    let errors: Vec<FieldError> = errors.into();
    match errors.is_empty() {
        true => Ok(spec),
        false => Err(errors),
    }
}

/// The errors of a new group.
pub fn validate_create(manifest: &Manifest) -> Vec<FieldError> {
    let checked = Checked::of(manifest).create(manifest);
    checked.err().unwrap_or_default()
}

/// The errors of a changed group.
pub fn validate_update(new: &Manifest, old: &Manifest) -> Vec<FieldError> {
    let checked = Checked::of(new).update(new, old);
    checked.err().unwrap_or_default()
}

fn validate_selector(spec: &Spec, errors: &mut FieldErrors) {
    let field = "spec.selector";
    if let Some(excess) = spec.selector.excess(field) {
        errors.push(excess);
        return;
    }
    if let Some(labels) = &spec.selector.labels {
        let field = format!("{field}.labels");
        errors.extend(labels.validate(&field));
        // Whether an empty selector alone is an error is up to the tree: a group with children needs no selector.
        if labels.is_empty() && !spec.selector.annotations.is_empty() {
            let detail = "must restrict the selected projects";
            errors.push(FieldError::invalid(field, labels, detail));
        }
    }
    let annotations = &spec.selector.annotations;
    errors.extend(syntax::annotations(&format!("{field}.annotations"), annotations));
}

/// The errors of a ResourceQuota's spec, with the field paths of a group.
fn validate_quota(spec: &Spec) -> Vec<FieldError> {
    let mut quota = quota::Manifest::default();
    quota.spec.clone_from(&spec.quota);
    let mut errors = validate_spec(&quota);
    for error in &mut errors {
        if let Some(rest) = error.field.strip_prefix("spec.") {
            error.field = format!("spec.quota.{rest}");
        }
    }
    errors
}

/// The errors of the extensions of a group that do not depend on other groups or on the recorded labels of objects.
pub fn validate_extensions(spec: &Spec) -> Vec<FieldError> {
    let extensions = &spec.extensions;
    let mut errors = extensions.validate_limits(&spec.quota.hard);
    if let Some(parent) = &extensions.parent {
        let field = field_of(PARENT);
        errors.extend(syntax::texts(&field, parent, syntax::subdomain(parent)));
    }
    if let Some(objects) = &extensions.objects {
        let field = field_of(OBJECTS);
        errors.extend(objects.validate(&field));
        if objects.is_empty() {
            errors.push(FieldError::required(field.clone(), "must select some objects"));
        }
    }
    if extensions.each {
        let conflict = |key: &str| {
            let detail = "a group that limits each member alone has no place in a tree";
            FieldError::forbidden(field_of(key), detail)
        };
        errors.extend(extensions.parent.iter().map(|_| conflict(PARENT)));
        errors.extend((!extensions.guaranteed.is_empty()).then(|| conflict(GUARANTEED)));
    }
    errors
}

/// The field path of an error in `/v1`, where the extensions are fields.
pub fn typed_field(field: &str) -> String {
    let annotation = field.strip_prefix("metadata.annotations[quota-ledger.io/");
    if let Some((key, rest)) = annotation.and_then(|field| field.split_once(']')) {
        return format!("{key}{rest}");
    }
    for prefix in ["spec.quota.", "spec."] {
        if let Some(rest) = field.strip_prefix(prefix) {
            return rest.to_owned();
        }
    }
    field.to_owned()
}

#[cfg(test)]
mod tests;
