//! Validation of the metadata of a quota.

use std::{collections::BTreeSet, io};

use serde::Serialize;

use super::manifest::{Metadata, OwnerReference};
use crate::{
    field::{FieldError, FieldErrors, SHOWN_BYTES_MAX, shown},
    syntax::{self, texts},
};

/// Most owner references of an object.
const OWNERS_MAX: usize = 1000;
/// Most labels of an object.
const LABELS_MAX: usize = 1000;
/// Most finalizers of an object.
const FINALIZERS_MAX: usize = 1000;

/// Most bytes of the labels, annotations, owner references, finalizers and managed fields of an object together, as
/// JSON. Kubernetes bounds the annotations to half of it, and the whole object to three times as much, in etcd.
const METADATA_MAX: usize = 512 << 10;

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

/// The errors of metadata that follow from the metadata itself, apart from the amount of it.
#[derive(Debug)]
pub(crate) struct Checked {
    /// Those that only a new object is refused for.
    new: Vec<FieldError>,
    /// Those that any object is refused for.
    common: Vec<FieldError>,
    /// Those of finalizers that only a new object is refused for.
    finalizers: Vec<FieldError>,
    /// The bytes of all fields that callers fill, except for the managed fields.
    bytes: usize,
}

impl Checked {
    /// Checks metadata.
    pub(crate) fn of(metadata: &Metadata, scope: Scope) -> Self {
        Self {
            new: of_new(metadata, scope),
            common: common(metadata),
            finalizers: finalizers(&metadata.finalizers),
            bytes: bytes_of_the_rest(metadata),
        }
    }

    /// Gives the metadata, which has none of its own, the owners and finalizers of the stored object.
    pub(crate) fn keep_owners_and_finalizers(&mut self, new: &mut Metadata, stored: &Metadata) {
        let before = bytes_of_owners_and_finalizers(new);
        new.owner_references.clone_from(&stored.owner_references);
        new.finalizers.clone_from(&stored.finalizers);
        self.bytes = self.bytes - before + bytes_of_owners_and_finalizers(new);
    }

    /// The errors of the metadata as that of a new object.
    pub(crate) fn create(self, metadata: &Metadata, errors: &mut FieldErrors) {
        let bytes = self.bytes + bytes_of_managers(metadata);
        errors.extend(too_much(bytes, None));
        errors.extend(self.new);
        errors.extend(self.common);
        errors.extend(self.finalizers);
    }

    /// The errors of the metadata as that of a changed object.
    pub(crate) fn update(self, new: &Metadata, old: &Metadata, errors: &mut FieldErrors) {
        let bytes = self.bytes + bytes_of_managers(new);
        errors.extend(too_much(bytes, Some(old)));
        errors.extend(of_change(new, old));
        errors.extend(self.common);
    }
}

/// The error of metadata that takes too many bytes as it is stored. An object may keep as many as it has.
pub(crate) fn too_large(new: &Metadata, old: Option<&Metadata>) -> Option<FieldError> {
    too_much(bytes_of_the_rest(new) + bytes_of_managers(new), old)
}

fn too_much(bytes: usize, old: Option<&Metadata>) -> Option<FieldError> {
    let before = || old.map_or(0, |old| bytes_of_the_rest(old) + bytes_of_managers(old));
    let is_too_much = bytes > METADATA_MAX && bytes > before();
    is_too_much.then(|| FieldError::too_long("metadata", METADATA_MAX))
}

/// The fields that callers fill, without the managed fields: these are assigned later than the others.
fn bytes_of_the_rest(metadata: &Metadata) -> usize {
    bytes(&metadata.labels)
        + bytes(&metadata.annotations)
        + bytes_of_owners_and_finalizers(metadata)
}

fn bytes_of_owners_and_finalizers(metadata: &Metadata) -> usize {
    bytes(&metadata.owner_references) + bytes(&metadata.finalizers)
}

fn bytes_of_managers(metadata: &Metadata) -> usize {
    bytes(&metadata.managed_fields)
}

/// The bytes of a value as JSON, which is how metadata is stored.
fn bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    // The counter never fails, and metadata has only texts as keys.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Counts what is written to it.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0 += text.len();
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The errors that only a new object is refused for.
fn of_new(metadata: &Metadata, scope: Scope) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // The suffix of a generated name is appended later, so a dash may be the last character.
    let prefix = metadata.generate_name.strip_suffix('-').map(|head| format!("{head}a"));
    let prefix = prefix.as_ref().unwrap_or(&metadata.generate_name);
    if !prefix.is_empty() {
        let wrong = syntax::subdomain(prefix);
        errors.extend(texts("metadata.generateName", &metadata.generate_name, wrong));
    }
    if metadata.name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        errors.extend(texts("metadata.name", &metadata.name, syntax::subdomain(&metadata.name)));
    }
    errors.extend(namespace(&metadata.namespace, scope));
    if metadata.generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", &metadata.generation, detail));
    }
    errors
}

/// The errors of finalizers that only a new object is refused for. Too many of them are an error of any object.
fn finalizers(finalizers: &[String]) -> Vec<FieldError> {
    if finalizers.len() > FINALIZERS_MAX {
        return Vec::new();
    }
    let field = "metadata.finalizers";
    let mut errors = FieldErrors::default();
    errors.extend(finalizers.iter().flat_map(|finalizer| {
        let wrong = syntax::qualified_name(finalizer);
        texts(field, finalizer, wrong)
    }));
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) && has(FOREGROUND) {
        let detail = format!("finalizer {FOREGROUND} and {ORPHAN} cannot be both set");
        errors.push(FieldError::invalid(field, &finalizers, detail));
    }
    errors.into()
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

/// The errors of a change of metadata.
fn of_change(new: &Metadata, old: &Metadata) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.deletion_timestamp.is_some() {
        let before: BTreeSet<_> = old.finalizers.iter().collect();
        let added = new.finalizers.iter();
        // The explanation is cut where it is longer than what is shown.
        let added: Vec<_> = added
            .filter(|name| !before.contains(name))
            .take(SHOWN_BYTES_MAX)
            .map(|name| format!("{:?}", shown(name, SHOWN_BYTES_MAX)))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                added.join(", ")
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
    errors.extend(immutable("creationTimestamp", &new.creation_timestamp, &old.creation_timestamp));
    errors.extend(immutable("deletionTimestamp", &new.deletion_timestamp, &old.deletion_timestamp));
    let field = "deletionGracePeriodSeconds";
    errors.extend(immutable(
        field,
        &new.deletion_grace_period_seconds,
        &old.deletion_grace_period_seconds,
    ));
    errors
}

fn immutable<T: PartialEq + Serialize>(field: &str, new: &T, old: &T) -> Option<FieldError> {
    (new != old)
        .then(|| FieldError::invalid(format!("metadata.{field}"), new, "field is immutable"))
}

/// The checks for both creations and updates.
fn common(metadata: &Metadata) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    let Metadata { labels, finalizers, .. } = metadata;
    let field = "metadata.labels";
    match labels.len() > LABELS_MAX {
        true => errors.push(FieldError::too_many(field, labels.len(), LABELS_MAX)),
        false => errors.extend(syntax::labels(field, labels)),
    }
    errors.extend(syntax::annotations("metadata.annotations", &metadata.annotations));
    owners(&metadata.owner_references, &mut errors);
    let field = "metadata.finalizers";
    if finalizers.len() > FINALIZERS_MAX {
        errors.push(FieldError::too_many(field, finalizers.len(), FINALIZERS_MAX));
        return errors.into();
    }
    let is_plain =
        |finalizer: &str| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer);
    let plain = finalizers.iter().enumerate();
    let plain = plain.filter(|(_, finalizer)| is_plain(finalizer));
    errors.extend(plain.map(|(place, finalizer)| {
        FieldError::invalid_text(
            format!("{field}[{place}]"),
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
    }));
    errors.into()
}

fn owners(owners: &[OwnerReference], errors: &mut FieldErrors) {
    let field = "metadata.ownerReferences";
    if owners.len() > OWNERS_MAX {
        errors.push(FieldError::too_many(field, owners.len(), OWNERS_MAX));
        return;
    }
    let mut controllers = Vec::new();
    for owner in owners {
        if errors.is_full() {
            return;
        }
        if !has_version(&owner.api_version) {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid_text(
                format!("{field}.apiVersion"),
                &owner.api_version,
                detail,
            ));
        }
        for (child, text) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
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
        if owner.controller == Some(true) {
            controllers.push(owner);
        }
        // Kubernetes repeats this for each further controller. Each error would show all owners again.
        if owner.controller == Some(true)
            && let [first, second] = controllers[..]
        {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for \
                 {}/{} and {}/{}",
                first.kind, first.name, second.kind, second.name
            );
            errors.push(FieldError::invalid(field, &owners, detail));
        }
    }
}

/// Whether an apiVersion, `version` or `group/version`, has a version.
fn has_version(api_version: &str) -> bool {
    let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
    !version.is_empty() && !version.contains('/')
}
