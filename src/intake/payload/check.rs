//! Checks names and sizes before they reach the ledger, logs and paths.

use std::{collections::HashSet, time::Instant};

use quota_core::{
    decide::{Adopted, Sighting},
    event::Observed,
    size,
};
use quota_semantics::{
    Name,
    object::{Footprint, Traits},
    quota::syntax::{self, MAX_SUBDOMAIN},
    uid::Uid,
};

use super::Fault;
use crate::{
    log_limiter::{LogLimiter, cut},
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

/// The name of an object, as the ledger records it: any valid path segment, the common denominator of all kinds. API
/// servers take names of roles of any length and with control characters. Such a name is recorded in a shorter form:
/// its author chose it, and a rejected event keeps relists of everybody from being complete.
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
    let is_short = text.len() <= MAX_SUBDOMAIN && !text.contains(char::is_control);
    Ok(if is_short {
        text.into()
    } else {
        short_form(text)
    })
}

/// The beginning of a name, and its hash, by which other long names differ.
fn short_form(name: &str) -> Box<str> {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let hash = &hash[..16];
    let most = MAX_SUBDOMAIN - 1 - hash.len();
    let begin = cut(name, most);
    let printable = begin.replace(char::is_control, "_");
    format!("{printable}~{hash}").into()
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

/// The sighting, with an entry that is not too long. An object is not refused for the number of its resources, since its
/// author chooses them, and a rejected event keeps relists of everybody from being complete. Some are left out instead.
pub(super) fn fits(mut sighting: Sighting) -> Result<Sighting, Fault> {
    let size = size(&sighting);
    let excess = size.saturating_sub(SIGHTING_MAX_BYTES);
    if excess == 0 {
        return Ok(sighting);
    }
    if let Sighting::Alive { object, .. } = &mut sighting
        && let Some(left_out) = shorten(&mut object.footprint, excess)
    {
        report(object, left_out);
        return Ok(sighting);
    }
    let reason =
        format!("what counts of the object takes {size} bytes, more than {SIGHTING_MAX_BYTES}");
    Err(Fault::new(Rejection::TooLarge, reason))
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
        let is_twice = replica.is_some_and(|replica| replica.get(name).is_some());
        bytes += size::of_amount(name) * (1 + usize::from(is_twice));
        left_out.insert(name.clone());
    }
    if bytes < excess {
        return None;
    }
    footprint
        .resources
        .retain(|name, _| !left_out.contains(name));
    if let Traits::Template { replica, .. } = &mut footprint.traits {
        replica.retain(|name, _| !left_out.contains(name));
    }
    Some(left_out.len())
}

fn report(object: &Observed, left_out: usize) {
    metrics::resources_left_out(left_out);
    if let Some(held_back) = WARNINGS.pass(Instant::now()) {
        let Observed {
            namespace,
            resource,
            name,
            ..
        } = object;
        tracing::warn!(
            %namespace,
            %resource,
            %name,
            left_out,
            held_back,
            "an object names too many resources: those that were left out do not count"
        );
    }
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
