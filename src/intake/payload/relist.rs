//! The beginning and the end of a relist.

use quota_core::decide::{Finish, Relist};
use quota_semantics::{Name, group::manifest};

use super::{Fault, Reader, check, field::Field, plain, watched::Watched, wire::Wire};

/// Longest id of a relist, in bytes.
const ID_MAX_BYTES: usize = 128;

/// Reads `RELIST_BEGIN`.
pub(super) fn begin(reader: &Reader, event: &Wire<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Begin {
        resource: resource(reader, event)?,
        namespace: namespace(event)?,
        id: id(event)?,
        allow_empty: allow_empty(reader, event)?,
        resets_versions: resets_versions(event)?,
    })
}

/// Reads `RELIST_END`.
pub(super) fn end(reader: &Reader, event: &Wire<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Finish(Finish {
        resource: resource(reader, event)?,
        namespace: namespace(event)?,
        id: id(event)?,
        allow_empty: allow_empty(reader, event)?,
        version: plain::version(event.resource_version.as_ref())?,
        is_bookmark: false,
    }))
}

/// The bookmark with which Kubernetes ends the list at the beginning of a watch; none for any other bookmark. `resource`:
/// the name of its kind, if the event has it.
pub(super) fn bookmark(
    reader: &Reader,
    resource: Option<&Field<'_>>,
    watched: &Watched<'_>,
) -> Result<Option<Relist>, Fault> {
    let metadata = watched.object.metadata();
    let ends = metadata.annotations.initial_events_end.as_deref() == Some("true");
    if !ends {
        return Ok(None);
    }
    let kind = reader.kind_of(resource, &watched.type_meta)?;
    Ok(Some(Relist::Finish(Finish {
        resource: kind.name.clone(),
        namespace: Some(metadata.namespace.clone()).filter(|name| !name.is_empty()),
        id: None,
        allow_empty: false,
        version: check::version(&metadata.resource_version)?,
        is_bookmark: true,
    })))
}

fn resource(reader: &Reader, event: &Wire<'_>) -> Result<Name, Fault> {
    let text = plain::text("resource", event.resource.as_ref())?;
    Ok(reader.resource(text)?.name.clone())
}

/// Absent, null or empty means all namespaces.
fn namespace(event: &Wire<'_>) -> Result<Option<Name>, Fault> {
    if event.namespace.is_none() {
        return Ok(None);
    }
    let namespace = plain::text("namespace", event.namespace.as_ref())?;
    if namespace.is_empty() {
        return Ok(None);
    }
    check::namespace(namespace)?;
    Ok(Some(Name::from(namespace)))
}

fn id(event: &Wire<'_>) -> Result<Option<Name>, Fault> {
    if event.id.is_none() {
        return Ok(None);
    }
    let id = plain::text("id", event.id.as_ref())?;
    let fits = (1..=ID_MAX_BYTES).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    match fits {
        true => Ok(Some(Name::from(id))),
        false => Err(Fault::field(format!("id: 1 to {ID_MAX_BYTES} printable ASCII characters"))),
    }
}

/// `"versions":"reset"`.
fn resets_versions(event: &Wire<'_>) -> Result<bool, Fault> {
    if event.versions.is_none() {
        return Ok(false);
    }
    match plain::text("versions", event.versions.as_ref())? {
        "reset" => Ok(true),
        other => Err(Fault::field(format!("versions: {other:?}, but only \"reset\" is known"))),
    }
}

/// Groups are ignored unless they are adopted, so an empty listing does not prove that there are none.
fn allow_empty(reader: &Reader, event: &Wire<'_>) -> Result<bool, Fault> {
    let allow = event.allow_empty.as_ref();
    let allow = allow.map_or(Ok(false), Field::flag);
    let allow = allow.map_err(|error| Fault::field(format!("allowEmpty: {error}")))?;
    Ok(allow && (reader.adopt || *resource(reader, event)? != *manifest::RESOURCE))
}
