//! Turns a Kubernetes object into its footprint.

use std::{collections::BTreeMap, sync::Arc};

use quota_core::{
    decide::{Adopted, Sighting},
    event::{ANNOTATION_MAX_BYTES, GroupRecord, NamespaceRecord, Observed},
};
use quota_semantics::{
    Name, Timestamp,
    group::{
        Extensions,
        extension::{Carrier, PREFIX, field_of},
        manifest::ADOPTED_VERSION,
    },
    object::{Metadata, NoContext},
    quota::manifest::LAST_APPLIED,
    resource::ResourceList,
};
use serde_json::value::RawValue;

use super::{
    Fault, Reader, check,
    wire::{Change, Field, Group, Namespace, Quota, Watched},
};

/// The metadata fields of a quota that are not stored: the record holds them separately, or they change with every
/// write of the status.
const NOT_KEPT: [&str; 6] =
    ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"];

/// The sighting of an object; none if the object does not count. `resource`: the name of its kind, if its event has it.
pub(super) fn sighting(
    reader: &Reader,
    change: Change,
    resource: Option<&Field<'_>>,
    watched: Watched<'_>,
    now: Timestamp,
) -> Result<Option<Sighting>, Fault> {
    if watched.object.metadata().namespace.is_empty() {
        let metadata = watched.object.metadata();
        let group = watched.group.filter(|_| reader.adopt);
        return match (watched.namespace, group, change) {
            (Some(namespace), _, Change::Alive) => namespace_seen(metadata, *namespace).map(Some),
            (Some(_), _, Change::Deleted) => namespace_ended(metadata, reader.adopt).map(Some),
            (None, Some(group), Change::Alive) => {
                group_seen(metadata, *group, reader.group_depth, now).map(Some)
            }
            (None, Some(_), Change::Deleted) => group_ended(metadata).map(Some),
            (None, None, _) => Ok(None),
        };
    }
    let kind = reader.kind_of(resource, &watched.type_meta)?;
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
    let name = check::name(&metadata.name)?;
    let uid = check::uid(&metadata.uid)?;
    let version = check::version(&metadata.resource_version)?;
    let quota = quota.filter(|_| reader.adopt);
    if change == Change::Deleted {
        let namespace = metadata.namespace.clone();
        let quota = quota.map(|_| metadata.name.clone());
        return Ok(Some(Sighting::Deleted { uid, namespace, quota }));
    }
    let quota = quota.map(|quota| adopted(metadata, *quota, now)).transpose()?;
    let observed = Observed {
        uid,
        namespace: metadata.namespace.clone(),
        resource: kind.name.clone(),
        name,
        version,
        footprint: reader.charging.footprint(&kind.resource, &object, now, &NoContext),
        // A lapse in the past is already part of the footprint.
        lapse: object.lapse().filter(|lapse| *lapse >= now),
        ends_reservation: false,
    };
    let sighting = Sighting::Alive { object: Box::new(observed), quota: quota.map(Box::new) };
    check::fits(sighting).map(Some)
}

fn namespace_seen(metadata: &Metadata, namespace: Namespace) -> Result<Sighting, Fault> {
    check::namespace(&metadata.name)?;
    let annotations = namespace.annotations.unwrap_or_default().into_iter();
    let annotations = annotations
        .filter(|(key, value)| *key != *LAST_APPLIED && value.len() <= ANNOTATION_MAX_BYTES);
    check::fits(Sighting::Namespace(Arc::new(NamespaceRecord {
        name: metadata.name.as_str().into(),
        uid: check::uid(&metadata.uid)?,
        version: check::version(&metadata.resource_version)?,
        labels: namespace.labels.unwrap_or_default(),
        annotations: annotations.map(|(key, value)| (key, Name::from(value))).collect(),
    })))
}

fn namespace_ended(metadata: &Metadata, adopts: bool) -> Result<Sighting, Fault> {
    check::namespace(&metadata.name)?;
    let uid = (!metadata.uid.is_empty()).then(|| check::uid(&metadata.uid));
    Ok(Sighting::NamespaceEnded {
        namespace: metadata.name.as_str().into(),
        uid: uid.transpose()?,
        adopts,
        version: check::version(&metadata.resource_version)?,
    })
}

fn group_seen(
    metadata: &Metadata,
    group: Group,
    max_depth: usize,
    now: Timestamp,
) -> Result<Sighting, Fault> {
    check::group(&metadata.name)?;
    let version = check::version(&metadata.resource_version)?;
    let version = RawValue::from_string(version.to_string())?;
    let record = GroupRecord {
        name: metadata.name.as_str().into(),
        uid: check::uid(&metadata.uid)?,
        created: metadata.creation_timestamp.unwrap_or(now),
        // Invalid extensions have no effect, and stay in the metadata.
        spec: group.manifest.spec().0,
        metadata: kept(&group.metadata, Some((ADOPTED_VERSION, &version)))?,
    };
    check::fits(Sighting::Group { record: Arc::new(record), max_depth })
}

fn group_ended(metadata: &Metadata) -> Result<Sighting, Fault> {
    check::group(&metadata.name)?;
    Ok(Sighting::GroupEnded {
        name: metadata.name.as_str().into(),
        uid: check::uid(&metadata.uid)?,
    })
}

fn adopted(metadata: &Metadata, quota: Quota, now: Timestamp) -> Result<Adopted, Fault> {
    let kept = kept(&quota.metadata, None)?;
    Ok(Adopted {
        created: metadata.creation_timestamp.unwrap_or(now),
        metadata: without_wrong_extensions(kept, &quota.spec.hard)?,
        spec: quota.spec,
    })
}

/// The stored metadata of a quota without invalid annotations `quota-ledger.io/…`: the cluster does not validate them,
/// and the extensions in stored metadata are in force.
fn without_wrong_extensions(stored: Box<str>, hard: &ResourceList) -> Result<Box<str>, Fault> {
    if !stored.contains(PREFIX) {
        return Ok(stored);
    }
    let mut metadata: BTreeMap<&str, &RawValue> = serde_json::from_str(&stored)?;
    let annotations = metadata.get("annotations").copied();
    let annotations = annotations.and_then(|text| serde_json::from_str(text.get()).ok());
    let mut annotations: BTreeMap<String, String> = annotations.unwrap_or_default();
    let (extensions, mut errors) = Extensions::from_annotations(&annotations, Carrier::Quota);
    errors.extend(extensions.validate_limits(hard));
    if errors.is_empty() {
        return Ok(stored);
    }
    annotations.retain(|key, _| {
        let field = field_of(key);
        !errors.iter().any(|error| error.field.starts_with(&field))
    });
    let annotations = RawValue::from_string(serde_json::to_string(&annotations)?)?;
    metadata.insert("annotations", &annotations);
    Ok(serde_json::to_string(&metadata)?.into())
}

/// The stored metadata of a quota or group, with this additional field.
fn kept(metadata: &str, more: Option<(&str, &RawValue)>) -> Result<Box<str>, Fault> {
    let mut rest: BTreeMap<&str, &RawValue> = serde_json::from_str(metadata)?;
    rest.retain(|key, _| !NOT_KEPT.contains(key) && *key != ADOPTED_VERSION);
    rest.extend(more);
    Ok(match rest.is_empty() {
        true => Box::default(),
        false => serde_json::to_string(&rest)?.into(),
    })
}
