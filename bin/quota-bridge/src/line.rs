//! The lines that are published: one event each, as `docs/events.md` describes them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use quota_semantics::{Name, Timestamp, object::GroupResource, resource::ResourceList};
use serde::Serialize;

/// The maximum length of a line, in bytes. A NATS server accepts messages of 1 MiB by default.
pub(crate) const MAX_BYTES: usize = 900 * 1024;

/// The maximum number of kinds in one bookmark. Further kinds get further bookmarks, so that the length is bounded.
const BOOKMARK_KINDS: usize = 256;

/// A part of the objects that is listed and watched by itself: a kind, in all namespaces or in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The kind.
    pub resource: GroupResource,
    /// The namespace; none: all namespaces.
    pub namespace: Option<Name>,
}

/// The ids of a publisher's relists, unique over all tasks. Clones share them.
///
/// The ledger ends a relist by its scope and id. So the late `RELIST_END` of a replaced task must not have the id of
/// the relist that its successor has begun.
#[derive(Clone, Debug)]
pub struct RelistIds {
    instance: Arc<str>,
    used: Arc<AtomicU64>,
}

impl RelistIds {
    /// The ids of the publisher `instance`.
    pub fn new(instance: &str) -> Self {
        Self { instance: instance.into(), used: Arc::default() }
    }

    /// The next id.
    pub fn next(&self) -> String {
        let number = self.used.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}/{number}", self.instance)
    }
}

/// The begin of a relist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The id of the relist.
    pub id: String,
    /// Whether versions have gone back: listed objects then replace those in the ledger, also in newer versions.
    pub reset: bool,
}

/// The end of a relist: all objects were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The id of the relist.
    pub id: String,
    /// The resourceVersion of the list.
    pub version: String,
    /// Whether an empty list means that there are no objects.
    pub allow_empty: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Relist<'a> {
    #[serde(rename = "type")]
    event: &'static str,
    resource: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    allow_empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<&'static str>,
}

/// `RELIST_BEGIN`.
pub(crate) fn begin(scope: &Scope, begin: &Begin) -> Vec<u8> {
    json(&Relist {
        event: "RELIST_BEGIN",
        resource: scope.resource.name(),
        namespace: scope.namespace.as_deref(),
        id: &begin.id,
        resource_version: None,
        allow_empty: false,
        versions: begin.reset.then_some("reset"),
    })
}

/// `RELIST_END`.
pub(crate) fn end(scope: &Scope, end: &End) -> Vec<u8> {
    json(&Relist {
        event: "RELIST_END",
        resource: scope.resource.name(),
        namespace: scope.namespace.as_deref(),
        id: &end.id,
        resource_version: (!end.version.is_empty()).then_some(&end.version),
        allow_empty: end.allow_empty,
        versions: None,
    })
}

/// A watch event with an existing object, pruned: `object` is its JSON without apiVersion and kind. `resource`: the
/// name of the kind, if the ledger cannot derive it.
pub(crate) fn whole(
    event: &str,
    resource: Option<&str>,
    api_version: &str,
    kind: &str,
    object: &[u8],
) -> Vec<u8> {
    let resource = resource.map_or_else(String::new, |it| format!(r#""resource":"{it}","#));
    let mut line = format!(
        r#"{{"type":"{event}",{resource}"object":{{"apiVersion":"{api_version}","kind":"{kind}""#
    )
    .into_bytes();
    let fields = object.strip_prefix(b"{").unwrap_or(object);
    if fields != b"}" {
        line.push(b',');
    }
    line.extend_from_slice(fields);
    line.push(b'}');
    line
}

/// A plain event: an object of which only the metadata matter.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plain<'a> {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub event: &'static str,
    /// The namespace of the object.
    pub namespace: &'a str,
    /// The kind, as in `deployments.apps`.
    pub resource: &'a str,
    /// The name of the object; empty if it was deleted.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'a str,
    /// The uid of the object.
    pub uid: &'a str,
    /// The resourceVersion; empty if it is not a number.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: &'a str,
    /// The amounts of the object besides its number.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub usage: ResourceList,
}

/// The line of a plain event.
pub(crate) fn plain(event: &Plain<'_>) -> Vec<u8> {
    json(event)
}

/// The progress of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Progress {
    /// All changes committed by this time have been published before.
    Watermark {
        /// The watermark, by the clock of the NATS servers.
        watermark: Timestamp,
        /// The resourceVersion that a consistent read returned at that time.
        #[serde(rename = "resourceVersion")]
        version: String,
        /// Why there is no later watermark.
        #[serde(skip_serializing_if = "Option::is_none")]
        failing: Option<Name>,
    },
    /// There is no watermark yet, since the kind cannot be listed.
    Failing {
        /// Why: the status of the API server, or what else fails.
        failing: Name,
    },
    /// The API server does not serve the kind.
    Absent {
        /// Always true.
        absent: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bookmark<'a> {
    #[serde(rename = "type")]
    event: &'static str,
    cluster_uid: &'a str,
    instance: &'a str,
    resources: &'a BTreeMap<Name, Progress>,
}

/// The bookmarks with the watermarks of all kinds, in as few lines as possible; at least one.
pub(crate) fn bookmarks(
    cluster_uid: &str,
    instance: &str,
    resources: &BTreeMap<Name, Progress>,
) -> Vec<Vec<u8>> {
    let all: Vec<_> = resources.iter().collect();
    let mut parts: Vec<_> = all.chunks(BOOKMARK_KINDS).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let line = |part: &[(&Name, &Progress)]| {
        let kinds = part.iter().map(|&(name, of)| (name.clone(), of.clone()));
        bookmark(cluster_uid, instance, &kinds.collect())
    };
    parts.into_iter().map(line).collect()
}

/// A bookmark with the watermarks of these kinds.
pub(crate) fn bookmark(
    cluster_uid: &str,
    instance: &str,
    resources: &BTreeMap<Name, Progress>,
) -> Vec<u8> {
    json(&Bookmark { event: "BOOKMARK", cluster_uid, instance, resources })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("text and numbers can be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: Vec<u8>) -> String {
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn many_kinds_are_in_several_bookmarks() {
        let absent = Progress::Absent { absent: true };
        for (kinds, lines) in [(0, 1), (1, 1), (256, 1), (257, 2), (1024, 4)] {
            let names = (0..kinds).map(|number| Name::from(format!("{number:0>253}")));
            let resources = names.map(|name| (name, absent.clone())).collect();
            let bookmarks = bookmarks("c", "i", &resources);
            assert_eq!(bookmarks.len(), lines, "{kinds}");
            assert!(bookmarks.iter().all(|line| line.len() < 100 * 1024));
        }
    }

    #[test]
    fn lines_are_as_the_documentation_has_them() {
        let scope = Scope { resource: GroupResource::new("", "pods"), namespace: Some("a".into()) };
        let id = || "i/1".to_owned();
        let first = Begin { id: id(), reset: true };
        assert_eq!(
            text(begin(&scope, &first)),
            r#"{"type":"RELIST_BEGIN","resource":"pods","namespace":"a","id":"i/1","versions":"reset"}"#
        );
        let last = End { id: id(), version: "7".to_owned(), allow_empty: true };
        assert_eq!(
            text(end(&scope, &last)),
            r#"{"type":"RELIST_END","resource":"pods","namespace":"a","id":"i/1","resourceVersion":"7","allowEmpty":true}"#
        );
        assert_eq!(
            text(whole("ADDED", None, "v1", "Pod", br#"{"metadata":{}}"#)),
            r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{}}}"#
        );
        assert_eq!(
            text(whole("ADDED", Some("mice.x"), "x/v1", "Mouse", b"{}")),
            r#"{"type":"ADDED","resource":"mice.x","object":{"apiVersion":"x/v1","kind":"Mouse"}}"#
        );
        let pods = Progress::Watermark {
            watermark: Timestamp::EPOCH,
            version: "9".to_owned(),
            failing: None,
        };
        let failing = Progress::Failing { failing: Name::from("403") };
        let resources = BTreeMap::from([
            (Name::from("gadgets.x"), failing),
            (Name::from("pods"), pods),
            (Name::from("widgets.x"), Progress::Absent { absent: true }),
        ]);
        assert_eq!(
            text(bookmark("c", "i", &resources)),
            r#"{"type":"BOOKMARK","clusterUid":"c","instance":"i","resources":{"gadgets.x":{"failing":"403"},"pods":{"watermark":"1970-01-01T00:00:00Z","resourceVersion":"9"},"widgets.x":{"absent":true}}}"#
        );
    }
}
