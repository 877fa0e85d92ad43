//! Checks names and sizes before they reach the ledger, logs and paths.

use std::{collections::HashSet, sync::Arc};

use quota_core::{
    decide::{Adopted, Sighting},
    event::{GroupRecord, Observed},
    size,
};
use quota_semantics::{
    Name, group,
    object::{Footprint, Traits, short_name},
    syntax::{self, MAX_SUBDOMAIN},
    uid::Uid,
};

use super::Fault;
use crate::{
    log_limiter::LogLimiter,
    metrics::{self, Rejection},
};

/// Largest sighting, in bytes of its entry. An API server stores at most 1.5 MiB of an object (by etcd's default). There
/// each resource that a pod names takes 26 bytes or more, and about 60 in the estimate of an entry.
pub(in crate::intake) const SIGHTING_MAX_BYTES: usize = 3840 * 1024;

/// Warnings about resources that were left out, of all sources.
static WARNINGS: LogLimiter = LogLimiter::new(1);

/// A namespace, which is required.
pub(super) fn namespace(text: &str) -> Result<(), Fault> {
    wrong("namespace", text, syntax::dns_label(text))
}

/// The name of an object, as the ledger records it: any valid path segment, the common denominator of all kinds, in its
/// short form if it is long.
pub(super) fn name(text: &str) -> Result<Box<str>, Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.len() <= MAX_SUBDOMAIN && !text.is_empty() && text.bytes().all(is_plain) {
        return Ok(text.into());
    }
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '%']) {
        return Err(Fault::field(format!(
            "name {text:?} must not be empty, and be fit for a path: no '/', '%'"
        )));
    }
    Ok(short_name(text).map_or_else(|| text.into(), String::into_boxed_str))
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
        false => Err(Fault::field(format!("{what} {text:?}: {}", complaints.join("; ")))),
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
        Fault::field(format!("resourceVersion {text:?} is not a number up to {VERSION_MAX}"))
    })
}

/// The sighting, with an entry that is not too long. An object is not refused for the number of its resources, since its
/// author chooses them, and a rejected event keeps relists of everybody from being complete. Some are left out instead;
/// of a group all that it limits, since a part of its limits is not what its author meant. So it is with a group whose
/// selector is too large.
pub(super) fn fits(mut sighting: Sighting) -> Result<Sighting, Fault> {
    let whole = size(&sighting);
    let excess = whole.saturating_sub(SIGHTING_MAX_BYTES);
    if excess == 0 && !selects_by_too_much(&sighting) {
        return Ok(sighting);
    }
    match &mut sighting {
        Sighting::Alive { object, .. } => {
            if let Some(left_out) = shorten(&mut object.footprint, excess) {
                report(&object.namespace, &object.resource, &object.name, left_out);
                return Ok(sighting);
            }
        }
        Sighting::Group { record, .. }
            if size_of_group(record, &group::Spec::default()) <= SIGHTING_MAX_BYTES =>
        {
            let record = Arc::make_mut(record);
            let spec = std::mem::take(&mut record.spec);
            report("", group::manifest::RESOURCE, &record.name, spec.quota.hard.len());
            return Ok(sighting);
        }
        _ => {}
    }
    let reason =
        format!("what counts of the object takes {whole} bytes, more than {SIGHTING_MAX_BYTES}");
    Err(Fault::new(Rejection::TooLarge, reason))
}

/// Whether a sighting is of a group whose selector is too large.
fn selects_by_too_much(sighting: &Sighting) -> bool {
    let Sighting::Group { record, .. } = sighting else {
        return false;
    };
    record.spec.selector.excess("").is_some()
}

/// Removes resources until the entry is shorter by `excess` bytes, and returns their number: the last ones by name, but
/// those that every object of its kind has at the very last. None if even all of them are too few.
fn shorten(footprint: &mut Footprint, excess: usize) -> Option<usize> {
    let is_own = |name: &&Name| {
        name.starts_with("count/") || !(name.contains('/') || name.contains("hugepages-"))
    };
    let replica = match &footprint.traits {
        Traits::Template { replica, .. } => Some(replica),
        _ => None,
    };
    let (own, others): (Vec<&Name>, Vec<_>) = footprint.resources.names().partition(is_own);
    let (mut left_out, mut bytes) = (HashSet::new(), 0);
    for name in others.into_iter().rev().chain(own.into_iter().rev()) {
        if bytes >= excess {
            break;
        }
        let amounts = [Some(&footprint.resources), replica].into_iter().flatten();
        let amounts = amounts.filter_map(|list| list.get(name));
        bytes += amounts.map(|amount| size::of_amount(name, amount)).sum::<usize>();
        left_out.insert(name.clone());
    }
    if bytes < excess {
        return None;
    }
    footprint.resources.retain(|name, _| !left_out.contains(name));
    if let Traits::Template { replica, .. } = &mut footprint.traits {
        replica.retain(|name, _| !left_out.contains(name));
    }
    Some(left_out.len())
}

fn report(namespace: &str, resource: &str, name: &str, left_out: usize) {
    metrics::resources_left_out(left_out);
    if let Some(held_back) = WARNINGS.pass() {
        tracing::warn!(
            namespace,
            resource,
            name,
            left_out,
            held_back,
            "an object names too many resources, or a group selects by too many values: the resources that were left out do not count"
        );
    }
}

/// The approximate size of a sighting's entries, in bytes.
pub(super) fn size(sighting: &Sighting) -> usize {
    match sighting {
        Sighting::Alive { object, quota } => size_of(object, quota.as_deref()),
        Sighting::Namespace(namespace) => size::ENTRY + size::of_namespace(namespace),
        Sighting::Group { record, .. } => size_of_group(record, &record.spec),
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

/// The approximate size of a group's entry with this specification, in bytes.
fn size_of_group(record: &GroupRecord, spec: &group::Spec) -> usize {
    size::ENTRY + record.metadata.len() + size::of_group(spec)
}
