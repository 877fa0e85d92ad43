//! The defaults that the API server fills in before admission, as far as they count.

use super::{
    names::{HUGE_PAGES_PREFIX, is_pod_level, may_be_overcommitted},
    pod::{Pod, Requirements, Spec, Status, total_limits_in_spec, total_requests_in_spec},
    volume_claim::VolumeClaim,
};
use crate::{Name, quantity::Scale, resource::ResourceList};

impl Pod {
    /// Fills in requests from limits and pod-level requests from both, then rounds every amount up to thousandths.
    pub(super) fn set_api_defaults(&mut self) {
        let spec = &mut self.spec;
        for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
            let Requirements { requests, limits } = &mut container.resources;
            fill_in(requests, limits, |_| true);
        }
        set_pod_level_defaults(spec);

        for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
            container.resources.round_up();
        }
        if let Some(pod_level) = &mut spec.resources {
            pod_level.round_up();
        }
        round_up(&mut spec.overhead);
        self.round_up_status();
    }

    /// Rounds the amounts in the status up to thousandths.
    fn round_up_status(&mut self) {
        let Status { container_statuses, init_container_statuses, .. } = &mut self.status;
        for status in container_statuses.iter_mut().chain(init_container_statuses) {
            round_up(&mut status.allocated_resources);
            if let Some(actual) = &mut status.resources {
                actual.round_up();
            }
        }
    }
}

impl VolumeClaim {
    /// Rounds every amount up to thousandths.
    pub(super) fn set_api_defaults(&mut self) {
        round_up(&mut self.spec.resources.requests);
        round_up(&mut self.status.allocated_resources);
    }
}

impl Requirements {
    fn round_up(&mut self) {
        round_up(&mut self.requests);
        round_up(&mut self.limits);
    }
}

/// If the pod has resources of its own: huge page limits come from the containers' limits,
/// requests from the containers' requests and then from the limits.
fn set_pod_level_defaults(spec: &mut Spec) {
    let Some(mut pod_level) = spec.resources.take() else {
        return;
    };
    let Requirements { requests, limits } = &mut pod_level;
    if !(requests.is_empty() && limits.is_empty()) {
        fill_in(limits, &total_limits_in_spec(spec), |name| {
            name.starts_with(HUGE_PAGES_PREFIX) && requests.get(name).is_none()
        });
    }
    if !limits.is_empty() {
        fill_in(requests, &total_requests_in_spec(spec), |name| {
            is_pod_level(name) && may_be_overcommitted(name)
        });
        fill_in(requests, limits, is_pod_level);
    }
    spec.resources = Some(pod_level);
}

/// Copies from `source` the names that pass and that `list` does not have.
fn fill_in(list: &mut ResourceList, source: &ResourceList, passes: impl Fn(&str) -> bool) {
    let lacking = source.mask(|name| passes(name) && list.get(name).is_none());
    list.extend(lacking);
}

/// Rounds every amount up to thousandths, the precision of the API.
fn round_up(list: &mut ResourceList) {
    let rounded: Vec<_> = list
        .iter()
        .map(|(name, amount)| {
            let mut amount = amount.clone();
            amount.round_up(Scale::Milli);
            (Name::clone(name), amount)
        })
        .collect();
    *list = rounded.into_iter().collect();
}
