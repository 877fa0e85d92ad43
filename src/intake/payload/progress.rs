//! What a publisher reports of its own progress: the beginning and the end of a relist, and bookmarks.

use std::borrow::Cow;

use quota_core::{
    decide::{Bookmark, Finish, Relist},
    event::Watermark,
};
use quota_semantics::{Name, Timestamp, group::manifest};
use serde::Deserialize;

use super::{
    Fault, Reader, check, plain,
    wire::{Field, Watched, Wire},
};
use crate::{
    log_limiter::{LogLimiter, shortened},
    metrics,
};

/// Reads `RELIST_BEGIN`.
pub(super) fn begin(reader: &Reader, event: &Wire<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Begin {
        resource: resource(reader, event)?,
        namespace: namespace(event)?,
        id: relist_id(event)?,
        allow_empty: allow_empty(reader, event)?,
        resets_versions: resets_versions(event)?,
    })
}

/// Reads `RELIST_END`.
pub(super) fn end(reader: &Reader, event: &Wire<'_>) -> Result<Relist, Fault> {
    Ok(Relist::Finish(Finish {
        resource: resource(reader, event)?,
        namespace: namespace(event)?,
        id: relist_id(event)?,
        allow_empty: allow_empty(reader, event)?,
        version: plain::version(event.resource_version.as_ref())?,
        is_bookmark: false,
    }))
}

/// The bookmark with which Kubernetes ends the list at the beginning of a watch; none for any other bookmark. `resource`:
/// the name of its kind, if the event has it.
pub(super) fn end_of_initial_events(
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

fn relist_id(event: &Wire<'_>) -> Result<Option<Name>, Fault> {
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

/// Most kinds of one bookmark.
const KINDS_MAX: usize = 1024;

/// Warnings about skipped kinds, of all sources.
static WARNINGS: LogLimiter = LogLimiter::new(1);

/// Longest id of a relist, and longest identity of a cluster or a publisher, in bytes.
const ID_MAX_BYTES: usize = 128;

/// Longest reason why a kind cannot be listed, in bytes.
const FAILING_MAX_BYTES: usize = 64;

/// The part of a bookmark for one kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress<'a> {
    watermark: Option<Timestamp>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(default)]
    absent: bool,
    /// Why the publisher cannot list or watch the kind.
    #[serde(borrow)]
    failing: Option<Cow<'a, str>>,
}

/// Reads a bookmark other than Kubernetes' own; none if it names neither a kind nor a cluster.
pub(super) fn bookmark(reader: &Reader, event: &Wire<'_>) -> Result<Option<Bookmark>, Fault> {
    if event.resources.is_none() && event.cluster_uid.is_none() {
        return Ok(None);
    }
    let resources = match &event.resources {
        None => Vec::new(),
        Some(field) => resources(reader, field)?,
    };
    Ok(Some(Bookmark {
        cluster_uid: id("clusterUid", event.cluster_uid.as_ref())?,
        instance: id("instance", event.instance.as_ref())?,
        resources,
    }))
}

/// The kinds of a bookmark. One that cannot be read is skipped: the others would wait for it for ever.
fn resources(reader: &Reader, field: &Field<'_>) -> Result<Vec<Watermark>, Fault> {
    let kinds = field.object().map_err(|error| Fault::field(format!("resources: {error}")))?;
    let mut skipped = Skipped::default();
    let mut watermarks = Vec::with_capacity(kinds.len());
    for (name, progress) in kinds {
        match watermark(reader, &name.0, progress.get()) {
            Ok(watermark) => watermarks.push(watermark),
            Err(fault) => skipped.add(1, || format!("{}: {}", shortened(&name.0), fault.reason)),
        }
    }
    if let Some(more @ 1..) = watermarks.len().checked_sub(KINDS_MAX) {
        // Somebody may wait for a kind that exists.
        watermarks.sort_by_key(|watermark| watermark.is_absent);
        watermarks.truncate(KINDS_MAX);
        skipped.add(more, || format!("more than {KINDS_MAX} kinds"));
    }
    skipped.report();
    Ok(watermarks)
}

fn watermark(reader: &Reader, resource: &str, progress: &str) -> Result<Watermark, Fault> {
    let resource = reader.resource(resource)?.name.clone();
    let progress: Progress<'_> = serde_json::from_str(progress)?;
    let failing = progress.failing.as_deref().unwrap_or_default();
    if failing.len() > FAILING_MAX_BYTES || !failing.bytes().all(|byte| byte.is_ascii_graphic()) {
        let limit = format!("failing: at most {FAILING_MAX_BYTES} printable ASCII characters");
        return Err(Fault::field(limit));
    }
    let watermark = match (progress.watermark, progress.absent, failing) {
        (None, false, "") => {
            return Err(Fault::field("neither a watermark, absent nor failing"));
        }
        (watermark, ..) => watermark.unwrap_or(Timestamp::EPOCH),
    };
    let version = progress.resource_version.as_deref().unwrap_or_default();
    Ok(Watermark {
        watermark,
        version: check::version(version)?,
        is_absent: progress.absent,
        failing: failing.into(),
        resource,
    })
}

/// The kinds that were skipped, and why the first one was.
#[derive(Default)]
struct Skipped {
    count: usize,
    first: Option<String>,
}

impl Skipped {
    fn add(&mut self, count: usize, why: impl FnOnce() -> String) {
        self.count += count;
        self.first.get_or_insert_with(why);
    }

    fn report(self) {
        let Some(first) = self.first else {
            return;
        };
        metrics::watermarks_skipped(self.count);
        if WARNINGS.pass().is_some() {
            let skipped = self.count;
            tracing::warn!(skipped, first, "kinds of a publisher's bookmark were skipped");
        }
    }
}

/// Absent or empty means unknown.
fn id(name: &str, field: Option<&Field<'_>>) -> Result<Name, Fault> {
    if field.is_none() {
        return Ok(Name::default());
    }
    let id = plain::text(name, field)?;
    match id.len() <= ID_MAX_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Name::from(id)),
        false => {
            Err(Fault::field(format!("{name}: at most {ID_MAX_BYTES} printable ASCII characters")))
        }
    }
}
