//! Kinds of objects: API group and plural resource name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Name;

/// A kind of object, by API group and plural resource name, such as `deployments` in `apps`.
///
/// Written as Kubernetes writes it: `pods` in the core group, else `deployments.apps`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Name,
    /// The plural resource name, in lower case.
    pub resource: Name,
}

impl GroupResource {
    /// The kind `resource` of `group` (empty: the core group).
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: Name::from(group), resource: Name::from(resource) }
    }

    /// The kind as a name.
    pub fn name(&self) -> Name {
        match self.group.is_empty() {
            true => self.resource.clone(),
            false => Name::from(self.to_string()),
        }
    }

    /// Whether this is `resource` of `group`.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.resource == resource && self.group == group
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A text that names no kind of object: it has no resource name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a resource, or a resource and its group (pods, deployments.apps): {0:?}")]
pub struct ParseGroupResourceError(String);

impl FromStr for GroupResource {
    type Err = ParseGroupResourceError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        if resource.is_empty() {
            return Err(ParseGroupResourceError(text.to_owned()));
        }
        Ok(Self::new(group, resource))
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Kinds whose resource name does not follow from Kubernetes' rule. An empty group matches any.
const EXCEPTIONS: [(&str, &str, &str); 6] = [
    ("metrics.k8s.io", "NodeMetrics", "nodes"),
    ("metrics.k8s.io", "PodMetrics", "pods"),
    ("resource.k8s.io", "ResourceClaimParameters", "resourceclaimparameters"),
    ("resource.k8s.io", "ResourceClassParameters", "resourceclassparameters"),
    ("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints"),
    ("", "Gateway", "gateways"),
];

/// The plural resource name of a kind in an API group: `pods` for `Pod`, `networkpolicies` for `NetworkPolicy`.
///
/// All kinds of Kubernetes itself follow its `UnsafeGuessKindToResource` rule or are listed as exceptions. A custom
/// resource may have another plural; then this guess is wrong.
pub fn plural(group: &str, kind: &str) -> Name {
    let listed = EXCEPTIONS.iter().find(|(of_group, of_kind, _)| {
        *of_kind == kind && (of_group.is_empty() || *of_group == group)
    });
    if let Some((_, _, resource)) = listed {
        return Name::from(*resource);
    }
    let mut name = kind.to_lowercase();
    if name.is_empty() || name.ends_with("endpoints") {
        return Name::from(name);
    }
    if name.ends_with('s') {
        name.push_str("es");
    } else if name.ends_with('y') {
        name.pop();
        name.push_str("ies");
    } else {
        name.push('s');
    }
    Name::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_with_and_without_a_group() {
        for text in ["pods", "deployments.apps", "resourceclaims.resource.k8s.io"] {
            assert_eq!(text.parse::<GroupResource>().unwrap().to_string(), text);
        }
        let kind: GroupResource = "resourceclaims.resource.k8s.io".parse().unwrap();
        assert!(kind.is("resource.k8s.io", "resourceclaims"));
        assert!("".parse::<GroupResource>().is_err());
        assert!(".apps".parse::<GroupResource>().is_err());
    }

    #[test]
    fn kinds_of_kubernetes_itself() {
        for (group, kind, resource) in [
            ("", "Pod", "pods"),
            ("", "Service", "services"),
            ("", "Endpoints", "endpoints"),
            ("", "ComponentStatus", "componentstatuses"),
            ("", "ConfigMap", "configmaps"),
            ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("", "ResourceQuota", "resourcequotas"),
            ("", "LimitRange", "limitranges"),
            ("", "ReplicationController", "replicationcontrollers"),
            ("apps", "DaemonSet", "daemonsets"),
            ("apps", "ControllerRevision", "controllerrevisions"),
            ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
            ("batch", "CronJob", "cronjobs"),
            ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
            ("events.k8s.io", "Event", "events"),
            ("metrics.k8s.io", "PodMetrics", "pods"),
            ("networking.k8s.io", "Ingress", "ingresses"),
            ("networking.k8s.io", "IngressClass", "ingressclasses"),
            ("networking.k8s.io", "IPAddress", "ipaddresses"),
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
            ("policy", "PodDisruptionBudget", "poddisruptionbudgets"),
            ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
            ("resource.k8s.io", "DeviceClass", "deviceclasses"),
            ("resource.k8s.io", "ResourceClaim", "resourceclaims"),
            ("scheduling.k8s.io", "PriorityClass", "priorityclasses"),
            ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
            ("storage.k8s.io", "StorageClass", "storageclasses"),
            ("gateway.networking.k8s.io", "Gateway", "gateways"),
            ("example.com", "Widget", "widgets"),
        ] {
            assert_eq!(plural(group, kind), resource);
        }
    }
}
