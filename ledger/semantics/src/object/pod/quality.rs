//! Quality of service, as far as quotas use it: best effort or not.

use super::{Pod, Requirements};
use crate::quantity::Quantity;

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
