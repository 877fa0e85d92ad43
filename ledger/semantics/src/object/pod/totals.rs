//! The requests and limits of a whole pod.

use std::borrow::Cow;

use super::{Container, Pod, Spec};
use crate::{Name, object::names::is_pod_level, quantity::Quantity, resource::ResourceList};

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
