//! Checks names and sizes before they reach the ledger, logs and paths.

use quota_core::{
    decide::{Adopted, Sighting},
    event::Observed,
    size,
};
use quota_semantics::{
    quota::syntax::{self, MAX_SUBDOMAIN},
    uid::Uid,
};

use super::Fault;
use crate::metrics::Rejection;

/// Largest sighting, in bytes of its entry. An object's JSON has at most 1.5 MiB in etcd, and only a small part of it
/// counts.
pub(in crate::intake) const SIGHTING_MAX_BYTES: usize = 1024 * 1024;

/// A namespace, which is required.
pub(super) fn namespace(text: &str) -> Result<(), Fault> {
    wrong("namespace", text, syntax::dns_label(text))
}

/// The name of an object: any valid path segment, the common denominator of all kinds.
pub(super) fn name(text: &str) -> Result<(), Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.len() <= MAX_SUBDOMAIN && !text.is_empty() && text.bytes().all(is_plain) {
        return Ok(());
    }
    let fits = (1..=MAX_SUBDOMAIN).contains(&text.len());
    let is_segment = text != "." && text != ".." && !text.contains(['/', '%']);
    if fits && is_segment && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(Fault::field(format!(
        "name {text:?} must have 1 to {MAX_SUBDOMAIN} bytes and be fit for a path: no '/', '%', control characters"
    )))
}

/// The name of a group.
pub(super) fn group(text: &str) -> Result<(), Fault> {
    wrong("name", text, syntax::subdomain(text))
}

/// A resource and its group.
pub(super) fn resource(text: &str) -> Result<(), Fault> {
    wrong("resource", text, syntax::subdomain(text))
}

/// A resource name of a usage.
pub(super) fn resource_name(text: &str) -> Result<(), Fault> {
    wrong("usage: resource name", text, syntax::qualified_name(text))
}

fn wrong(what: &str, text: &str, complaints: Vec<String>) -> Result<(), Fault> {
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Fault::field(format!(
            "{what} {text:?}: {}",
            complaints.join("; ")
        ))),
    }
}

/// An object's identity.
pub(super) fn uid(text: &str) -> Result<Uid, Fault> {
    if text.is_empty() {
        return Err(Fault::field("the object has no uid"));
    }
    Uid::new(text).map_err(|error| Fault::field(error.to_string()))
}

/// The highest version that an API server uses: etcd's revisions are signed.
const VERSION_MAX: u64 = i64::MAX.unsigned_abs();

/// An object's version; 0 if absent. A version that is too high would make the ledger ignore all later ones.
pub(super) fn version(text: &str) -> Result<u64, Fault> {
    if text.is_empty() {
        return Ok(0);
    }
    let version = text.parse().ok().filter(|&version| version <= VERSION_MAX);
    version.ok_or_else(|| {
        Fault::field(format!(
            "resourceVersion {text:?} is not a number up to {VERSION_MAX}"
        ))
    })
}

/// Refuses a sighting whose entry would be too long.
pub(super) fn fits(sighting: Sighting) -> Result<Sighting, Fault> {
    let size = size(&sighting);
    if size <= SIGHTING_MAX_BYTES {
        return Ok(sighting);
    }
    let reason =
        format!("what counts of the object takes {size} bytes, more than {SIGHTING_MAX_BYTES}");
    Err(Fault::new(Rejection::TooLarge, reason))
}

/// The approximate size of a sighting's entries, in bytes.
pub(super) fn size(sighting: &Sighting) -> usize {
    match sighting {
        Sighting::Alive { object, quota } => size_of(object, quota.as_deref()),
        Sighting::Namespace(namespace) => size::ENTRY + size::of_namespace(namespace),
        Sighting::Group { record, .. } => {
            size::ENTRY + record.metadata.len() + size::of_group(&record.spec)
        }
        Sighting::Deleted { .. }
        | Sighting::NamespaceEnded { .. }
        | Sighting::GroupEnded { .. } => size::ENTRY,
    }
}

/// The approximate size of an object's entries, in bytes.
pub(super) fn size_of(object: &Observed, quota: Option<&Adopted>) -> usize {
    let quota = quota.map_or(0, |quota| quota.metadata.len() + size::of_spec(&quota.spec));
    size::ENTRY + object.name.len() + size::of_footprint(&object.footprint) + quota
}
