//! Discovery: the kinds that an API server serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kube::client::{APIGroupDiscovery, APIResourceDiscovery};
use quota_semantics::object::GroupResource;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    kinds::is_of_the_cluster,
    kubernetes::{Client, Failure, JSON},
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
    pub fn api_version(&self) -> String {
        match self.resource.group.is_empty() {
            true => self.version.clone(),
            false => format!("{}/{}", self.resource.group, self.version),
        }
    }

    /// The path of the kind's lists and watches.
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

// Removed kinds: discovery leaves them out, and they have no definition in the cluster.
//
// One response of discovery proves nothing: while API servers are updated one by one, some of them may not serve the
// kinds of others.

/// The path of the custom resource definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The API server's response to a request for the definition of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// The kind has a definition.
    Exists,
    /// The kind has no definition, or one whose objects are in no namespace and so do not count.
    Missing,
    /// The bridge may not read definitions (403).
    Hidden,
    /// The request failed.
    Unknown,
}

/// Requests the definition of a kind.
pub(crate) async fn definition(client: &Client, kind: &GroupResource) -> Definition {
    match client.get(&format!("{DEFINITIONS}/{kind}"), JSON).await {
        Ok(body) => match is_of_the_cluster(kind) || !has_cluster_scope(&body) {
            true => Definition::Exists,
            false => Definition::Missing,
        },
        Err(failure) => match failure.code() {
            Some(404) => Definition::Missing,
            Some(403) => Definition::Hidden,
            _ => Definition::Unknown,
        },
    }
}

fn has_cluster_scope(definition: &[u8]) -> bool {
    let definition = serde_json::from_slice::<Value>(definition);
    definition.is_ok_and(|definition| definition["spec"]["scope"] == "Cluster")
}

/// Whether a kind can have a definition: the groups of defined kinds contain a dot.
pub(crate) fn may_be_defined(kind: &GroupResource) -> bool {
    kind.group.contains('.')
}

/// Whether a kind that this bridge has never watched had a definition, if it was ever served.
pub(crate) fn was_defined(kind: &GroupResource) -> bool {
    is_of_others(&kind.group)
}

/// Whether a group is none of Kubernetes itself, whose groups end with `.k8s.io`, or contain no dot.
pub(crate) fn is_of_others(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// The kinds that discovery leaves out, each with the time of the first such discovery.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(BTreeMap<GroupResource, Instant>);

impl LeftOut {
    /// Records whether the discovery at `now` leaves out a kind. Returns whether all discoveries for at least `least`
    /// have left the kind out.
    pub(crate) fn note(
        &mut self,
        kind: &GroupResource,
        is_left_out: bool,
        now: Instant,
        least: Duration,
    ) -> bool {
        if !is_left_out {
            self.0.remove(kind);
            return false;
        }
        let since = *self.0.entry(kind.clone()).or_insert(now);
        since < now && now.duration_since(since) >= least
    }

    /// Removes all kinds that are not needed.
    pub(crate) fn keep(&mut self, needed: &BTreeSet<GroupResource>) {
        self.0.retain(|kind, _| needed.contains(kind));
    }
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

    #[test]
    fn a_kind_is_gone_when_it_is_left_out_twice_in_a_row() {
        let mut left_out = LeftOut::default();
        let kind = GroupResource::new("x.y", "widgets");
        let (begin, least) = (Instant::now(), Duration::from_secs(15));
        let mut note = |is, seconds| {
            let now = begin + Duration::from_secs(seconds);
            left_out.note(&kind, is, now, least)
        };
        assert!(!note(true, 0));
        assert!(!note(true, 1), "two answers at the same time are one");
        assert!(note(true, 30));
        assert!(!note(false, 60) && !note(true, 90) && note(true, 120));
    }

    #[test]
    fn kinds_of_kubernetes_have_no_definition() {
        for (name, may, was) in [
            ("pods", false, false),
            ("deployments.apps", false, false),
            ("resourceclaims.resource.k8s.io", true, false),
            ("gateways.gateway.networking.k8s.io", true, false),
            ("widgets.example.com", true, true),
        ] {
            let kind = name.parse().unwrap();
            assert_eq!((may_be_defined(&kind), was_defined(&kind)), (may, was), "{name}");
        }
    }
}
