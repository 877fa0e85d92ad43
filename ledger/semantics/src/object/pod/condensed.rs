//! Pods in as few bytes as possible.

use super::{
    Affinity, AffinityTerm, AffinityTerms, Container, Pod, Requirements, Spec, Status,
    is_counted_by_name,
};
use crate::{Name, object::metadata::Present, quantity::Quantity, resource::ResourceList};

/// The resources that Kubernetes itself defines for every container.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

impl Pod {
    /// Replaces all containers by one with the totals of the pod, and keeps of all other fields only what counts. As
    /// [`Object::condense`](crate::object::Object::condense).
    pub(in crate::object) fn condense(&mut self, max_bytes: usize) -> usize {
        let is_compute = |name: &str| COMPUTE.contains(&name);
        let mut requests = canonical(self.total_requests());
        requests.retain(|name, _| is_compute(name) || is_counted_by_name(name));
        let left_out = shorten(&mut requests, max_bytes, is_compute);
        let limits = canonical(self.total_limits().mask(is_compute));
        // Of the totals it does not follow any more.
        let qos_class = match self.is_best_effort() {
            true => "BestEffort",
            false => "Burstable",
        };
        let affinity = match self.traits().cross_namespace_affinity {
            true => Affinity::elsewhere(),
            false => Affinity::default(),
        };
        let phase = match self.is_terminal() {
            true => std::mem::take(&mut self.status.phase),
            false => Name::default(),
        };
        self.spec = Spec {
            containers: vec![Container {
                resources: Requirements { requests, limits },
                ..Container::default()
            }],
            active_deadline_seconds: self.spec.active_deadline_seconds,
            priority_class_name: std::mem::take(&mut self.spec.priority_class_name),
            affinity,
            ..Spec::default()
        };
        self.status = Status {
            phase,
            qos_class: Name::from(qos_class),
            extended_resource_claim_status: self.status.extended_resource_claim_status.take(),
            ..Status::default()
        };
        left_out
    }
}

impl Affinity {
    /// The shortest one that looks into other namespaces.
    fn elsewhere() -> Self {
        let term = AffinityTerm { namespace_selector: Some(Present), ..AffinityTerm::default() };
        Self {
            pod_affinity: AffinityTerms {
                required_during_scheduling_ignored_during_execution: vec![term],
                ..AffinityTerms::default()
            },
            ..Self::default()
        }
    }
}

/// The same amounts, in their usual spelling: another one may have any number of zeros.
pub(in crate::object) fn canonical(amounts: ResourceList) -> ResourceList {
    let canonical = |(name, amount): (Name, Quantity)| {
        let format = amount.format();
        (name, amount.in_format(format))
    };
    amounts.into_iter().map(canonical).collect()
}

/// Leaves out amounts if more than this many bytes of JSON are taken by others than those that are kept: zeros, which count
/// nothing, and then the last ones by name. Returns how many of the latter.
fn shorten(amounts: &mut ResourceList, max_bytes: usize, is_kept: impl Fn(&str) -> bool) -> usize {
    let length = |name: &Name, amount: &Quantity| match is_kept(name) {
        true => 0,
        false => name.len() + amount.to_string().len() + r#""":"","#.len(),
    };
    let lengths = amounts.iter().map(|(name, amount)| length(name, amount));
    if lengths.sum::<usize>() <= max_bytes {
        return 0;
    }
    amounts.retain(|name, amount| is_kept(name) || !amount.is_zero());
    let before = amounts.len();
    let mut taken = 0;
    amounts.retain(|name, amount| {
        taken += length(name, amount);
        taken <= max_bytes || is_kept(name)
    });
    before - amounts.len()
}
