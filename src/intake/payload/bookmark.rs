//! A publisher's bookmark: the time up to which it has reported each kind.

use std::borrow::Cow;

use quota_core::{decide::Bookmark, event::Watermark};
use quota_semantics::{Name, Timestamp};
use serde::Deserialize;

use super::{Fault, Reader, check, field::Field, plain, wire::Wire};

/// Kinds of one bookmark.
const KINDS_MAX: usize = 1024;

/// Longest identity of a cluster or a publisher, in bytes.
const ID_MAX_BYTES: usize = 128;

/// The part of a bookmark for one kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress<'a> {
    watermark: Option<Timestamp>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(default)]
    absent: bool,
}

/// Reads a bookmark other than Kubernetes' own; none if it names neither a kind nor a cluster.
pub(super) fn read(reader: &Reader, event: &Wire<'_>) -> Result<Option<Bookmark>, Fault> {
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

fn resources(reader: &Reader, field: &Field<'_>) -> Result<Vec<Watermark>, Fault> {
    let wrong = |error| Fault::field(format!("resources: {error}"));
    let kinds = field.object().map_err(wrong)?;
    if kinds.len() > KINDS_MAX {
        let count = kinds.len();
        return Err(Fault::field(format!(
            "resources: {count} kinds are more than {KINDS_MAX}"
        )));
    }
    let kind = |(name, progress): &super::field::Member<'_>| {
        let resource = reader.resource(&name.0)?.name.clone();
        let about = |what: String| Fault::field(format!("resources: {resource}: {what}"));
        let progress: Progress<'_> =
            serde_json::from_str(progress.get()).map_err(|error| about(error.to_string()))?;
        let watermark = match (progress.watermark, progress.absent) {
            (Some(watermark), _) => watermark,
            (None, true) => Timestamp::EPOCH,
            (None, false) => return Err(about("neither a watermark nor absent".to_owned())),
        };
        let version = progress.resource_version.as_deref().unwrap_or_default();
        Ok(Watermark {
            watermark,
            version: check::version(version)?,
            is_absent: progress.absent,
            resource,
        })
    };
    kinds.iter().map(kind).collect()
}

/// Absent or empty means unknown.
fn id(name: &str, field: Option<&Field<'_>>) -> Result<Name, Fault> {
    if field.is_none() {
        return Ok(Name::default());
    }
    let id = plain::text(name, field)?;
    match id.len() <= ID_MAX_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Name::from(id)),
        false => Err(Fault::field(format!(
            "{name}: at most {ID_MAX_BYTES} printable ASCII characters"
        ))),
    }
}
