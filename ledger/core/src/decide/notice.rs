//! Notices about granted requests: limits that are exceeded without being enforced, and soft limits.

use super::{Audience, Notice, case::Case};
use crate::state::Counted;
use quota_semantics::{
    Name,
    admission::{GrownLimits, Limit as _},
    group::Enforcement,
    quantity::Quantity,
};

impl Case<'_> {
    /// The notices for a grant with this growth of [`Case::limits`].
    pub(super) fn notices(&self, limits: Vec<Counted<'_>>, grown: &GrownLimits<'_>) -> Vec<Notice> {
        let plain = |limit: &&Counted<'_>| {
            let is_enforced = limit.enforcement() == Enforcement::Enforce;
            is_enforced && limit.has_no_soft_limits()
        };
        if limits.iter().all(|limit| plain(&limit)) {
            return Vec::new();
        }
        let grown = grown.iter(&limits);
        let soft: Vec<_> = grown.flat_map(|(place, growth)| soft(&limits[place], growth)).collect();
        let passed = limits.into_iter().filter_map(|limit| self.passed(limit));
        passed.chain(soft).collect()
    }

    /// The denial that an unenforced limit would have given.
    fn passed(&self, limit: Counted<'_>) -> Option<Notice> {
        let audience = match limit.enforcement() {
            Enforcement::Enforce => return None,
            Enforcement::Warn => Audience::Caller,
            Enforcement::Audit => Audience::Auditors,
        };
        let (quota, kind) = (limit.name().clone(), limit.kind());
        let strict = [limit.enforced()];
        let denied = self.evaluate_against(&strict, &[]).err()?;
        Some(Notice { quota, kind, audience, message: denied.to_string() })
    }
}

fn soft<'c>(
    limit: &Counted<'_>,
    growth: impl Iterator<Item = (&'c Name, &'c Quantity, &'c Quantity)>,
) -> Vec<Notice> {
    let above = |(resource, growth, _): (&Name, &Quantity, _)| {
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
    growth.filter_map(above).collect()
}
