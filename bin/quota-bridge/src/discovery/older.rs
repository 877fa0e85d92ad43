//! Discovery of servers without aggregated discovery: a request for each version of each group.

use bytes::Bytes;
use serde::Deserialize;

use super::{Group, GroupName, Resource, ResponseKind, STALE, Version, json};
use crate::kubernetes::{Client, Failure, JSON};

/// The response of `/api` (an `APIVersions`) or `/apis` (an `APIGroupList`).
#[derive(Deserialize)]
struct Root {
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    groups: Vec<ApiGroup>,
}

#[derive(Deserialize)]
struct ApiGroup {
    name: String,
    /// The versions, in the order of preference.
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

/// An `APIResourceList`.
#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Root {
    fn groups(self) -> Vec<(String, Vec<String>)> {
        let core = (!self.versions.is_empty()).then(|| (String::new(), self.versions));
        let named = self.groups.into_iter().map(|group| {
            let versions = group.versions.into_iter().map(|it| it.version);
            (group.name, versions.collect())
        });
        core.into_iter().chain(named).collect()
    }
}

impl From<ApiResource> for Resource {
    fn from(resource: ApiResource) -> Self {
        Self {
            resource: resource.name,
            response_kind: Some(ResponseKind {
                kind: resource.kind,
            }),
            scope: match resource.namespaced {
                true => "Namespaced".to_owned(),
                false => "Cluster".to_owned(),
            },
            verbs: resource.verbs,
        }
    }
}

/// The groups in `answer`, the response of `path`, with their resources. A version that cannot be read is stale.
pub(super) async fn groups(
    client: &Client,
    path: &str,
    answer: &Bytes,
) -> Result<Vec<Group>, Failure> {
    let root: Root = json(answer)?;
    let mut groups = Vec::new();
    for (name, versions) in root.groups() {
        let mut read = Vec::new();
        for version in versions {
            let group_version = match name.is_empty() {
                true => version.clone(),
                false => format!("{name}/{version}"),
            };
            let list = client.get(&format!("{path}/{group_version}"), JSON).await;
            let list = list.and_then(|list| json::<ResourceList>(&list));
            let (resources, freshness) = match list {
                Ok(list) => (list.resources, ""),
                // The server is away: that says nothing of this group.
                Err(failure @ Failure::Unreachable(_)) => return Err(failure),
                Err(_) => (Vec::new(), STALE),
            };
            read.push(Version {
                version,
                resources: resources.into_iter().map(Resource::from).collect(),
                freshness: freshness.to_owned(),
            });
        }
        let metadata = GroupName { name };
        groups.push(Group {
            metadata,
            versions: read,
        });
    }
    Ok(groups)
}
