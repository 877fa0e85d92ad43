//! What a Kubernetes object tells.

use std::collections::BTreeMap;

use quota_core::{
    decide::{Adopted, Sighting},
    event::Observed,
};
use quota_semantics::{
    Timestamp,
    object::{Metadata, NoContext, TypeMeta},
};
use serde_json::value::RawValue;

use super::{
    Fault, Reader, check,
    watched::{Quota, Watched},
    wire::Change,
};

/// What is not kept of a quota's metadata: what the record holds by itself, and what changes with every write of
/// its status.
const NOT_KEPT: [&str; 6] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
];

/// What an object tells; nothing if it does not count.
pub(super) fn sighting(
    reader: &Reader,
    change: Change,
    watched: Watched<'_>,
    now: Timestamp,
) -> Result<Option<Sighting>, Fault> {
    if watched.object.metadata().namespace.is_empty() {
        return match reader.adopt && change == Change::Deleted && is_namespace(&watched.type_meta) {
            true => namespace_ended(watched.object.metadata()).map(Some),
            false => Ok(None),
        };
    }
    let kind = reader.kind(&watched.type_meta)?;
    if kind.is_ignored {
        return Ok(None);
    }
    let workload = match reader.charging.charges(&kind.resource) && change == Change::Alive {
        true => Some(watched.workload()?),
        false => None,
    };
    let Watched { object, quota, .. } = watched;
    let object = workload.unwrap_or(object);
    let metadata = object.metadata();
    check::namespace(&metadata.namespace)?;
    check::name(&metadata.name)?;
    let uid = check::uid(&metadata.uid)?;
    let version = check::version(&metadata.resource_version)?;
    let quota = quota.filter(|_| reader.adopt);
    if change == Change::Deleted {
        let namespace = metadata.namespace.clone();
        let quota = quota.map(|_| metadata.name.clone());
        return Ok(Some(Sighting::Deleted {
            uid,
            namespace,
            quota,
        }));
    }
    let quota = quota
        .map(|quota| adopted(metadata, *quota, now))
        .transpose()?;
    let observed = Observed {
        uid,
        namespace: metadata.namespace.clone(),
        resource: kind.name.clone(),
        name: metadata.name.as_str().into(),
        version,
        footprint: reader
            .charging
            .footprint(&kind.resource, &object, now, &NoContext),
        // One that has lapsed already is counted accordingly.
        lapse: object.lapse().filter(|lapse| *lapse >= now),
        ends_reservation: false,
    };
    let sighting = Sighting::Alive {
        object: Box::new(observed),
        quota: quota.map(Box::new),
    };
    check::fits(sighting).map(Some)
}

fn is_namespace(kind: &TypeMeta) -> bool {
    *kind.api_version == *"v1" && *kind.kind == *"Namespace"
}

fn namespace_ended(metadata: &Metadata) -> Result<Sighting, Fault> {
    check::namespace(&metadata.name)?;
    Ok(Sighting::NamespaceEnded {
        namespace: metadata.name.as_str().into(),
        version: check::version(&metadata.resource_version)?,
    })
}

fn adopted(metadata: &Metadata, quota: Quota, now: Timestamp) -> Result<Adopted, Fault> {
    let mut rest: BTreeMap<&str, &RawValue> = serde_json::from_str(&quota.metadata)?;
    rest.retain(|key, _| !NOT_KEPT.contains(key));
    let text = match rest.is_empty() {
        true => String::new(),
        false => serde_json::to_string(&rest)?,
    };
    Ok(Adopted {
        created: metadata.creation_timestamp.unwrap_or(now),
        spec: quota.spec,
        metadata: text.into(),
    })
}
