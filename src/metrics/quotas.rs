//! `kube_resourcequota`: written at scrape time from the state, with a bounded number of series.

use std::sync::atomic::{AtomicBool, Ordering};

use quota_core::state::{GroupView, MemberView};

use super::{
    labels::Limit,
    table::{self, limit_reached},
    text::{head, sample},
};

/// Figures of one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaSample<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// When it was created, in seconds since 1970.
    pub created: f64,
    /// Its resources.
    pub resources: Vec<ResourceSample<'a>>,
}

/// Figures of one resource of a quota, in base units (cores, bytes, objects).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceSample<'a> {
    /// Its name.
    pub resource: &'a str,
    /// The limit.
    pub hard: f64,
    /// The used amount.
    pub used: f64,
    /// The reserved amount.
    pub reserved: f64,
    /// Whether the webhook checks requests against this limit.
    pub enforced: bool,
}

/// The source of quotas, read at each scrape.
pub trait QuotaSource: Send + Sync {
    /// Visits every quota, always in the same order.
    fn visit(&self, visitor: &mut dyn FnMut(QuotaSample<'_>));

    /// Visits every group, always in the same order.
    fn visit_groups(&self, visitor: &mut dyn FnMut(&GroupView));

    /// Visits the usage of each namespace of a group.
    fn visit_members(&self, group: &str, visitor: &mut dyn FnMut(&MemberView));
}

impl QuotaSample<'_> {
    /// Series of the quota in all metrics.
    fn series(&self) -> usize {
        let open = self
            .resources
            .iter()
            .filter(|limit| !limit.enforced)
            .count();
        1 + KINDS.len() * self.resources.len() + open
    }

    /// The largest share of a limit that is used or reserved. A limit of 0 is full.
    fn fullness(&self) -> f64 {
        let shares = self.resources.iter().map(|resource| {
            let held = resource.used + resource.reserved;
            match resource.hard > 0.0 {
                true => held / resource.hard,
                false => 1.0,
            }
        });
        shares.fold(0.0, f64::max)
    }
}

/// The values of the label `type`.
const KINDS: [&str; 3] = ["hard", "used", "reserved"];

/// The quotas or groups that have series.
pub(super) enum Exported {
    All,
    /// Sorted indexes in the order of visits.
    Only(Vec<usize>),
}

impl Exported {
    pub(super) fn has(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(places) => places.binary_search(&place).is_ok(),
        }
    }

    /// How many of `all` have no series.
    pub(super) fn left_out(&self, all: usize) -> usize {
        match self {
            Self::All => 0,
            Self::Only(places) => all - places.len(),
        }
    }
}

/// Writes whole quotas, the fullest first, while they have at most `most` series together. Reports how many are left
/// out, in the metric and, when that begins, in the log. Answers how many series remain.
pub(super) fn render(text: &mut String, source: &dyn QuotaSource, most: usize) -> usize {
    let mut quotas = Vec::new();
    source.visit(&mut |quota| quotas.push((quota.fullness(), quota.series())));
    let (exported, left) = choose(&quotas, most);
    let left_out = exported.left_out(quotas.len());
    report(left_out, most);
    let mut amounts = String::new();
    let mut created = String::new();
    let mut open = String::new();
    let mut place = 0;
    source.visit(&mut |quota| {
        if exported.has(place) {
            write(&mut amounts, &mut created, &quota);
            write_not_enforced(&mut open, &quota);
        }
        place += 1;
    });
    head(text, &table::KUBE_RESOURCEQUOTA);
    text.push_str(&amounts);
    head(text, &table::KUBE_RESOURCEQUOTA_CREATED);
    text.push_str(&created);
    head(text, &table::LIMIT_NOT_ENFORCED);
    text.push_str(&open);
    head(text, &table::QUOTAS_LEFT_OUT);
    sample(text, &table::QUOTAS_LEFT_OUT, &[], left_out as f64);
    left
}

/// Chooses what to export, given how full each item is and how many series it has: the fullest items, while they have
/// at most `most` series together. Answers also how many series remain.
pub(super) fn choose(all: &[(f64, usize)], most: usize) -> (Exported, usize) {
    let total = all.iter().map(|(_, series)| series).sum();
    if let Some(left) = most.checked_sub(total) {
        return (Exported::All, left);
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].0.total_cmp(&all[*a].0));
    let mut left = most;
    let mut places: Vec<usize> = order
        .into_iter()
        .filter(|place| match left.checked_sub(all[*place].1) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        })
        .collect();
    places.sort_unstable();
    (Exported::Only(places), left)
}

fn report(left_out: usize, most: usize) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let some = left_out > 0;
    if some {
        limit_reached(Limit::MetricsSeries);
    }
    if some && !REPORTED.swap(some, Ordering::Relaxed) {
        tracing::warn!(
            left_out,
            "limits.metrics_series" = most,
            "quotas are left out of the metrics"
        );
    } else if !some {
        REPORTED.store(false, Ordering::Relaxed);
    }
}

fn write(amounts: &mut String, created: &mut String, quota: &QuotaSample<'_>) {
    for resource in &quota.resources {
        let numbers = [resource.hard, resource.used, resource.reserved];
        for (kind, number) in KINDS.into_iter().zip(numbers) {
            let labels = [quota.name, quota.namespace, resource.resource, kind];
            sample(amounts, &table::KUBE_RESOURCEQUOTA, &labels, number);
        }
    }
    let labels = [quota.name, quota.namespace];
    sample(
        created,
        &table::KUBE_RESOURCEQUOTA_CREATED,
        &labels,
        quota.created,
    );
}

fn write_not_enforced(open: &mut String, quota: &QuotaSample<'_>) {
    for resource in quota.resources.iter().filter(|limit| !limit.enforced) {
        let labels = [quota.name, quota.namespace, resource.resource];
        sample(open, &table::LIMIT_NOT_ENFORCED, &labels, 1.0);
    }
}
