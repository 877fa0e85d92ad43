//! What is said of a request although it is granted: limits that are not enforced, and soft ones.

use super::{Audience, Notice, reserve::Case};
use crate::state::{Counted, State};
use quota_semantics::{
    Name,
    admission::{Charge, Limit},
    group::Enforcement,
    object::Footprint,
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
};

impl Case<'_> {
    /// What is to be said when these charges are granted.
    pub(super) fn notices(&self, state: &State, charges: &[Charge]) -> Vec<Notice> {
        let limits = self.limits(state);
        let plain = |limit: &&Counted<'_>| {
            let is_enforced = limit.enforcement() == Enforcement::Enforce;
            is_enforced && limit.has_no_soft_limits()
        };
        if limits.iter().all(|limit| plain(&limit)) {
            return Vec::new();
        }
        let mut notices = Vec::new();
        for limit in &limits {
            notices.extend(self.passed(limit));
        }
        for charge in charges {
            notices.extend(soft(&limits[charge.limit], &charge.delta));
        }
        notices
    }

    /// What a limit that is not enforced would have said.
    fn passed(&self, limit: &Counted<'_>) -> Option<Notice> {
        let audience = match limit.enforcement() {
            Enforcement::Enforce => return None,
            Enforcement::Warn => Audience::Caller,
            Enforcement::Audit => Audience::Auditors,
        };
        let strict = [Strict(limit)];
        let denied = self.evaluate_against(&strict, &[]).err()?;
        Some(Notice {
            quota: limit.name().clone(),
            kind: limit.kind(),
            audience,
            message: denied.to_string(),
        })
    }
}

fn soft(limit: &Counted<'_>, delta: &ResourceList) -> Vec<Notice> {
    let above = |(resource, growth): (&Name, &Quantity)| {
        let soft = limit.soft(resource)?;
        let mut total = limit.counted(resource).unwrap_or_default();
        total.add_assign(growth);
        (total > *soft).then(|| Notice {
            quota: limit.name().clone(),
            kind: limit.kind(),
            audience: Audience::Caller,
            message: format!(
                "quota {}: {resource} is at {total}, above its soft limit of {soft}",
                limit.name()
            ),
        })
    };
    delta.iter().filter_map(above).collect()
}

/// A limit as if it were enforced.
struct Strict<'a>(&'a Counted<'a>);

impl Limit for Strict<'_> {
    fn name(&self) -> &Name {
        self.0.name()
    }
    fn spec(&self) -> &Spec {
        self.0.spec()
    }
    fn hard(&self) -> &ResourceList {
        self.0.hard()
    }
    fn selects(&self, footprint: &Footprint) -> bool {
        self.0.selects(footprint)
    }
    fn counted(&self, resource: &str) -> Option<Quantity> {
        self.0.counted(resource)
    }
    fn growth<'a>(&'a self, amounts: &'a ResourceList) -> &'a ResourceList {
        self.0.growth(amounts)
    }
}
