//! Containers that are being resized in place: the largest of what was requested, what the node
//! allotted, and what runs. A resize that the node calls infeasible will not happen: then what was
//! requested does not count.

use std::borrow::Cow;

use super::{Container, ContainerStatus, Pod, Requirements, totals::raise};
use crate::resource::ResourceList;

impl Pod {
    /// The requests of a container that runs beside others, resize included.
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

    /// The limits of a container that runs beside others, resize included.
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

    /// Its status, if that says what it runs with. Names are unique in a pod that was admitted;
    /// in any other the last status wins, as in Kubernetes.
    fn actual(&self, container: &Container) -> Option<(&ContainerStatus, &Requirements)> {
        let init = self.status.init_container_statuses.iter().rev();
        let status = init
            .chain(self.status.container_statuses.iter().rev())
            .find(|status| status.name == container.name)?;
        Some((status, status.resources.as_ref()?))
    }

    fn requested_unless_infeasible(&self, requested: &ResourceList) -> ResourceList {
        let pending = self
            .status
            .conditions
            .iter()
            .find(|it| it.kind == "PodResizePending");
        if pending.is_some_and(|condition| condition.reason == "Infeasible") {
            ResourceList::new()
        } else {
            requested.clone()
        }
    }
}
