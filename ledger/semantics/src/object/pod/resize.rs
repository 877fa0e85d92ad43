//! Containers that are being resized in place: the largest of the requested, the allotted and the running amounts. A
//! resize that the node reports as infeasible will not happen: then the requested amount does not count.

use std::borrow::Cow;

use super::{Container, ContainerStatus, Pod, Requirements, totals::raise};
use crate::resource::ResourceList;

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
