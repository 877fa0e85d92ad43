//! Validation of the metadata of a quota.

use std::collections::BTreeSet;

use super::{
    field::FieldError,
    manifest::{Metadata, OwnerReference},
    syntax::{self, texts},
};

/// Most owner references of an object.
const OWNERS_MAX: usize = 1000;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Whether objects of a kind belong to namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// The errors in the metadata of a new quota.
pub(crate) fn validate(metadata: &Metadata, scope: Scope) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // The suffix of a generated name is appended later, so a dash may be the last character.
    let prefix = metadata
        .generate_name
        .strip_suffix('-')
        .map(|head| format!("{head}a"));
    let prefix = prefix.as_ref().unwrap_or(&metadata.generate_name);
    if !prefix.is_empty() {
        let wrong = syntax::subdomain(prefix);
        errors.extend(texts(
            "metadata.generateName",
            &metadata.generate_name,
            wrong,
        ));
    }
    if metadata.name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        errors.extend(texts(
            "metadata.name",
            &metadata.name,
            syntax::subdomain(&metadata.name),
        ));
    }
    errors.extend(namespace(&metadata.namespace, scope));
    if metadata.generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            "metadata.generation",
            &metadata.generation,
            detail,
        ));
    }
    errors.extend(common(metadata));
    for finalizer in &metadata.finalizers {
        errors.extend(texts(
            "metadata.finalizers",
            finalizer,
            syntax::qualified_name(finalizer),
        ));
    }
    let has = |name: &str| {
        metadata
            .finalizers
            .iter()
            .any(|finalizer| finalizer == name)
    };
    if has(ORPHAN) && has(FOREGROUND) {
        let detail = format!("finalizer {FOREGROUND} and {ORPHAN} cannot be both set");
        errors.push(FieldError::invalid(
            "metadata.finalizers",
            &metadata.finalizers,
            detail,
        ));
    }
    errors
}

fn namespace(namespace: &str, scope: Scope) -> Vec<FieldError> {
    let field = "metadata.namespace";
    match (scope, namespace) {
        (Scope::Namespaced, "") => vec![FieldError::required(field, "")],
        (Scope::Namespaced, _) => texts(field, namespace, syntax::dns_label(namespace)),
        (Scope::Cluster, "") => Vec::new(),
        (Scope::Cluster, _) => vec![FieldError::forbidden(field, "not allowed on this type")],
    }
}

/// The errors in the metadata of a changed quota.
pub(crate) fn validate_update(new: &Metadata, old: &Metadata) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.deletion_timestamp.is_some() {
        let before: BTreeSet<_> = old.finalizers.iter().collect();
        let added = new.finalizers.iter();
        let added: Vec<_> = added.filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                added
                    .iter()
                    .map(|name| format!("{name:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    if new.resource_version.is_empty() {
        errors.push(FieldError::invalid_text(
            "metadata.resourceVersion",
            "",
            "must be specified for an update",
        ));
    }
    if new.generation < old.generation {
        errors.push(FieldError::invalid(
            "metadata.generation",
            &new.generation,
            "must not be decremented",
        ));
    }
    errors.extend(immutable("name", &new.name, &old.name));
    errors.extend(immutable("namespace", &new.namespace, &old.namespace));
    errors.extend(immutable("uid", &new.uid, &old.uid));
    errors.extend(immutable(
        "creationTimestamp",
        &new.creation_timestamp,
        &old.creation_timestamp,
    ));
    errors.extend(immutable(
        "deletionTimestamp",
        &new.deletion_timestamp,
        &old.deletion_timestamp,
    ));
    let field = "deletionGracePeriodSeconds";
    errors.extend(immutable(
        field,
        &new.deletion_grace_period_seconds,
        &old.deletion_grace_period_seconds,
    ));
    errors.extend(common(new));
    errors
}

fn immutable<T: PartialEq + serde::Serialize>(field: &str, new: &T, old: &T) -> Option<FieldError> {
    (new != old)
        .then(|| FieldError::invalid(format!("metadata.{field}"), new, "field is immutable"))
}

/// The checks for both creations and updates.
fn common(metadata: &Metadata) -> Vec<FieldError> {
    let mut errors = syntax::labels("metadata.labels", &metadata.labels);
    errors.extend(syntax::annotations(
        "metadata.annotations",
        &metadata.annotations,
    ));
    errors.extend(owners(&metadata.owner_references));
    for (place, finalizer) in metadata.finalizers.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()) {
            errors.push(FieldError::invalid_text(
                format!("metadata.finalizers[{place}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    errors
}

fn owners(owners: &[OwnerReference]) -> Vec<FieldError> {
    let field = "metadata.ownerReferences";
    if owners.len() > OWNERS_MAX {
        return vec![FieldError::too_many(field, owners.len(), OWNERS_MAX)];
    }
    let mut errors = Vec::new();
    let mut controller: Option<&OwnerReference> = None;
    for owner in owners {
        if !has_version(&owner.api_version) {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid_text(
                format!("{field}.apiVersion"),
                &owner.api_version,
                detail,
            ));
        }
        for (child, text) in [
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ] {
            if text.is_empty() {
                errors.push(FieldError::invalid_text(
                    format!("{field}.{child}"),
                    text,
                    "must not be empty",
                ));
            }
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            errors.push(FieldError::invalid(
                field,
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        match controller {
            Some(first) if owner.controller == Some(true) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for \
                     {}/{} and {}/{}",
                    first.kind, first.name, owner.kind, owner.name
                );
                errors.push(FieldError::invalid(field, &owners, detail));
            }
            None if owner.controller == Some(true) => controller = Some(owner),
            _ => {}
        }
    }
    errors
}

/// Whether an apiVersion, `version` or `group/version`, has a version.
fn has_version(api_version: &str) -> bool {
    let version = api_version
        .split_once('/')
        .map_or(api_version, |(_, version)| version);
    !version.is_empty() && !version.contains('/')
}
