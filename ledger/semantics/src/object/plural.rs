//! From the kind in an object to the resource name in quotas.

use crate::Name;

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
