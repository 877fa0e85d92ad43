//! Quality of service, as far as quotas ask: best effort or not.

use super::{Pod, Requirements};
use crate::quantity::Quantity;

impl Pod {
    /// Best effort: nothing asks for cpu or memory. What the status says goes first; resources
    /// of the pod as a whole, even none, go before those of its containers.
    pub(super) fn is_best_effort(&self) -> bool {
        if !self.status.qos_class.is_empty() {
            return self.status.qos_class == "BestEffort";
        }
        match &self.spec.resources {
            Some(pod_level) => !pod_level.ask_for_compute(),
            None => !self
                .containers()
                .any(|container| container.resources.ask_for_compute()),
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
