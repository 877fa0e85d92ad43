//! Pods: the resources that their containers may use, while they live.

mod condensed;
mod lifetime;
mod quality;
mod resize;
mod totals;

use super::{
    footprint::PodTraits,
    metadata::{Metadata, Present},
    names::{
        COUNT_PODS, CPU, DEVICE_CLASS_PREFIX, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, LIMITS_CPU,
        LIMITS_EPHEMERAL_STORAGE, LIMITS_MEMORY, MEMORY, PODS, REQUESTS_CPU,
        REQUESTS_EPHEMERAL_STORAGE, REQUESTS_MEMORY, REQUESTS_PREFIX, is_extended, is_pod_level,
    },
};
use crate::{
    Name, Timestamp, nullable::nullable_fields, quantity::Quantity, resource::ResourceList,
};

pub(super) use condensed::canonical;
pub(super) use totals::{total_limits_in_spec, total_requests_in_spec};

nullable_fields! {
    /// A pod with the fields that quota rules use.
    pub struct Pod {
        /// Its metadata.
        pub metadata: Metadata,
        pub(super) spec: Spec,
        pub(super) status: Status,
    }

    pub(super) struct Spec {
        pub(super) containers: Vec<Container>,
        pub(super) init_containers: Vec<Container>,
        pub(super) overhead: ResourceList,
        /// The resources of the pod as a whole. If present, even if empty, they alone decide the QoS class.
        pub(super) resources: Option<Requirements>,
        active_deadline_seconds: Option<i64>,
        priority_class_name: Name,
        affinity: Affinity,
    }

    pub(super) struct Container {
        name: Name,
        pub(super) resources: Requirements,
        restart_policy: Name,
    }
}

impl Container {
    /// Whether, as an init container, it keeps running next to the others (a sidecar).
    fn is_restartable(&self) -> bool {
        self.restart_policy == "Always"
    }
}

nullable_fields! {
    pub(super) struct Requirements {
        pub(super) requests: ResourceList,
        pub(super) limits: ResourceList,
    }

    pub(super) struct Status {
        phase: Name,
        qos_class: Name,
        conditions: Vec<Condition>,
        pub(super) container_statuses: Vec<ContainerStatus>,
        pub(super) init_container_statuses: Vec<ContainerStatus>,
        extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    }

    struct Condition {
        #[serde(rename = "type")]
        kind: Name,
        reason: Name,
    }

    pub(super) struct ContainerStatus {
        name: Name,
        pub(super) allocated_resources: ResourceList,
        pub(super) resources: Option<Requirements>,
    }

    struct ExtendedResourceClaimStatus {
        resource_claim_name: Name,
    }

    struct Affinity {
        pod_affinity: AffinityTerms,
        pod_anti_affinity: AffinityTerms,
    }

    struct AffinityTerms {
        required_during_scheduling_ignored_during_execution: Vec<AffinityTerm>,
        preferred_during_scheduling_ignored_during_execution: Vec<WeightedAffinityTerm>,
    }

    struct WeightedAffinityTerm {
        pod_affinity_term: AffinityTerm,
    }

    struct AffinityTerm {
        namespaces: Vec<Present>,
        namespace_selector: Option<Present>,
    }
}

impl AffinityTerms {
    fn look_elsewhere(&self) -> bool {
        let preferred = &self.preferred_during_scheduling_ignored_during_execution;
        self.required_during_scheduling_ignored_during_execution
            .iter()
            .chain(preferred.iter().map(|weighted| &weighted.pod_affinity_term))
            .any(|term| !term.namespaces.is_empty() || term.namespace_selector.is_some())
    }
}

impl Pod {
    /// The amounts of the pod at `now`: only `count/pods` once it has ended.
    pub fn resources(&self, now: Timestamp) -> ResourceList {
        let mut counted = ResourceList::new();
        counted.insert(COUNT_PODS.clone(), Quantity::from_units(1));
        if self.has_ended(now) {
            return counted;
        }
        counted.insert(PODS.clone(), Quantity::from_units(1));
        count_compute(&mut counted, &self.total_requests(), &self.total_limits());
        counted
    }

    /// An upper bound of the steps in which its amounts are computed and its containers are checked: each container may
    /// name every resource.
    pub(super) fn steps(&self) -> usize {
        let Status { container_statuses, init_container_statuses, .. } = &self.status;
        let names =
            |requirements: &Requirements| requirements.requests.len() + requirements.limits.len();
        let of_containers = self.containers().map(|container| 1 + names(&container.resources));
        let statuses = container_statuses.iter().chain(init_container_statuses);
        let of_statuses = statuses.map(|status| {
            let running = status.resources.as_ref().map_or(0, names);
            1 + status.allocated_resources.len() + running
        });
        let of_pod = self.spec.resources.as_ref().map_or(0, names) + self.spec.overhead.len();
        let names: usize = of_containers.chain(of_statuses).sum();
        self.containers().count() * (names + of_pod)
    }

    /// Its traits.
    pub fn traits(&self) -> PodTraits {
        let affinity = &self.spec.affinity;
        PodTraits {
            best_effort: self.is_best_effort(),
            terminating: self.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
            priority_class: self.spec.priority_class_name.clone(),
            cross_namespace_affinity: affinity.pod_affinity.look_elsewhere()
                || affinity.pod_anti_affinity.look_elsewhere(),
        }
    }

    /// The claim that was made for its extended resources, once its status names the claim.
    pub fn extended_resource_claim(&self) -> Option<&Name> {
        let status = self.status.extended_resource_claim_status.as_ref();
        status.map(|status| &status.resource_claim_name)
    }

    /// The requirements of a quota on cpu or memory that a container does not meet, in Kubernetes' format (`must
    /// specify cpu for: a,b; limits.cpu for: a`). Zero is sufficient. There are no requirements if the pod has
    /// pod-level resources.
    ///
    /// Kubernetes calls this rule a mistake and restricts it to these six names.
    pub fn missing_requirements(&self, required: &[&str]) -> Option<String> {
        if self.spec.resources.as_ref().is_some_and(Requirements::is_pod_level) {
            return None;
        }
        let mut required = required.to_vec();
        required.sort_unstable();
        required.dedup();
        let missing: Vec<String> =
            required.into_iter().filter_map(|name| self.missing_for(name)).collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
    }

    fn missing_for(&self, name: &str) -> Option<String> {
        type Listed = fn(&Requirements) -> &ResourceList;
        let (listed, resource): (Listed, &str) = match name {
            "cpu" | "requests.cpu" => (|it| &it.requests, "cpu"),
            "memory" | "requests.memory" => (|it| &it.requests, "memory"),
            "limits.cpu" => (|it| &it.limits, "cpu"),
            "limits.memory" => (|it| &it.limits, "memory"),
            _ => return None,
        };
        let mut silent: Vec<&str> = self
            .containers()
            .filter(|container| listed(&container.resources).get(resource).is_none())
            .map(|container| container.name.as_str())
            .collect();
        silent.sort_unstable();
        silent.dedup();
        (!silent.is_empty()).then(|| format!("{name} for: {}", silent.join(",")))
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.containers.iter().chain(&self.spec.init_containers)
    }
}

impl Requirements {
    fn is_pod_level(&self) -> bool {
        self.requests.names().chain(self.limits.names()).any(|name| is_pod_level(name))
    }
}

/// Counts total requests and limits under the names of quotas.
fn count_compute(counted: &mut ResourceList, requests: &ResourceList, limits: &ResourceList) {
    for (resource, plain, requested, limited) in [
        ("cpu", &CPU, &REQUESTS_CPU, &LIMITS_CPU),
        ("memory", &MEMORY, &REQUESTS_MEMORY, &LIMITS_MEMORY),
        (
            "ephemeral-storage",
            &EPHEMERAL_STORAGE,
            &REQUESTS_EPHEMERAL_STORAGE,
            &LIMITS_EPHEMERAL_STORAGE,
        ),
    ] {
        if let Some(request) = requests.get(resource) {
            counted.insert(Name::clone(plain), request.clone());
            counted.insert(Name::clone(requested), request.clone());
        }
        if let Some(limit) = limits.get(resource) {
            counted.insert(Name::clone(limited), limit.clone());
        }
    }
    counted.extend(requests.mask(is_huge_pages));
    let others = requests.mask(is_counted_by_name);
    let others = others
        .into_iter()
        .map(|(name, request)| (format!("{REQUESTS_PREFIX}{name}").into(), request));
    counted.extend(others);
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether requests for a resource count under its own name: huge pages, devices and extended resources.
fn is_counted_by_name(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with(DEVICE_CLASS_PREFIX) || is_extended(name)
}

#[cfg(test)]
mod tests;
