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

/// Longest line, in bytes. A NATS server takes messages of 1 MiB unless it is configured otherwise.
pub(crate) const MAX_BYTES: usize = 900 * 1024;

/// Most kinds of one bookmark: further ones get a bookmark of their own, so that its length is bounded.
const BOOKMARK_KINDS: usize = 256;

/// A part of the objects that is listed and watched by itself: a kind, in all namespaces or in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The kind.
    pub resource: GroupResource,
    /// The only namespace; none: all of them.
    pub namespace: Option<Name>,
}

/// The ids of a publisher's relists: no two are the same, whichever tasks list. Clones share them.
///
/// The ledger ends a relist by its scope and id. So the late end of a task that was replaced must not have the id of the
/// list that its successor has begun.
#[derive(Clone, Debug)]
pub struct RelistIds {
    instance: Arc<str>,
    used: Arc<AtomicU64>,
}

impl RelistIds {
    /// Those of this publisher.
    #[must_use]
    pub fn new(instance: &str) -> Self {
        Self {
            instance: instance.into(),
            used: Arc::default(),
        }
    }

    /// The next one.
    #[must_use]
    pub fn next(&self) -> String {
        let number = self.used.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}/{number}", self.instance)
    }
}

/// What begins a relist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Its id.
    pub id: String,
    /// Versions have gone back: what is listed replaces what the ledger holds, also in newer versions.
    pub reset: bool,
}

/// What ends a relist: everything was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The id of the begin.
    pub id: String,
    /// As of which version was listed.
    pub version: String,
    /// That nothing was listed is the truth.
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
#[must_use]
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
#[must_use]
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

/// An object as it is now, pruned: `object` is its JSON without apiVersion and kind. `resource`: the name of its kind, if
/// the ledger may not know it.
#[must_use]
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

/// An object of which only its metadata matter.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plain<'a> {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    #[serde(rename = "type")]
    pub event: &'static str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its kind.
    pub resource: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its identity.
    pub uid: &'a str,
    /// Its version.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub resource_version: &'a str,
    /// What it counts for besides its number.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub usage: ResourceList,
}

/// A plain event.
#[must_use]
pub(crate) fn plain(event: &Plain<'_>) -> Vec<u8> {
    json(event)
}

/// How far a kind was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Progress {
    /// All that was committed by this time has been published before.
    Watermark {
        /// The time, on the clock of the NATS servers.
        watermark: Timestamp,
        /// The version that a consistent read gave at that time.
        #[serde(rename = "resourceVersion")]
        version: String,
    },
    /// The API server does not serve the kind.
    Absent {
        /// It does not.
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

/// The watermarks of all kinds, in as few lines as possible; at least one.
#[must_use]
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

/// The watermarks of these kinds.
#[must_use]
pub(crate) fn bookmark(
    cluster_uid: &str,
    instance: &str,
    resources: &BTreeMap<Name, Progress>,
) -> Vec<u8> {
    json(&Bookmark {
        event: "BOOKMARK",
        cluster_uid,
        instance,
        resources,
    })
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
        let scope = Scope {
            resource: GroupResource::new("", "pods"),
            namespace: Some("a".into()),
        };
        let id = || "i/1".to_owned();
        let first = Begin {
            id: id(),
            reset: true,
        };
        assert_eq!(
            text(begin(&scope, &first)),
            r#"{"type":"RELIST_BEGIN","resource":"pods","namespace":"a","id":"i/1","versions":"reset"}"#
        );
        let last = End {
            id: id(),
            version: "7".to_owned(),
            allow_empty: true,
        };
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
        };
        let resources = BTreeMap::from([
            (Name::from("pods"), pods),
            (Name::from("widgets.x"), Progress::Absent { absent: true }),
        ]);
        assert_eq!(
            text(bookmark("c", "i", &resources)),
            r#"{"type":"BOOKMARK","clusterUid":"c","instance":"i","resources":{"pods":{"watermark":"1970-01-01T00:00:00Z","resourceVersion":"9"},"widgets.x":{"absent":true}}}"#
        );
    }
}
