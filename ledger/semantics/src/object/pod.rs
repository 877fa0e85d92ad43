//! Pods: the resources that their containers may use, while they live.

mod condensed;

pub(super) use condensed::canonical;

use std::borrow::Cow;

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
    Name, Span, Timestamp, nullable::nullable_fields, quantity::Quantity, resource::ResourceList,
};

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
        if self.has_ended(now) {
            return ResourceList::from_sorted(vec![(COUNT_PODS.clone(), Quantity::from_units(1))]);
        }
        counted(&self.total_requests(), &self.total_limits())
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

/// What a pod with these total requests and limits counts for, under the names of quotas.
fn counted(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let one = Quantity::from_units(1);
    let compute: [&Name; 3] = [&CPU, &EPHEMERAL_STORAGE, &MEMORY];
    let [cpu, storage, memory] = compute.map(|name| requests.get(name));
    let [limited_cpu, limited_storage, limited_memory] = compute.map(|name| limits.get(name));
    // Sorted by name.
    let amounts = [
        (&COUNT_PODS, Some(&one)),
        (&CPU, cpu),
        (&EPHEMERAL_STORAGE, storage),
        (&LIMITS_CPU, limited_cpu),
        (&LIMITS_EPHEMERAL_STORAGE, limited_storage),
        (&LIMITS_MEMORY, limited_memory),
        (&MEMORY, memory),
        (&PODS, Some(&one)),
        (&REQUESTS_CPU, cpu),
        (&REQUESTS_EPHEMERAL_STORAGE, storage),
        (&REQUESTS_MEMORY, memory),
    ];
    let mut counted = Vec::with_capacity(amounts.len());
    counted.extend(
        amounts.into_iter().filter_map(|(name, amount)| Some((Name::clone(name), amount?.clone()))),
    );
    let mut counted = ResourceList::from_sorted(counted);
    let has_others = requests.len() > [cpu, storage, memory].into_iter().flatten().count();
    if has_others {
        counted.extend(requests.mask(is_huge_pages));
        let others = requests.mask(is_counted_by_name).into_iter();
        counted.extend(
            others.map(|(name, request)| (format!("{REQUESTS_PREFIX}{name}").into(), request)),
        );
    }
    counted
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether requests for a resource count under its own name: huge pages, devices and extended resources.
fn is_counted_by_name(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with(DEVICE_CLASS_PREFIX) || is_extended(name)
}

impl Pod {
    /// The total requests of the pod, with its overhead.
    pub(super) fn total_requests(&self) -> ResourceList {
        let mut total = sum(
            &self.spec,
            |container| self.effective_requests(container),
            |starting| &starting.resources.requests,
        );
        if let Some(pod_level) = &self.spec.resources {
            replace(&mut total, &pod_level.requests);
        }
        total.add(&self.spec.overhead);
        total
    }

    /// The total limits of the pod. The overhead raises an existing limit, but does not create one.
    pub(super) fn total_limits(&self) -> ResourceList {
        let mut total = sum(
            &self.spec,
            |container| self.effective_limits(container),
            |starting| &starting.resources.limits,
        );
        if let Some(pod_level) = &self.spec.resources {
            replace(&mut total, &pod_level.limits);
        }
        let mut overhead = self.spec.overhead.clone();
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
        total.add(&overhead);
        total
    }
}

/// The requests of all containers in the spec, regardless of the status.
pub(in crate::object) fn total_requests_in_spec(spec: &Spec) -> ResourceList {
    sum(
        spec,
        |container| Cow::Borrowed(&container.resources.requests),
        |starting| &starting.resources.requests,
    )
}

/// The limits of all containers in the spec, regardless of the status.
pub(in crate::object) fn total_limits_in_spec(spec: &Spec) -> ResourceList {
    sum(
        spec,
        |container| Cow::Borrowed(&container.resources.limits),
        |starting| &starting.resources.limits,
    )
}

/// The largest sum of the containers at any moment of the pod's life: all containers and sidecars together, or any step
/// of the start, where an init container runs beside the sidecars before it.
///
/// The order is Kubernetes': a sum is written in the style of its first summand that is not zero. A step is looked at for
/// the names of its own container only: of all others the peak has what the sidecars use.
fn sum<'p>(
    spec: &'p Spec,
    running: impl Fn(&'p Container) -> Cow<'p, ResourceList>,
    starting: impl Fn(&'p Container) -> &'p ResourceList,
) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &spec.containers {
        total.add(&running(container));
    }
    let mut sidecars = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in &spec.init_containers {
        if container.is_restartable() {
            let own = running(container);
            total.add(&own);
            sidecars.add(&own);
            let grown = sidecars.common(&own);
            let grown = grown.map(|(name, sum, _)| (name.clone(), sum.clone()));
            raise(&mut peak, &grown.collect());
        } else {
            raise(&mut peak, &beside(&sidecars, starting(container)));
        }
    }
    raise(&mut total, &peak);
    total
}

/// The amounts of an init container, with those that the sidecars use of the same resources.
fn beside(sidecars: &ResourceList, own: &ResourceList) -> ResourceList {
    let with_sidecars = |(name, amount): (&Name, &Quantity)| {
        let mut sum = amount.clone();
        if let Some(used) = sidecars.get(name) {
            sum.add_assign(used);
        }
        (name.clone(), sum)
    };
    own.iter().map(with_sidecars).collect()
}

/// Pod-level resources replace the sum, name by name.
fn replace(total: &mut ResourceList, pod_level: &ResourceList) {
    total.extend(pod_level.mask(is_pod_level));
}

/// Raises each name to the amount in `other`, if that is larger. Of equal amounts the first one keeps its spelling,
/// unlike in [`ResourceList::max`].
pub(super) fn raise(list: &mut ResourceList, other: &ResourceList) {
    let is_larger = |name: &Name, amount: &Quantity| list.get(name).is_none_or(|own| amount > own);
    let larger = other.iter().filter(|(name, amount)| is_larger(name, amount));
    let larger: ResourceList =
        larger.map(|(name, amount)| (name.clone(), amount.clone())).collect();
    list.extend(larger);
}

impl Pod {
    /// The requests of a container that runs beside others, including a resize.
    pub(super) fn effective_requests<'p>(
        &'p self,
        container: &'p Container,
    ) -> Cow<'p, ResourceList> {
        let requested = &container.resources.requests;
        let Some((status, actual)) = self.actual(container) else {
            return Cow::Borrowed(requested);
        };
        let mut largest = self.requested_unless_infeasible(requested);
        raise(&mut largest, &actual.requests);
        raise(&mut largest, &status.allocated_resources);
        Cow::Owned(largest)
    }

    /// The limits of a container that runs beside others, including a resize.
    pub(super) fn effective_limits<'p>(
        &'p self,
        container: &'p Container,
    ) -> Cow<'p, ResourceList> {
        let requested = &container.resources.limits;
        let Some((_, actual)) = self.actual(container) else {
            return Cow::Borrowed(requested);
        };
        let mut largest = self.requested_unless_infeasible(requested);
        raise(&mut largest, &actual.limits);
        Cow::Owned(largest)
    }

    /// The status and the running resources of a container, if its status has them. Names are unique in a pod that was
    /// admitted; in any other the last status wins, as in Kubernetes.
    fn actual(&self, container: &Container) -> Option<(&ContainerStatus, &Requirements)> {
        let init = self.status.init_container_statuses.iter().rev();
        let status = init
            .chain(self.status.container_statuses.iter().rev())
            .find(|status| status.name == container.name)?;
        Some((status, status.resources.as_ref()?))
    }

    fn requested_unless_infeasible(&self, requested: &ResourceList) -> ResourceList {
        let pending =
            self.status.conditions.iter().find(|condition| condition.kind == "PodResizePending");
        if pending.is_some_and(|condition| condition.reason == "Infeasible") {
            ResourceList::new()
        } else {
            requested.clone()
        }
    }
}

impl Pod {
    /// Best effort: no container requests cpu or memory. The status takes precedence; pod-level resources, even empty
    /// ones, take precedence over those of containers.
    pub(super) fn is_best_effort(&self) -> bool {
        if !self.status.qos_class.is_empty() {
            return self.status.qos_class == "BestEffort";
        }
        match &self.spec.resources {
            Some(pod_level) => !pod_level.ask_for_compute(),
            None => !self.containers().any(|container| container.resources.ask_for_compute()),
        }
    }
}

impl Requirements {
    fn ask_for_compute(&self) -> bool {
        [&self.requests, &self.limits].into_iter().any(|list| {
            ["cpu", "memory"]
                .into_iter()
                .any(|name| list.get(name).is_some_and(Quantity::is_positive))
        })
    }
}

impl Pod {
    /// Whether only its existence (`count/pods`) counts at `now`.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.is_terminal() || self.overdue_after().is_some_and(|limit| now > limit)
    }

    /// The time after which, strictly, only its existence counts, since its node is unlikely to come back: the deletion
    /// time plus the grace period once more. `None` for a pod that is not being deleted, and for one that has ended.
    pub fn lapse(&self) -> Option<Timestamp> {
        if self.is_terminal() { None } else { self.overdue_after() }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    fn overdue_after(&self) -> Option<Timestamp> {
        let metadata = &self.metadata;
        let grace = Span::from_seconds(metadata.deletion_grace_period_seconds?);
        Some(metadata.deletion_timestamp?.plus(grace))
    }
}

#[cfg(test)]
mod tests;
