//! Discovery: the kinds that an API server serves.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kube::client::{APIGroupDiscovery, APIResourceDiscovery};
use quota_semantics::object::GroupResource;
use serde::Deserialize;

use crate::{
    definitions::is_of_others,
    kubernetes::{Client, Failure},
    needed::is_of_the_cluster,
};

/// The `Accept` header with which `/api` and `/apis` answer with aggregated discovery.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The freshness of a version whose resources are not certain.
const STALE: &str = "Stale";

/// A served kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The group and plural name.
    pub resource: GroupResource,
    /// The version of the group that is requested.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// Whether an aggregated API server serves the kind, whose responses are less reliable.
    pub aggregated: bool,
}

impl Served {
    /// The `apiVersion` of the kind's objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.resource.group.is_empty() {
            true => self.version.clone(),
            false => format!("{}/{}", self.resource.group, self.version),
        }
    }

    /// The path of the kind's lists and watches.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.resource.group.is_empty() {
            true => format!("/api/{}", self.version),
            false => format!("/apis/{}/{}", self.resource.group, self.version),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.resource.resource),
            None => format!("{root}/{}", self.resource.resource),
        }
    }
}

/// The result of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The kinds that can be listed and watched: namespaced kinds, namespaces and groups.
    pub kinds: BTreeMap<GroupResource, Served>,
    /// The API groups whose discovery may be incomplete.
    pub uncertain: BTreeSet<String>,
    /// Whether the API services could be read, which name the groups of aggregated API servers.
    pub knows_others: bool,
}

impl Discovered {
    /// Whether a kind of this group that is not in `kinds` is certainly not served.
    #[must_use]
    pub fn is_certain_of(&self, group: &str) -> bool {
        !self.uncertain.contains(group)
    }
}

/// Aggregated discovery: all groups in one response. Other responses have no items: they must not look like a cluster
/// without kinds.
#[derive(Deserialize)]
struct GroupList {
    items: Vec<APIGroupDiscovery>,
}

#[derive(Deserialize)]
struct ServiceList {
    items: Vec<ApiService>,
}

#[derive(Deserialize)]
struct ApiService {
    #[serde(default)]
    spec: ApiServiceSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiServiceSpec {
    group: String,
    service: Option<serde::de::IgnoredAny>,
}

/// Runs discovery.
///
/// # Errors
/// A request failed, or a response cannot be parsed.
pub async fn discover(client: &Client) -> Result<Discovered, Failure> {
    let mut groups = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = client.get(path, ACCEPT).await?;
        let list: GroupList = json(&answer)?;
        groups.extend(list.items);
    }
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let services = match client.get(services, crate::kubernetes::JSON).await {
        Ok(services) => Some(services),
        // Who may not see them takes every group that is not Kubernetes' own for one of another server.
        Err(failure) if matches!(failure.code(), Some(403 | 404)) => None,
        Err(failure) => return Err(failure),
    };
    read(groups, services.as_ref())
}

/// The result of discovery, from the groups and the list of API services; none if the bridge may not read that list.
fn read(groups: Vec<APIGroupDiscovery>, services: Option<&Bytes>) -> Result<Discovered, Failure> {
    let aggregated: Option<BTreeSet<String>> = match services {
        None => None,
        Some(services) => {
            let list: ServiceList = json(services)?;
            let of_others = list.items.into_iter().filter(|item| item.spec.service.is_some());
            Some(of_others.map(|item| item.spec.group).collect())
        }
    };
    let is_aggregated = |group: &str| match &aggregated {
        Some(groups) => groups.contains(group),
        None => is_of_others(group),
    };
    let mut discovered = Discovered { knows_others: aggregated.is_some(), ..Discovered::default() };
    for group in groups {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for version in group.versions {
            if version.version.is_none() || version.freshness.as_deref() == Some(STALE) {
                discovered.uncertain.insert(name.clone());
            }
            let is_aggregated = is_aggregated(&name);
            let number = version.version.unwrap_or_default();
            for resource in version.resources {
                take(&mut discovered, &name, &number, resource, is_aggregated);
            }
        }
    }
    // What another server serves is missing whenever that server is.
    discovered.uncertain.extend(aggregated.into_iter().flatten());
    Ok(discovered)
}

/// Adds a kind. Versions come in the order of preference: the first one that can be watched is kept.
fn take(
    discovered: &mut Discovered,
    group: &str,
    version: &str,
    resource: APIResourceDiscovery,
    aggregated: bool,
) {
    let can = |verb: &str| resource.verbs.iter().any(|has| has == verb);
    let name = GroupResource::new(group, &resource.resource.unwrap_or_default());
    let is_counted = resource.scope.as_deref() == Some("Namespaced") || is_of_the_cluster(&name);
    if !is_counted || !can("list") || !can("watch") {
        return;
    }
    let served = Served {
        resource: name.clone(),
        version: version.to_owned(),
        kind: resource.response_kind.and_then(|it| it.kind).unwrap_or_default(),
        aggregated,
    };
    discovered.kinds.entry(name).or_insert(served);
}

fn json<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::Unreadable(format!("discovery cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
        {"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list","watch"]},
        {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster","verbs":["list","watch"]},
        {"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster","verbs":["list","watch"]},
        {"resource":"bindings","responseKind":{"kind":"Binding"},"scope":"Namespaced","verbs":["create"]}]}]}]}"#;
    const GROUPS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[
        {"metadata":{"name":"apps"},"versions":[
            {"version":"v2","resources":[]},
            {"version":"v1","resources":[{"resource":"deployments","responseKind":{"kind":"Deployment"},"scope":"Namespaced","verbs":["list","watch"]}]}]},
        {"metadata":{"name":"quota.openshift.io"},"versions":[{"version":"v1","resources":[
            {"resource":"clusterresourcequotas","responseKind":{"kind":"ClusterResourceQuota"},"scope":"Cluster","verbs":["list","watch"]}]}]},
        {"metadata":{"name":"metrics.example.com"},"versions":[{"version":"v1","freshness":"Stale"}]}]}"#;
    const SERVICES: &str = r#"{"items":[{"spec":{"group":"apps"}},{"spec":{"group":"other.example.com","service":{"name":"s"}}}]}"#;

    #[test]
    fn kinds_that_can_be_watched_are_found() {
        let groups = [CORE, GROUPS].map(|text| serde_json::from_str::<GroupList>(text).unwrap());
        let groups = groups.into_iter().flat_map(|list| list.items).collect();
        let services = Bytes::from(SERVICES);
        let discovered = read(groups, Some(&services)).unwrap();
        let kinds: Vec<_> = discovered.kinds.values().map(|it| it.path(None)).collect();
        let expected = [
            "/api/v1/namespaces",
            "/api/v1/pods",
            "/apis/apps/v1/deployments",
            "/apis/quota.openshift.io/v1/clusterresourcequotas",
        ];
        assert_eq!(kinds, expected);
        let deployments = &discovered.kinds[&GroupResource::new("apps", "deployments")];
        assert_eq!(deployments.api_version(), "apps/v1");
        assert_eq!(deployments.path(Some("a")), "/apis/apps/v1/namespaces/a/deployments");
        assert!(!deployments.aggregated && discovered.is_certain_of("apps"));
        for group in ["metrics.example.com", "other.example.com"] {
            assert!(!discovered.is_certain_of(group), "{group}");
        }
    }
}
