//! The begin and the end of a relist.

use quota_ledger::{
    Name,
    decide::{Finish, Relist},
    object::GroupResource,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Fault, Reader, check, plain, watched::Watched};

/// Longest id of a relist, in bytes.
const ID_MAX_BYTES: usize = 128;

/// The fields of a begin or an end, not looked at yet.
pub(super) struct Fields<'a> {
    pub(super) namespace: Option<&'a RawValue>,
    pub(super) resource: Option<&'a RawValue>,
    pub(super) resource_version: Option<&'a RawValue>,
    pub(super) id: Option<&'a RawValue>,
    pub(super) allow_empty: Option<&'a RawValue>,
}

/// Reads `RELIST_BEGIN`.
pub(super) fn begin(fields: &Fields<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Begin {
        resource: resource(fields)?,
        namespace: namespace(fields)?,
        id: id(fields)?,
        allow_empty: allow_empty(fields)?,
    })
}

/// Reads `RELIST_END`.
pub(super) fn end(fields: &Fields<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Finish(Finish {
        resource: resource(fields)?,
        namespace: namespace(fields)?,
        id: id(fields)?,
        allow_empty: allow_empty(fields)?,
        version: plain::version(fields.resource_version)?,
        is_bookmark: false,
    }))
}

/// The bookmark with which Kubernetes ends the list at the begin of a watch; none: it is another bookmark.
pub(super) fn bookmark(reader: &Reader, watched: &Watched<'_>) -> Result<Option<Relist>, Fault> {
    let metadata = watched.object.metadata();
    let ends = metadata.annotations.initial_events_end.as_deref() == Some("true");
    if !ends {
        return Ok(None);
    }
    let kind = reader.group_resource(watched.type_meta.group(), &watched.type_meta.kind);
    check::resource(&kind)?;
    Ok(Some(Relist::Finish(Finish {
        resource: Name::from(kind.to_string()),
        namespace: Some(metadata.namespace.clone()).filter(|name| !name.is_empty()),
        id: None,
        allow_empty: false,
        version: check::version(&metadata.resource_version)?,
        is_bookmark: true,
    })))
}

fn resource(fields: &Fields<'_>) -> Result<Name, Fault> {
    let kind: GroupResource = plain::text("resource", fields.resource)?
        .parse()
        .map_err(|error| Fault::field(format!("resource: {error}")))?;
    check::resource(&kind)?;
    Ok(Name::from(kind.to_string()))
}

/// Absent, null or empty: all namespaces.
fn namespace(fields: &Fields<'_>) -> Result<Option<Name>, Fault> {
    let Some(text) = given(fields.namespace) else {
        return Ok(None);
    };
    let namespace = plain::text("namespace", Some(text))?;
    if namespace.is_empty() {
        return Ok(None);
    }
    check::namespace(&namespace)?;
    Ok(Some(Name::from(&*namespace)))
}

fn id(fields: &Fields<'_>) -> Result<Option<Name>, Fault> {
    let Some(text) = given(fields.id) else {
        return Ok(None);
    };
    let id = plain::text("id", Some(text))?;
    let fits = (1..=ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    match fits {
        true => Ok(Some(Name::from(&*id))),
        false => Err(Fault::field(format!(
            "id: 1 to {ID_MAX_BYTES} printable ASCII characters"
        ))),
    }
}

fn allow_empty(fields: &Fields<'_>) -> Result<bool, Fault> {
    let Some(text) = given(fields.allow_empty) else {
        return Ok(false);
    };
    bool::deserialize(text).map_err(|error| Fault::field(format!("allowEmpty: {error}")))
}

fn given(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|text| text.get() != "null")
}
